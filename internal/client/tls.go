package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Certificates are files that say how the two ends of a connection know each
// other.
type Certificates struct {
	CA        string // of those to trust, "" for the system's
	Cert, Key string // our own, both or none
}

// Config reads them. What is said of TLS beside them is the caller's. An error
// begins with the name of the setting that it is about: cacert or cert.
func (c Certificates) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cacert: %s holds no certificate", c.CA)
		}
	}
	if c.Cert != "" || c.Key != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
