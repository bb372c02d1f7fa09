package pipe

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tlsConfig takes the options that say how a target is known: cacert, cert, key
// and insecure. A target without TLS has none of them.
func (t *Target) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.URL.Hostname(), MinVersion: tls.VersionTLS12}
	if file := t.Option("cacert", ""); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the option cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the option cacert: %s holds no certificate", file)
		}
	}
	cert, key := t.Option("cert", ""), t.Option("key", "")
	if (cert == "") != (key == "") {
		return nil, errors.New("the options cert and key go together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("the options cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	var err error
	config.InsecureSkipVerify, err = parseYes("insecure", t.Option("insecure", "no"))
	return config, err
}
