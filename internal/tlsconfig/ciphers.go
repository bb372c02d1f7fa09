package tlsconfig

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// suite names a cipher suite of TLS 1.2 and before as OpenSSL does.
type suite struct {
	name string
	id   uint16
}

// ciphers are those that can be had, the better ones first. crypto/tls has RC4
// and triple DES too, which nobody gets.
var ciphers = []suite{
	{"ECDHE-ECDSA-AES128-GCM-SHA256", tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	{"ECDHE-RSA-AES128-GCM-SHA256", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
	{"ECDHE-ECDSA-AES256-GCM-SHA384", tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384},
	{"ECDHE-RSA-AES256-GCM-SHA384", tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384},
	{"ECDHE-ECDSA-CHACHA20-POLY1305", tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256},
	{"ECDHE-RSA-CHACHA20-POLY1305", tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256},
	{"ECDHE-ECDSA-AES128-SHA", tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA},
	{"ECDHE-RSA-AES128-SHA", tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA},
	{"ECDHE-ECDSA-AES256-SHA", tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA},
	{"ECDHE-RSA-AES256-SHA", tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA},
	{"ECDHE-ECDSA-AES128-SHA256", tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256},
	{"ECDHE-RSA-AES128-SHA256", tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256},
	{"AES128-GCM-SHA256", tls.TLS_RSA_WITH_AES_128_GCM_SHA256},
	{"AES256-GCM-SHA384", tls.TLS_RSA_WITH_AES_256_GCM_SHA384},
	{"AES128-SHA256", tls.TLS_RSA_WITH_AES_128_CBC_SHA256},
	{"AES128-SHA", tls.TLS_RSA_WITH_AES_128_CBC_SHA},
	{"AES256-SHA", tls.TLS_RSA_WITH_AES_256_CBC_SHA},
}

// never are classes of OpenSSL's of which nothing is there: to exclude them says
// nothing.
var never = []string{
	"aNULL", "eNULL", "NULL", "ADH", "AECDH", "aDSS", "DSS", "MD5", "RC2", "RC4", "DES", "3DES", "IDEA", "SEED", "CAMELLIA", "ARIA",
	"EXP", "EXPORT", "LOW", "PSK", "kPSK", "aPSK", "SRP", "kSRP", "kDH", "DH", "kDHE", "DHE", "kECDH", "aECDH", "SSLv2", "SSLv3",
}

// suites reads tls-ciphers: names of OpenSSL, or those of the standard, and
// DEFAULT, HIGH and ALL for what crypto/tls takes by itself; with ! or - in front
// they are left out. nil is the default.
func suites(text string) ([]uint16, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == ',' || r == ' ' })
	if len(words) == 0 {
		return nil, nil
	}
	var chosen, barred []uint16
	for _, w := range words {
		name := strings.TrimLeft(w, "!-")
		without := len(name) < len(w)
		if without && len(name) == len(w)-1 && slices.Contains(never, name) {
			continue
		}
		ids := named(name)
		if ids == nil || len(w)-len(name) > 1 {
			return nil, fmt.Errorf("%q is not supported: name some of %s, or DEFAULT, separated by colons, and with ! in front what to leave out", w, cipherNames())
		}
		for _, id := range ids {
			if without {
				chosen = slices.DeleteFunc(chosen, func(c uint16) bool { return c == id })
				if w[0] == '!' {
					barred = append(barred, id)
				}
			} else if !slices.Contains(chosen, id) && !slices.Contains(barred, id) {
				chosen = append(chosen, id)
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%q leaves none; name some of %s", text, cipherNames())
	}
	return chosen, nil
}

// named returns the suites of a word; nil if it is none.
func named(word string) []uint16 {
	if word == "DEFAULT" || word == "HIGH" || word == "ALL" {
		return defaultSuites()
	}
	for _, c := range ciphers {
		if c.name == word || tls.CipherSuiteName(c.id) == word {
			return []uint16{c.id}
		}
	}
	return nil
}

func defaultSuites() (ids []uint16) {
	for _, s := range tls.CipherSuites() {
		if slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func cipherNames() string {
	names := make([]string, len(ciphers))
	for i, c := range ciphers {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

// suites13 are those of TLS 1.3. Which of them is used cannot be chosen.
var suites13 = []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}

// checkSuites13 takes a tls-ciphersuites that means what is done anyway.
func checkSuites13(text string) error {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == ',' || r == ' ' })
	if len(words) == 0 {
		return nil
	}
	for _, s := range suites13 {
		if !slices.Contains(words, s) {
			return fmt.Errorf("%q leaves out %s, and those of TLS 1.3 cannot be chosen: leave it empty, or name all of %s", text, s, strings.Join(suites13, ":"))
		}
	}
	for _, w := range words {
		if !slices.Contains(suites13, w) {
			return fmt.Errorf("%q is not supported: leave it empty, or name all of %s", w, strings.Join(suites13, ":"))
		}
	}
	return nil
}
