// Package tlsconfig makes a server's configuration of crypto/tls out of files
// and of what the settings tls-… of Redis say. What crypto/tls cannot do is an
// error that says what it can.
package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Clients says whether clients show a certificate.
type Clients int

// The values of tls-auth-clients.
const (
	ClientsMust Clients = iota // yes
	ClientsNot                 // no
	ClientsMay                 // optional: none is as good as a right one
)

// Options are the settings. Their fields are named after them.
type Options struct {
	CertFile, KeyFile, KeyFilePass   string
	CACertFile, CACertDir            string
	AuthClients                      Clients
	Protocols, Ciphers, CipherSuites string
	SessionCaching                   bool
}

// Bounds of what is read.
const (
	maxFileBytes = 4 << 20
	maxCAFiles   = 10000 // of a directory
)

// Config reads the files and returns what a server needs. The error begins with
// the setting that it is about.
func (o Options) Config() (*tls.Config, error) {
	switch {
	case o.CertFile == "":
		return nil, errors.New("tls-cert-file: no certificate is named")
	case o.KeyFile == "":
		return nil, errors.New("tls-key-file: no key is named")
	}
	config := &tls.Config{SessionTicketsDisabled: !o.SessionCaching}
	cert, err := readFile(o.CertFile)
	if err != nil {
		return nil, fmt.Errorf("tls-cert-file: %w", err)
	}
	key, err := readKey(o.KeyFile, o.KeyFilePass)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls-cert-file %s with tls-key-file %s: %w", o.CertFile, o.KeyFile, err)
	}
	if pair.Leaf == nil { // with GODEBUG=x509keypairleaf=0
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("tls-cert-file %s: %w", o.CertFile, err)
		}
	}
	config.Certificates = []tls.Certificate{pair}
	if config.MinVersion, config.MaxVersion, err = versions(o.Protocols); err != nil {
		return nil, fmt.Errorf("tls-protocols: %w", err)
	}
	if config.CipherSuites, err = suites(o.Ciphers); err != nil {
		return nil, fmt.Errorf("tls-ciphers: %w", err)
	}
	if err := checkSuites13(o.CipherSuites); err != nil {
		return nil, fmt.Errorf("tls-ciphersuites: %w", err)
	}
	return config, o.trust(config)
}

// trust says which clients are let in.
func (o Options) trust(config *tls.Config) error {
	switch o.AuthClients {
	case ClientsNot:
		return nil
	case ClientsMay:
		config.ClientAuth = tls.VerifyClientCertIfGiven
	default:
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if o.CACertFile == "" && o.CACertDir == "" {
		return errors.New("tls-ca-cert-file: either tls-ca-cert-file or tls-ca-cert-dir must be named, as clients show certificates; " +
			"tls-auth-clients no serves them without")
	}
	config.ClientCAs = x509.NewCertPool()
	if o.CACertFile != "" {
		if err := trustFile(config.ClientCAs, o.CACertFile); err != nil {
			return fmt.Errorf("tls-ca-cert-file: %w", err)
		}
	}
	if o.CACertDir != "" {
		if err := trustDirectory(config.ClientCAs, o.CACertDir); err != nil {
			return fmt.Errorf("tls-ca-cert-dir: %w", err)
		}
	}
	return nil
}

func trustFile(pool *x509.CertPool, name string) error {
	text, err := readFile(name)
	if err != nil {
		return err
	}
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s holds no certificate", name)
	}
	return nil
}

// trustDirectory takes every certificate in it, whatever the names: OpenSSL
// would look for those that are hashes.
func trustDirectory(pool *x509.CertPool, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > maxCAFiles {
		return fmt.Errorf("%s holds %d files; at most %d are read", dir, len(entries), maxCAFiles)
	}
	found := false
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			continue // a link to nothing, as distributions have them
		}
		text, err := readFile(name)
		if err != nil {
			return err
		}
		found = pool.AppendCertsFromPEM(text) || found
	}
	if !found {
		return fmt.Errorf("no file in %s holds a certificate", dir)
	}
	return nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFileBytes:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("more than %d bytes", maxFileBytes)}
	}
	return text, nil
}

// protocols are in the order of their versions.
var protocols = []struct {
	name    string
	version uint16
}{
	{"TLSv1", tls.VersionTLS10}, {"TLSv1.1", tls.VersionTLS11}, {"TLSv1.2", tls.VersionTLS12}, {"TLSv1.3", tls.VersionTLS13},
}

// versions reads tls-protocols.
func versions(text string) (lowest, highest uint16, err error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return tls.VersionTLS12, tls.VersionTLS13, nil
	}
	var given [4]bool
	for _, w := range words {
		i := -1
		for j, p := range protocols {
			if strings.EqualFold(p.name, w) {
				i = j
			}
		}
		if i < 0 {
			return 0, 0, fmt.Errorf("%q is none; use a combination of TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3", w)
		}
		given[i] = true
	}
	first := slices.Index(given[:], true)
	last := len(given) - 1
	for !given[last] {
		last--
	}
	if slices.Contains(given[first:last+1], false) {
		return 0, 0, fmt.Errorf("%q leaves one out between two others, which cannot be done", text)
	}
	return protocols[first].version, protocols[last].version, nil
}
