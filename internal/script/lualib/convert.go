package lualib

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"kevy/resp"
)

// maxReplySlots is how many values C may have on Lua's stack while it writes a
// reply: each level of nesting takes one, and four must be free.
const maxReplySlots = maxUnpacked - 4

// appendArgument appends a number as an argument of a command: with as many
// digits as bring it back.
func appendArgument(dst []byte, f float64) []byte {
	if i := int64(f); float64(i) == f && -1e17 < f && f < 1e17 && (i != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(dst, i, 10)
	}
	return appendG(dst, f, 17, false)
}

// value returns a reply as a value of Lua.
func (s *State) value(reply []byte) lua.LValue {
	d := decoder{b: reply}
	return d.value()
}

// decoder reads a reply that a resp.Writer wrote.
type decoder struct{ b []byte }

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

// field is a table with one field, as replies that Lua has no type for are.
func field(name string, v lua.LValue) *lua.LTable {
	t := newTable(0, 1)
	t.RawSetString(name, v)
	return t
}

func (d *decoder) value() lua.LValue {
	kind, text := d.line()
	n := 0
	switch kind {
	case '$', '*', '=', '%', '~', '>', ':', '|':
		n = parseLength(text)
	}
	switch kind {
	case '+':
		return field("ok", lua.LString(text))
	case '-':
		t := replyError("-" + string(text))
		t.RawSetString("ignore_error_stats_update", lua.LTrue)
		return t
	case ':':
		return number(float64(n))
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
		f, _ := parseNumber(string(text))
		return field("double", lua.LNumber(f))
	case '(':
		return field("big_number", lua.LString(text))
	case '=':
		v := d.bulk(n)
		t := newTable(0, 2)
		t.RawSetString("format", lua.LString(v[:3]))
		t.RawSetString("string", lua.LString(v[4:]))
		return field("verbatim_string", t)
	case '%':
		t := newTable(0, n)
		for range n {
			k := d.value()
			if v := d.value(); k != lua.LNil {
				t.RawSet(k, v)
			}
		}
		return field("map", t)
	case '~':
		t := newTable(0, n)
		for range n {
			if k := d.value(); k != lua.LNil {
				t.RawSet(k, lua.LTrue)
			}
		}
		return field("set", t)
	case '|':
		// Attributes are not shown to scripts: what they are of is.
		for range 2 * n {
			d.value()
		}
		return d.value()
	}
	if n < 0 {
		return lua.LFalse
	}
	t := newTable(n, 0)
	for i := range n {
		t.RawSetInt(i+1, d.value())
	}
	return t
}

// parseLength reads a number of the protocol, which a resp.Writer has written.
func parseLength(text []byte) int {
	n, negative := 0, false
	for _, c := range text {
		if c == '-' {
			negative = true
			continue
		}
		n = n*10 + int(c-'0')
	}
	if negative {
		return -n
	}
	return n
}

// replyError is an error as a table: a text that begins with '-' has a code, any
// other gets ERR.
func replyError(text string) *lua.LTable {
	code := "ERR"
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		text = rest
		if c, rest, ok := strings.Cut(rest, " "); ok {
			code, text = c, rest
		}
	}
	return errorTable(code + " " + strings.Trim(text, "\r\n"))
}

// reply writes a value of Lua as the reply of a script. It reports false if the
// script had to end in the middle of it.
func (s *State) reply(w *resp.Writer, v lua.LValue) bool {
	r := replier{s: s, w: w, slots: 2, counted: w.Len()}
	r.value(v)
	return s.ending == nil
}

// replier writes a reply. A table that holds itself several times is one that never
// ends, so that it is a script that runs for all that.
type replier struct {
	s       *State
	w       *resp.Writer
	slots   int // that C would have on Lua's stack
	values  int
	counted int // bytes of the writer whose memory has been counted
}

// ended counts the next value, and reports whether the script has to end.
func (r *replier) ended(v lua.LValue) bool {
	r.values++
	if r.values&(TickInstructions-1) == 0 {
		r.s.tick()
	}
	next := 0
	if s, ok := v.(lua.LString); ok {
		next = len(s)
	}
	if r.s.ending == nil && !r.s.room(r.w.Len()-r.counted+next) {
		r.s.ending = errMemory
	}
	r.counted = r.w.Len() + next
	return r.s.ending != nil
}

func (r *replier) value(v lua.LValue) {
	if r.ended(v) {
		return
	}
	if r.slots > maxReplySlots {
		r.w.Error(&resp.Error{Code: "ERR", Text: "reached lua stack limit"})
		return
	}
	switch v := v.(type) {
	case lua.LString:
		r.w.BulkString(string(v))
	case lua.LNumber:
		r.w.Int(toInt64(float64(v)))
	case lua.LBool:
		r.boolean(bool(v))
	case *lua.LTable:
		r.table(v)
	default:
		r.w.Null()
	}
}

// boolean writes true as 1 and false as null, until the script asks for RESP3.
func (r *replier) boolean(v bool) {
	switch {
	case r.s.proto == 3:
		r.w.Bool(v)
	case v:
		r.w.Int(1)
	default:
		r.w.Null()
	}
}

func (r *replier) table(shown *lua.LTable) {
	t := r.s.contentsOf(shown)
	if _, ok := t.RawGetString("err").(lua.LString); ok {
		writeError(r.w, tableError(t).text)
		return
	}
	if ok, is := t.RawGetString("ok").(lua.LString); is {
		r.w.Simple(cText(string(ok)))
		return
	}
	if f, ok := t.RawGetString("double").(lua.LNumber); ok {
		r.w.Double(float64(f))
		return
	}
	if n, ok := t.RawGetString("big_number").(lua.LString); ok {
		r.w.BigNumber(lineText(string(n)))
		return
	}
	if v, ok := t.RawGetString("verbatim_string").(*lua.LTable); ok {
		v = r.s.contentsOf(v)
		format, ok1 := v.RawGetString("format").(lua.LString)
		text, ok2 := v.RawGetString("string").(lua.LString)
		if ok1 && ok2 {
			ext := cText(string(format)) + "   "
			r.w.Verbatim(ext[:3], string(text))
			return
		}
	}
	if m, ok := t.RawGetString("map").(*lua.LTable); ok {
		r.pairs(r.s.contentsOf(m))
		return
	}
	if m, ok := t.RawGetString("set").(*lua.LTable); ok {
		r.set(r.s.contentsOf(m))
		return
	}
	n := 0
	for t.RawGet(lua.LNumber(n+1)) != lua.LNil {
		n++
	}
	r.w.Array(n)
	r.slots++
	for i := 1; i <= n && r.s.ending == nil; i++ {
		r.value(t.RawGet(lua.LNumber(i)))
	}
	r.slots--
}

func (r *replier) pairs(t *lua.LTable) {
	r.w.Map(entries(t))
	each(t, func(k, v lua.LValue) bool {
		r.slots += 4
		r.value(k)
		r.slots--
		r.value(v)
		r.slots -= 3
		return r.s.ending == nil
	})
}

func (r *replier) set(t *lua.LTable) {
	r.w.Set(entries(t))
	each(t, func(k, _ lua.LValue) bool {
		r.slots += 3
		r.value(k)
		r.slots -= 3
		return r.s.ending == nil
	})
}

// entries is how many entries a table has.
func entries(t *lua.LTable) (n int) {
	each(t, func(_, _ lua.LValue) bool {
		n++
		return true
	})
	return n
}

// contentsOf is contents where no thread runs.
func (s *State) contentsOf(t *lua.LTable) *lua.LTable {
	if r, ok := s.readonly[t]; ok {
		return r.contents
	}
	return t
}

// lineText makes line ends spaces.
func lineText(s string) string {
	if strings.ContainsAny(s, "\r\n") {
		return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
	}
	return s
}

// writeError writes an error whose text begins with its code.
func writeError(w *resp.Writer, text string) {
	text = strings.Trim(cText(text), "\r\n")
	if code, rest, ok := strings.Cut(text, " "); ok && code != "" {
		w.Error(&resp.Error{Code: code, Text: rest})
		return
	}
	w.Error(&resp.Error{Text: text})
}
