package tlsconfig

import (
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kevy/tests/certs"
	"kevy/tests/process"
)

func TestConfig(t *testing.T) {
	ca := certs.New(t)
	server, other := ca.Issue("server"), ca.Issue("other")
	empty, dir := filepath.Join(t.TempDir(), "empty"), t.TempDir()
	if err := os.WriteFile(empty, []byte("nothing here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	right := Options{CertFile: server.Cert, KeyFile: server.Key, CACertFile: ca.File}
	for _, test := range []struct {
		change func(o *Options)
		want   string // in the error; empty: there is none
	}{
		{func(o *Options) {}, ""},
		{func(o *Options) { o.CACertFile, o.CACertDir = "", filepath.Dir(ca.File) }, ""},
		{func(o *Options) { o.CACertFile, o.AuthClients = "", ClientsNot }, ""},
		{func(o *Options) { o.AuthClients = ClientsMay }, ""},
		{func(o *Options) { o.CertFile = "" }, "tls-cert-file: no certificate"},
		{func(o *Options) { o.KeyFile = "" }, "tls-key-file: no key"},
		{func(o *Options) { o.CertFile = "/nowhere" }, "tls-cert-file: open /nowhere"},
		{func(o *Options) { o.CertFile = empty }, "tls-cert-file " + empty},
		{func(o *Options) { o.CertFile = large }, "more than"},
		{func(o *Options) { o.KeyFile = "/nowhere" }, "tls-key-file: open /nowhere"},
		{func(o *Options) { o.KeyFile = server.Cert }, "tls-key-file: " + server.Cert + " holds no key"},
		{func(o *Options) { o.KeyFile = other.Key }, "tls-key-file " + other.Key + ": tls: private key does not match"},
		{func(o *Options) { o.CACertFile = "" }, "tls-ca-cert-file: either"},
		{func(o *Options) { o.CACertFile = "/nowhere" }, "tls-ca-cert-file: open /nowhere"},
		{func(o *Options) { o.CACertFile = empty }, "tls-ca-cert-file: " + empty + " holds no certificate"},
		{func(o *Options) { o.CACertDir = "/nowhere" }, "tls-ca-cert-dir: open /nowhere"},
		{func(o *Options) { o.CACertDir = dir }, "tls-ca-cert-dir: no file in " + dir},
		{func(o *Options) { o.Protocols = "TLSv1.4" }, `tls-protocols: "TLSv1.4" is none`},
		{func(o *Options) { o.Ciphers = "NULL" }, `tls-ciphers: "NULL" is not supported: name some of ECDHE-ECDSA-AES128-GCM-SHA256, `},
		{func(o *Options) { o.CipherSuites = "TLS_AES_128_GCM_SHA256" }, "tls-ciphersuites: "},
	} {
		o := right
		test.change(&o)
		config, err := o.Config()
		switch {
		case test.want == "" && (err != nil || len(config.Certificates) != 1):
			t.Errorf("%+v: %v", o, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%+v: error %v, want %q", o, err, test.want)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, test := range []struct {
		text            string
		lowest, highest uint16
	}{
		{"", tls.VersionTLS12, tls.VersionTLS13}, {"TLSv1.2", tls.VersionTLS12, tls.VersionTLS12}, {"tlsv1.3", tls.VersionTLS13, tls.VersionTLS13},
		{"TLSv1.3 TLSv1.2", tls.VersionTLS12, tls.VersionTLS13}, {"TLSv1 TLSv1.1 TLSv1.2", tls.VersionTLS10, tls.VersionTLS12},
		{"TLSv1 TLSv1.2", 0, 0}, {"TLSv1.1 TLSv1.3", 0, 0}, {"TLSv1.2,TLSv1.3", 0, 0}, {"SSLv3", 0, 0},
	} {
		lowest, highest, err := versions(test.text)
		if lowest != test.lowest || highest != test.highest || (err != nil) != (test.lowest == 0) {
			t.Errorf("%q: %x to %x, %v", test.text, lowest, highest, err)
		}
	}
}

func TestSuites(t *testing.T) {
	for _, test := range []struct {
		text string
		want []uint16
	}{
		{"", nil},
		{"AES128-SHA256", []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA256}},
		{"ECDHE-RSA-AES128-GCM-SHA256:TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}},
		{"AES128-SHA,!AES128-SHA AES128-SHA:AES256-SHA", []uint16{tls.TLS_RSA_WITH_AES_256_CBC_SHA}},
		{"AES128-SHA:-AES128-SHA:AES128-SHA", []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}},
		{"HIGH:!aNULL:!MD5", defaultSuites()},
	} {
		got, err := suites(test.text)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q: %x, %v", test.text, got, err)
		}
	}
	without, err := suites("DEFAULT:-ECDHE-RSA-AES128-GCM-SHA256")
	if err != nil || len(without) != len(defaultSuites())-1 || slices.Contains(without, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) {
		t.Errorf("%x, %v", without, err)
	}
	for _, bad := range []string{"RC4-SHA", "!AES128", "-MD5-X", "+HIGH", "@STRENGTH", "!AES128-SHA", "AES128-SHA:!AES128-SHA", "!!MD5", "x"} {
		if got, err := suites(bad); err == nil {
			t.Errorf("%q: %x", bad, got)
		}
	}
	for text, right := range map[string]bool{
		"": true, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384": true,
		"TLS_CHACHA20_POLY1305_SHA256": false, strings.Join(suites13, ":") + ":TLS_AES_128_CCM_SHA256": false,
	} {
		if err := checkSuites13(text); (err == nil) != right {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNames holds the table to what crypto/tls has.
func TestNames(t *testing.T) {
	for _, c := range ciphers {
		name := tls.CipherSuiteName(c.id)
		if strings.HasPrefix(name, "0x") || strings.Contains(name, "RC4") || strings.Contains(name, "3DES") {
			t.Errorf("%s is %s", c.name, name)
		}
	}
	for _, id := range defaultSuites() {
		if !slices.ContainsFunc(ciphers, func(c suite) bool { return c.id == id }) {
			t.Errorf("%s has no name of OpenSSL's", tls.CipherSuiteName(id))
		}
	}
	if len(defaultSuites()) < 6 {
		t.Errorf("%d suites by default", len(defaultSuites()))
	}
}

// TestEncryptedKeys reads what openssl writes, in the ways in which it does.
func TestEncryptedKeys(t *testing.T) {
	openssl := process.Tool(t, "openssl")
	ca := certs.New(t)
	pair := ca.Issue("server")
	for name, args := range map[string][]string{
		"pkcs8":        {"pkcs8", "-topk8", "-passout", "pass:secret"},
		"pkcs8-sha512": {"pkcs8", "-topk8", "-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA512", "-passout", "pass:secret"},
		"pkcs8-sha1":   {"pkcs8", "-topk8", "-v2", "aes-192-cbc", "-v2prf", "hmacWithSHA1", "-passout", "pass:secret"},
		"traditional":  {"ec", "-aes256", "-passout", "pass:secret"},
	} {
		out := filepath.Join(t.TempDir(), name)
		if text, err := exec.Command(openssl, append(args, "-in", pair.Key, "-out", out)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		o := Options{CertFile: pair.Cert, KeyFile: out, CACertFile: ca.File}
		for pass, want := range map[string]string{"secret": "", "": "there is no password", "wrong": "tls-key-file-pass: "} {
			o.KeyFilePass = pass
			_, err := o.Config()
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s with password %q: %v", name, pass, err)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "des")
	if text, err := exec.Command(openssl, "pkcs8", "-topk8", "-v2", "des3", "-passout", "pass:secret", "-in", pair.Key, "-out", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if _, err := (Options{CertFile: pair.Cert, KeyFile: out, KeyFilePass: "secret", CACertFile: ca.File}).Config(); err == nil || !strings.Contains(err.Error(), "PBES2") {
		t.Errorf("triple DES: %v", err)
	}
}

func FuzzDecryptPKCS8(f *testing.F) {
	f.Add([]byte("0"), "x")
	f.Add([]byte{0x30, 0x06, 0x30, 0x00, 0x04, 0x02, 0x01, 0x02}, "x")
	f.Fuzz(func(t *testing.T, der []byte, pass string) {
		if key, err := decryptPKCS8(der, pass); err == nil && len(key) == 0 {
			t.Error("no key and no error")
		}
	})
}
