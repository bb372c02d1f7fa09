package pipe

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"kevy/changes"
	"kevy/internal/pipe/kafka"
	"kevy/resp"
)

// openKafka opens kafka://[user:password@]broker[,broker…]/topic, with TLS as
// kafkas. The options are those of package kafka.
func openKafka(t *Target) (Sink, error) {
	o := kafka.Options{
		Topic:    strings.Trim(t.URL.Path, "/"),
		ID:       t.Name,
		Streams:  t.Streams,
		Snapshot: t.Snapshot || t.Anew,
		DBInKey:  t.Filter.AllDBs,
		Logger:   t.Log,
	}
	var err error
	if o.Brokers, err = kafka.Brokers(t.URL.Host); err != nil {
		return nil, err
	}
	if t.URL.User != nil {
		o.User = t.URL.User.Username()
		var given bool
		if o.Password, given = t.URL.User.Password(); !given {
			o.Password = os.Getenv(PasswordVariable)
		}
	}
	if t.URL.Scheme == "kafkas" {
		if o.TLS, err = t.tlsConfig(); err != nil {
			return nil, err
		}
		o.TLS.ServerName = "" // there are several
	}
	for _, name := range kafka.Names {
		if v := t.Option(name, ""); v != "" {
			if err := o.Set(name, v); err != nil {
				return nil, err
			}
		}
	}
	if o.Mode == kafka.Changelog {
		if t.Format != "" && t.Format != FormatJSON {
			return nil, fmt.Errorf("kafka: mode=changelog has values of its own, in JSON, not in %s", t.Format)
		}
		return kafka.New(o)
	}
	form, err := newRecordForm(t)
	if err != nil {
		return nil, err
	}
	o.Form = form
	return kafka.New(o)
}

// newRecordForm returns the form of records that stand alone, each in a message of
// its own, that a target asks for: JSON if it asks for none.
func newRecordForm(t *Target) (kafka.Form, error) {
	switch t.Format {
	case FormatRESP:
		return commandForm{}, nil
	case "":
		return lineForm{jsonFormat{}}, nil
	}
	f, err := NewFormat(t.Format, t.Source, t.Version)
	return lineForm{f}, err
}

// lineForm is a Format of lines, without their ends.
type lineForm struct{ Format }

func trimLine(dst []byte) []byte { return bytes.TrimSuffix(dst, []byte{'\n'}) }

func (r lineForm) AppendFrame(dst []byte, c *changes.Commit, i int) []byte {
	return trimLine(r.Format.AppendFrame(dst, c, i))
}

func (r lineForm) AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte {
	return trimLine(r.Format.AppendSnapshotOp(dst, p, i))
}

func (r lineForm) AppendSnapshotStart(dst []byte, stream, token string) []byte {
	return trimLine(r.Format.AppendSnapshotStart(dst, stream, token))
}

func (r lineForm) AppendSnapshotEnd(dst []byte, stream, token string, at changes.Cursor) []byte {
	return trimLine(r.Format.AppendSnapshotEnd(dst, stream, token, at))
}

// commandForm is an op as a RESP command, without the SELECT that a stream of
// them needs: a record says its database beside it.
type commandForm struct{ silent }

func (commandForm) AppendFrame(dst []byte, c *changes.Commit, i int) []byte {
	return resp.AppendCommand(dst, c.Frames[i].Args...)
}

func (commandForm) AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte {
	return resp.AppendCommand(dst, p.Ops[i]...)
}
