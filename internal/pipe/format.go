package pipe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kevy/changes"
	"kevy/internal/changejson"
	"kevy/resp"
)

// Format is the form that frames take as records: bytes that end as records of
// their form do, JSON and text with a line end.
type Format interface {
	// AppendCommit appends the records of a commit's frames.
	AppendCommit(dst []byte, c *changes.Commit) []byte
	// AppendFrame appends the record of frame i of a commit.
	AppendFrame(dst []byte, c *changes.Commit, i int) []byte
	// AppendSnapshotOp appends the record of op i of a part.
	AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte
	// AppendPosition appends what says that everything up to a cursor is there,
	// nothing if the form has no words for it. So do the two that follow.
	AppendPosition(dst []byte, stream string, at changes.Cursor, completeLSN uint64) []byte
	AppendSnapshotStart(dst []byte, stream, token string) []byte
	AppendSnapshotEnd(dst []byte, stream, token string, at changes.Cursor) []byte
	// MediaType is the Content-Type of records one after another.
	MediaType() string
}

// The names of formats.
const (
	FormatJSON           = "json"            // the lines of package changejson
	FormatDebezium       = "debezium"        // Debezium's envelope, a line each
	FormatDebeziumSchema = "debezium-schema" // the same with the schema of Kafka Connect
	FormatRESP           = "resp"            // commands, as redis-cli --pipe takes them
	FormatText           = "text"            // for people
)

// Formats are the names that NewFormat takes.
var Formats = []string{FormatJSON, FormatDebezium, FormatDebeziumSchema, FormatRESP, FormatText}

// NewFormat returns the form of a name. source and version are what Debezium's
// envelope says of the server and the program.
func NewFormat(name, source, version string) (Format, error) {
	switch name {
	case FormatJSON:
		return jsonFormat{}, nil
	case FormatDebezium, FormatDebeziumSchema:
		return &debeziumFormat{envelope: changejson.NewEnvelope(source, version, name == FormatDebeziumSchema)}, nil
	case FormatRESP:
		return &respFormat{db: -1}, nil
	case FormatText:
		return Text(false), nil
	}
	return nil, fmt.Errorf("there is no format %q; there are %s", name, strings.Join(Formats, ", "))
}

// silent is the part of formats that have words for frames only.
type silent struct{}

func (silent) AppendPosition(dst []byte, _ string, _ changes.Cursor, _ uint64) []byte { return dst }
func (silent) AppendSnapshotStart(dst []byte, _, _ string) []byte                     { return dst }
func (silent) AppendSnapshotEnd(dst []byte, _, _ string, _ changes.Cursor) []byte     { return dst }

type jsonFormat struct{}

func (jsonFormat) MediaType() string { return "application/x-ndjson" }

func jsonFrame(c *changes.Commit, i int) changejson.Frame {
	f := &c.Frames[i]
	return changejson.Frame{
		Stream: c.Stream, Generation: c.Generation, Offset: f.Offset, First: c.First, Last: c.Last,
		LSN: f.LSN, Ms: f.Time.UnixMilli(), DB: f.DB, Cause: string(f.Cause), Args: f.Args,
	}
}

func (jsonFormat) AppendFrame(dst []byte, c *changes.Commit, i int) []byte {
	f := jsonFrame(c, i)
	return append(changejson.AppendFrame(dst, &f), '\n')
}

func (j jsonFormat) AppendCommit(dst []byte, c *changes.Commit) []byte {
	for i := range c.Frames {
		dst = j.AppendFrame(dst, c, i)
	}
	return dst
}

func (jsonFormat) AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte {
	return append(changejson.AppendSnapshotOp(dst, p.Stream, p.Token, p.N, p.DB, p.Ops[i]), '\n')
}

func (jsonFormat) AppendPosition(dst []byte, stream string, at changes.Cursor, completeLSN uint64) []byte {
	return append(changejson.AppendPosition(dst, stream, at.Generation, at.Offset, completeLSN), '\n')
}

func (jsonFormat) AppendSnapshotStart(dst []byte, stream, token string) []byte {
	return append(changejson.AppendSnapshotStart(dst, stream, token), '\n')
}

func (jsonFormat) AppendSnapshotEnd(dst []byte, stream, token string, at changes.Cursor) []byte {
	return append(changejson.AppendSnapshotEnd(dst, stream, token, at.Generation, at.Offset), '\n')
}

type debeziumFormat struct {
	silent
	envelope *changejson.Envelope
}

func (*debeziumFormat) MediaType() string { return "application/x-ndjson" }

func (d *debeziumFormat) AppendFrame(dst []byte, c *changes.Commit, i int) []byte {
	f := jsonFrame(c, i)
	return append(d.envelope.AppendFrame(dst, &f, c.Frames[i].Key(), time.Now().UnixMilli()), '\n')
}

func (d *debeziumFormat) AppendCommit(dst []byte, c *changes.Commit) []byte {
	for i := range c.Frames {
		dst = d.AppendFrame(dst, c, i)
	}
	return dst
}

func (d *debeziumFormat) AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte {
	f := changes.Frame{Args: p.Ops[i]}
	return append(d.envelope.AppendSnapshotOp(dst, p.Stream, p.DB, p.Ops[i], f.Key(), time.Now().UnixMilli()), '\n')
}

// respFormat writes commands: a commit of several frames between MULTI and
// EXEC, and SELECT where the database changes.
type respFormat struct {
	silent
	db int // of the last command; -1 before the first
}

func (*respFormat) MediaType() string { return "application/octet-stream" }

func (r *respFormat) AppendFrame(dst []byte, c *changes.Commit, i int) []byte {
	return resp.AppendCommand(r.selectDB(dst, c.Frames[i].DB), c.Frames[i].Args...)
}

func (r *respFormat) AppendCommit(dst []byte, c *changes.Commit) []byte {
	many := len(c.Frames) > 1
	if many {
		dst = append(dst, "*1\r\n$5\r\nMULTI\r\n"...)
	}
	for i := range c.Frames {
		dst = r.AppendFrame(dst, c, i)
	}
	if many {
		dst = append(dst, "*1\r\n$4\r\nEXEC\r\n"...)
	}
	return dst
}

func (r *respFormat) AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte {
	return resp.AppendCommand(r.selectDB(dst, p.DB), p.Ops[i]...)
}

func (r *respFormat) selectDB(dst []byte, db int) []byte {
	if db == r.db {
		return dst
	}
	r.db = db
	return resp.AppendCommand(dst, "SELECT", strconv.Itoa(db))
}

// textFormat writes a line a frame: time, stream and cursor, database, the
// command with its arguments quoted, and the cause if it was not a user.
type textFormat struct{ colour bool }

// Text returns the form for people, with colours as terminals show them or
// without.
func Text(colour bool) Format { return textFormat{colour} }

// Colours, and their end.
const (
	dim    = "\x1b[2m"
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	plainT = "\x1b[0m"
)

func (t textFormat) in(dst []byte, colour string, what func([]byte) []byte) []byte {
	if !t.colour {
		return what(dst)
	}
	return append(what(append(dst, colour...)), plainT...)
}

// verbColour tells what takes away from what adds.
func verbColour(verb string) string {
	switch verb {
	case "DEL", "HDEL", "SREM", "ZREM", "LREM", "LTRIM", "LPOP", "RPOP", "XDEL", "XTRIM", "FLUSHDB", "FLUSHALL":
		return red
	}
	return green
}

func (t textFormat) appendOp(dst []byte, args [][]byte) []byte {
	dst = append(dst, ' ')
	dst = t.in(dst, verbColour(string(args[0])), func(dst []byte) []byte { return append(dst, args[0]...) })
	return appendQuoted(dst, args[1:])
}

func (textFormat) MediaType() string { return "text/plain; charset=utf-8" }

const textTime = "2006-01-02T15:04:05.000Z07:00"

func (t textFormat) AppendFrame(dst []byte, c *changes.Commit, i int) []byte {
	f := &c.Frames[i]
	dst = t.in(dst, dim, func(dst []byte) []byte {
		dst = f.Time.Local().AppendFormat(dst, textTime)
		return fmt.Appendf(dst, " %s %d:%d db%d", c.Stream, c.Generation, f.Offset, f.DB)
	})
	dst = t.appendOp(dst, f.Args)
	if f.Cause != changes.User {
		dst = t.in(append(dst, ' '), yellow, func(dst []byte) []byte { return fmt.Appendf(dst, "(%s)", f.Cause) })
	}
	return append(dst, '\n')
}

func (t textFormat) AppendCommit(dst []byte, c *changes.Commit) []byte {
	for i := range c.Frames {
		dst = t.AppendFrame(dst, c, i)
	}
	return dst
}

func (t textFormat) AppendSnapshotOp(dst []byte, p *changes.SnapshotPart, i int) []byte {
	dst = t.in(dst, dim, func(dst []byte) []byte { return fmt.Appendf(dst, "snapshot %s db%d", p.Stream, p.DB) })
	return append(t.appendOp(dst, p.Ops[i]), '\n')
}

func (textFormat) AppendPosition(dst []byte, _ string, _ changes.Cursor, _ uint64) []byte {
	return dst
}

func (textFormat) AppendSnapshotStart(dst []byte, stream, _ string) []byte {
	return fmt.Appendf(dst, "snapshot %s begins\n", stream)
}

func (textFormat) AppendSnapshotEnd(dst []byte, stream, _ string, at changes.Cursor) []byte {
	return fmt.Appendf(dst, "snapshot %s ends, live from %v\n", stream, at)
}

// appendQuoted appends a command as people type it: words that need no quotes
// have none.
func appendQuoted(dst []byte, args [][]byte) []byte {
	for _, a := range args {
		dst = append(dst, ' ')
		if plain(a) {
			dst = append(dst, a...)
		} else {
			dst = appendQuotes(dst, a)
		}
	}
	return dst
}

func plain(word []byte) bool {
	return len(word) > 0 && !slices.ContainsFunc(word, func(c byte) bool { return c <= ' ' || c >= 0x7f || strings.IndexByte(`"'\`, c) >= 0 })
}

// appendQuotes appends an argument in the quotes that redis-cli reads back.
func appendQuotes(dst, arg []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(arg); i++ {
		switch c := arg[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ' || c >= 0x7f:
			dst = append(dst, '\\', 'x', hex[c>>4], hex[c&0xf])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
