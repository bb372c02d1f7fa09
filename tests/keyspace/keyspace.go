// Package keyspace reads the whole content of a server through its ordinary commands into a canonical
// form, so that two servers, or a server before and after a restart, can be compared key by key.
package keyspace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"kevy/tests/wire"
)

// Value is one key's content.
type Value struct {
	Type     string
	Encoding string
	// ExpireAtMs is the expiry in Unix milliseconds, -1 for none.
	ExpireAtMs int64
	// Parts are the elements in canonical order: the string; a list's elements; a set's members sorted;
	// field, value, … sorted by field; member, score, … in the order of the sorted set; for a stream what
	// XINFO STREAM FULL tells, but for times and for how it is stored.
	Parts []string
	// TimesMs are Unix milliseconds inside the value: when each field of a hash expires, -1 for one that does
	// not, nil if none does; when each pending entry of a stream's groups was delivered.
	TimesMs []int64
}

// Key names a key in a database.
type Key struct {
	DB   int
	Name string
}

func (k Key) String() string { return fmt.Sprintf("db%d %s", k.DB, wire.Quote([]byte(k.Name))) }

// Dump is the content of a server.
type Dump map[Key]Value

// chunk is how many keys are asked about in one pipeline.
const chunk = 500

// Read reads databases 0 to dbs-1 over a RESP2 connection, which is left in database 0. Keys that expire
// or go meanwhile are left out; a key that changes its type meanwhile is an error.
func Read(c *wire.Conn, dbs int) (Dump, error) {
	d := Dump{}
	for db := range dbs {
		if err := expectOK(c, "SELECT", strconv.Itoa(db)); err != nil {
			return nil, err
		}
		names, err := scan(c)
		if err != nil {
			return nil, err
		}
		for len(names) > 0 {
			n := min(chunk, len(names))
			if err := d.read(c, db, names[:n]); err != nil {
				return nil, err
			}
			names = names[n:]
		}
	}
	return d, expectOK(c, "SELECT", "0")
}

func expectOK(c *wire.Conn, args ...string) error {
	r, err := c.Do(args...)
	if err != nil {
		return err
	}
	if string(r.Text) != "OK" {
		return fmt.Errorf("%s: %s", strings.Join(args, " "), r)
	}
	return nil
}

// scan lists the keys of the selected database.
func scan(c *wire.Conn) ([]string, error) {
	seen := map[string]bool{}
	for cursor := "0"; ; {
		r, err := c.Do("SCAN", cursor, "COUNT", "1000")
		if err != nil {
			return nil, err
		}
		if len(r.Elems) != 2 {
			return nil, fmt.Errorf("SCAN: %s", r)
		}
		for _, k := range r.Elems[1].Strings() {
			seen[k] = true
		}
		if cursor = string(r.Elems[0].Text); cursor == "0" {
			break
		}
	}
	names := make([]string, 0, len(seen))
	for k := range seen {
		names = append(names, k)
	}
	sort.Strings(names)
	return names, nil
}

func (d Dump) read(c *wire.Conn, db int, names []string) error {
	var cmds [][]string
	for _, k := range names {
		cmds = append(cmds, []string{"TYPE", k}, []string{"OBJECT", "ENCODING", k}, []string{"PEXPIRETIME", k})
	}
	meta, err := c.Pipeline(cmds...)
	if err != nil {
		return err
	}
	cmds = cmds[:0]
	var live []string
	var values []Value
	for i, k := range names {
		v := Value{Type: string(meta[3*i].Text), Encoding: string(meta[3*i+1].Text)}
		if v.ExpireAtMs, err = meta[3*i+2].Int(); err != nil {
			return fmt.Errorf("PEXPIRETIME %q: %w", k, err)
		}
		cmd := readCommand(v.Type, k)
		if v.Type == "none" || v.ExpireAtMs == -2 {
			continue
		}
		if cmd == nil {
			return fmt.Errorf("key %q has type %q", k, v.Type)
		}
		live, values, cmds = append(live, k), append(values, v), append(cmds, cmd)
	}
	replies, err := c.Pipeline(cmds...)
	if err != nil {
		return err
	}
	for i, r := range replies {
		v := values[i]
		switch {
		case v.Type == "stream" && r.IsError("ERR"):
			continue // no such key any more
		case r.Kind == wire.Error:
			return fmt.Errorf("%s %q: %s", cmds[i][0], live[i], r)
		case r.Nil || !r.Scalar() && len(r.Elems) == 0:
			continue
		case r.Scalar():
			v.Parts = []string{string(r.Text)}
		case v.Type == "stream":
			v.readStream(r)
		default:
			v.Parts = r.Strings()
		}
		if err := v.canonical(); err != nil {
			return fmt.Errorf("key %q: %w", live[i], err)
		}
		d[Key{db, live[i]}] = v
	}
	return d.readFieldExpiries(c, db, live)
}

// readFieldExpiries asks when the fields of hashes expire, where the server knows of that.
func (d Dump) readFieldExpiries(c *wire.Conn, db int, names []string) error {
	var hashes []string
	var cmds [][]string
	for _, k := range names {
		v, ok := d[Key{db, k}]
		if !ok || v.Type != "hash" {
			continue
		}
		cmd := []string{"HPEXPIRETIME", k, "FIELDS", strconv.Itoa(len(v.Parts) / 2)}
		for i := 0; i < len(v.Parts); i += 2 {
			cmd = append(cmd, v.Parts[i])
		}
		hashes, cmds = append(hashes, k), append(cmds, cmd)
	}
	replies, err := c.Pipeline(cmds...)
	if err != nil {
		return err
	}
	for i, r := range replies {
		if r.Kind == wire.Error && strings.HasPrefix(string(r.Text), "ERR unknown command") {
			return nil
		}
		if len(r.Elems) == 0 {
			return fmt.Errorf("HPEXPIRETIME %q: %s", hashes[i], r)
		}
		var times []int64
		any := false
		for _, e := range r.Elems {
			at, err := e.Int()
			if err != nil {
				return fmt.Errorf("HPEXPIRETIME %q: %w", hashes[i], err)
			}
			times, any = append(times, at), any || at != -1
		}
		if any {
			v := d[Key{db, hashes[i]}]
			v.TimesMs = times
			d[Key{db, hashes[i]}] = v
		}
	}
	return nil
}

// readStream takes what XINFO STREAM FULL answers apart.
func (v *Value) readStream(r wire.Reply) {
	put := func(words ...string) { v.Parts = append(v.Parts, strings.Join(words, " ")) }
	each := func(r wire.Reply, do func(name string, value wire.Reply)) {
		for i := 0; i+1 < len(r.Elems); i += 2 {
			do(string(r.Elems[i].Text), r.Elems[i+1])
		}
	}
	each(r, func(name string, value wire.Reply) {
		switch name {
		case "radix-tree-keys", "radix-tree-nodes":
		case "entries":
			for _, e := range value.Elems {
				put("entry", e.String())
			}
		case "groups":
			for _, g := range value.Elems {
				each(g, func(name string, value wire.Reply) {
					switch name {
					case "pel", "pending":
						for _, p := range value.Elems {
							at, _ := p.Elems[2].Int()
							v.TimesMs = append(v.TimesMs, at)
							put("pending", p.Elems[0].String(), p.Elems[1].String(), p.Elems[3].String())
						}
					case "consumers":
						for _, c := range value.Elems {
							each(c, func(name string, value wire.Reply) {
								// When a consumer was seen last is no fact of the log.
								switch name {
								case "seen-time", "active-time":
								case "pel", "pending":
									for _, p := range value.Elems {
										put("owned", p.Elems[0].String(), p.Elems[2].String())
									}
								default:
									put("consumer", name, value.String())
								}
							})
						}
					default:
						put("group", name, value.String())
					}
				})
			}
		default:
			put(name, value.String())
		}
	})
}

func readCommand(kind, key string) []string {
	switch kind {
	case "string":
		return []string{"GET", key}
	case "list":
		return []string{"LRANGE", key, "0", "-1"}
	case "set":
		return []string{"SMEMBERS", key}
	case "hash":
		return []string{"HGETALL", key}
	case "zset":
		return []string{"ZRANGE", key, "0", "-1", "WITHSCORES"}
	case "stream":
		return []string{"XINFO", "STREAM", key, "FULL", "COUNT", "0"}
	}
	return nil
}

func (v *Value) canonical() error {
	switch v.Type {
	case "set":
		sort.Strings(v.Parts)
	case "hash":
		if len(v.Parts)%2 != 0 {
			return fmt.Errorf("HGETALL of %d elements", len(v.Parts))
		}
		pairs := make([][2]string, 0, len(v.Parts)/2)
		for i := 0; i < len(v.Parts); i += 2 {
			pairs = append(pairs, [2]string{v.Parts[i], v.Parts[i+1]})
		}
		sort.Slice(pairs, func(i, j int) bool { return pairs[i][0] < pairs[j][0] })
		for i, p := range pairs {
			v.Parts[2*i], v.Parts[2*i+1] = p[0], p[1]
		}
	case "zset":
		for i := 1; i < len(v.Parts); i += 2 {
			f, err := strconv.ParseFloat(v.Parts[i], 64)
			if err != nil {
				return err
			}
			if f == 0 {
				f = 0 // -0 and 0 are one score
			}
			v.Parts[i] = strconv.FormatFloat(f, 'g', -1, 64)
		}
	}
	return nil
}

// Options say what Diff compares beside types and elements.
type Options struct {
	// Encoding compares OBJECT ENCODING too.
	Encoding bool
	// ExpiryToleranceMs is how far expiries and other times may lie apart; whether there is one must always
	// agree.
	ExpiryToleranceMs int64
}

// Diff lists what differs, at most limit lines; none when both are equal.
func Diff(want, got Dump, opt Options, limit int) []string {
	keys := map[Key]bool{}
	for k := range want {
		keys[k] = true
	}
	for k := range got {
		keys[k] = true
	}
	sorted := make([]Key, 0, len(keys))
	for k := range keys {
		sorted = append(sorted, k)
	}
	sort.Slice(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		return a.DB < b.DB || a.DB == b.DB && a.Name < b.Name
	})
	var out []string
	for _, k := range sorted {
		w, okW := want[k]
		g, okG := got[k]
		var what string
		switch {
		case !okG:
			what = "missing, want " + w.String()
		case !okW:
			what = "unexpected: " + g.String()
		default:
			what = diffValue(w, g, opt)
		}
		if what == "" {
			continue
		}
		if len(out) == limit {
			return append(out, "…")
		}
		out = append(out, k.String()+": "+what)
	}
	return out
}

func diffValue(w, g Value, opt Options) string {
	if w.Type != g.Type {
		return fmt.Sprintf("type %s, want %s", g.Type, w.Type)
	}
	if (w.ExpireAtMs == -1) != (g.ExpireAtMs == -1) || math.Abs(float64(w.ExpireAtMs-g.ExpireAtMs)) > float64(opt.ExpiryToleranceMs) {
		return fmt.Sprintf("expiry %d, want %d", g.ExpireAtMs, w.ExpireAtMs)
	}
	if len(w.Parts) != len(g.Parts) {
		return fmt.Sprintf("%d elements, want %d: got %s, want %s", len(g.Parts), len(w.Parts), g, w)
	}
	for i := range w.Parts {
		if w.Parts[i] != g.Parts[i] {
			return fmt.Sprintf("element %d is %s, want %s", i, clip(g.Parts[i]), clip(w.Parts[i]))
		}
	}
	if len(w.TimesMs) != len(g.TimesMs) {
		return fmt.Sprintf("%d times inside, want %d (%s)", len(g.TimesMs), len(w.TimesMs), w)
	}
	for i, at := range w.TimesMs {
		if (at == -1) != (g.TimesMs[i] == -1) || math.Abs(float64(at-g.TimesMs[i])) > float64(opt.ExpiryToleranceMs) {
			return fmt.Sprintf("time %d inside is %d, want %d (%s)", i, g.TimesMs[i], at, w)
		}
	}
	if opt.Encoding && w.Encoding != g.Encoding {
		return fmt.Sprintf("encoding %s, want %s (%s)", g.Encoding, w.Encoding, w)
	}
	return ""
}

// String shows a value in a line, shortened.
func (v Value) String() string {
	var b strings.Builder
	b.WriteString(v.Type)
	for i, p := range v.Parts {
		if i == 6 {
			fmt.Fprintf(&b, " … (%d)", len(v.Parts))
			break
		}
		b.WriteByte(' ')
		b.WriteString(clip(p))
	}
	if v.ExpireAtMs != -1 {
		fmt.Fprintf(&b, " expires %d", v.ExpireAtMs)
	}
	return b.String()
}

func clip(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("%s… (%d bytes)", wire.Quote([]byte(s[:60])), len(s))
	}
	return wire.Quote([]byte(s))
}

// Digest is one text for the whole content, expiries included, encodings not.
func (d Dump) Digest() string {
	keys := make([]Key, 0, len(d))
	for k := range d {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		return keys[i].DB < keys[j].DB || keys[i].DB == keys[j].DB && keys[i].Name < keys[j].Name
	})
	h := sha256.New()
	var n [8]byte
	put := func(s string) {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	for _, k := range keys {
		v := d[k]
		put(strconv.Itoa(k.DB))
		put(k.Name)
		put(v.Type)
		put(strconv.FormatInt(v.ExpireAtMs, 10))
		put(strconv.Itoa(len(v.Parts)))
		for _, p := range v.Parts {
			put(p)
		}
		for _, at := range v.TimesMs {
			put(strconv.FormatInt(at, 10))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
