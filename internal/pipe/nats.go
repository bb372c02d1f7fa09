package pipe

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strings"

	"kevy/internal/pipe/nats"
)

const natsPort = "4222"

// openNATS opens nats://[user:password@|token@]host[:port][,host…]/stream, a
// stream of JetStream; with TLS as natss. The options are those of package nats.
func openNATS(t *Target) (Sink, error) {
	o := nats.Options{
		Stream:   strings.Trim(t.URL.Path, "/"),
		ID:       t.Name,
		Streams:  t.Streams,
		Snapshot: t.Snapshot || t.Anew,
		Logger:   t.Log,
	}
	user := ""
	if u := t.URL.User; u != nil {
		// A name without a password would be a token.
		if _, given := u.Password(); !given && os.Getenv(PasswordVariable) != "" {
			u = url.UserPassword(u.Username(), os.Getenv(PasswordVariable))
		}
		user = u.String() + "@"
	}
	for host := range strings.SplitSeq(t.URL.Host, ",") {
		if host == "" {
			return nil, errors.New("nats: no server: nats://host[:port][,host…]/stream")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), natsPort)
		}
		o.Servers = append(o.Servers, "nats://"+user+host)
	}
	if t.URL.Scheme == "natss" {
		config, err := t.tlsConfig()
		if err != nil {
			return nil, err
		}
		config.ServerName = "" // there are several
		o.TLS = config
	}
	for _, name := range nats.Names {
		if v := t.Option(name, ""); v != "" {
			if err := o.Set(name, v); err != nil {
				return nil, err
			}
		}
	}
	form, err := newRecordForm(t)
	if err != nil {
		return nil, err
	}
	o.Form = form
	return nats.New(o)
}
