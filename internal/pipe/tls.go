package pipe

import (
	"crypto/tls"
	"errors"
	"fmt"

	"kevy/internal/client"
)

// tlsConfig takes the options that say how a target is known: cacert, cert, key
// and insecure. A target without TLS has none of them.
func (t *Target) tlsConfig() (*tls.Config, error) {
	files := client.Certificates{CA: t.Option("cacert", ""), Cert: t.Option("cert", ""), Key: t.Option("key", "")}
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("the options cert and key go together")
	}
	config, err := files.Config()
	if err != nil {
		return nil, fmt.Errorf("the option %w", err)
	}
	config.ServerName = t.URL.Hostname()
	config.InsecureSkipVerify, err = parseYes("insecure", t.Option("insecure", "no"))
	return config, err
}
