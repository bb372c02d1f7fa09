package lualib

import (
	"bytes"
	"math"
	"strconv"

	lua "github.com/yuin/gopher-lua"

	"kevy/resp"
)

// maxReplyDepth is how deep a table may nest within a reply.
const maxReplyDepth = 128

// numberText returns a number as an argument of a command: whole ones as such,
// others with 17 digits.
func numberText(n lua.LNumber) string {
	f := float64(n)
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}

// value returns a reply as a value of Lua.
func (s *State) value(reply []byte) lua.LValue {
	d := decoder{s: s, b: reply}
	return d.value()
}

// decoder reads a reply that a resp.Writer wrote.
type decoder struct {
	s *State
	b []byte
}

func (d *decoder) line() (kind byte, text []byte) {
	i := bytes.IndexByte(d.b, '\n')
	kind, text = d.b[0], d.b[1:i-1]
	d.b = d.b[i+1:]
	return kind, text
}

func (d *decoder) bulk(n int) []byte {
	v := d.b[:n]
	d.b = d.b[n+2:]
	return v
}

func (d *decoder) field(name string, v lua.LValue) *lua.LTable {
	t := d.s.l.NewTable()
	t.RawSetString(name, v)
	return t
}

func (d *decoder) value() lua.LValue {
	kind, text := d.line()
	n := 0
	switch kind {
	case '$', '*', '=', '%', '~', '>', ':':
		n, _ = strconv.Atoi(string(text))
	}
	switch kind {
	case '+':
		return d.field("ok", lua.LString(text))
	case '-':
		return d.field("err", lua.LString(text))
	case ':':
		return lua.LNumber(n)
	case '$':
		if n < 0 {
			return lua.LFalse
		}
		return lua.LString(d.bulk(n))
	case '_':
		return lua.LNil
	case '#':
		return lua.LBool(string(text) == "t")
	case ',':
		f, _ := strconv.ParseFloat(string(text), 64)
		return d.field("double", lua.LNumber(f))
	case '(':
		return d.field("big_number", lua.LString(text))
	case '=':
		v := d.bulk(n)
		t := d.s.l.NewTable()
		t.RawSetString("format", lua.LString(v[:3]))
		t.RawSetString("string", lua.LString(v[4:]))
		return d.field("verbatim_string", t)
	case '%':
		t := d.s.l.CreateTable(0, n)
		for range n {
			k := d.value()
			t.RawSet(k, d.value())
		}
		return d.field("map", t)
	case '~':
		t := d.s.l.CreateTable(0, n)
		for range n {
			t.RawSet(d.value(), lua.LTrue)
		}
		return d.field("set", t)
	}
	if n < 0 {
		return lua.LFalse
	}
	t := d.s.l.CreateTable(n, 0)
	for i := range n {
		t.RawSetInt(i+1, d.value())
	}
	return t
}

// reply writes a value of Lua as the reply of a script.
func (s *State) reply(w *resp.Writer, v lua.LValue) { s.replyAt(w, v, 0) }

func (s *State) replyAt(w *resp.Writer, v lua.LValue, depth int) {
	switch v := v.(type) {
	case lua.LString:
		w.BulkString(string(v))
	case lua.LNumber:
		w.Int(int64(v))
	case lua.LBool:
		switch {
		case w.Proto() == 3:
			w.Bool(bool(v))
		case bool(v):
			w.Int(1)
		default:
			w.Null()
		}
	case *lua.LTable:
		if depth == maxReplyDepth {
			w.Error(&resp.Error{Code: "ERR", Text: "reached lua stack limit"})
			return
		}
		s.replyTable(w, v, depth+1)
	default:
		w.Null()
	}
}

func (s *State) replyTable(w *resp.Writer, t *lua.LTable, depth int) {
	if e, ok := t.RawGetString("err").(lua.LString); ok {
		w.Error(scriptError{text: string(e)}.reply(""))
		return
	}
	if ok, is := t.RawGetString("ok").(lua.LString); is {
		w.Simple(string(ok))
		return
	}
	if f, ok := t.RawGetString("double").(lua.LNumber); ok {
		w.Double(float64(f))
		return
	}
	m := w.Begin()
	n := 0
	for {
		v := t.RawGetInt(n + 1)
		if v == lua.LNil {
			break
		}
		s.replyAt(w, v, depth)
		n++
	}
	w.EndArray(m, n)
}
