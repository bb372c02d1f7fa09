package feed

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"kevy/internal/op"
)

// refFilter is a filter in plain words, and judges frames in the slow, obvious
// way: every pattern is compiled for every frame, and nothing is shared with
// Filter.
type refFilter struct {
	db     int
	allDBs bool

	prefixes, matches []string
	regexes           [][2]string // prefix, pattern

	valueExact, valuePrefixes, valueRegexes []string

	byteMode bool
}

func (r *refFilter) String() string { return fmt.Sprintf("%+v", *r) }

// filter returns the Filter that says the same.
func (r *refFilter) filter(t testing.TB) *Filter {
	t.Helper()
	f := &Filter{DB: r.db, AllDBs: r.allDBs}
	add := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range r.prefixes {
		add(f.AddPrefix([]byte(p)))
	}
	for _, p := range r.matches {
		add(f.AddMatch([]byte(p)))
	}
	for _, p := range r.regexes {
		add(f.AddRegex([]byte(p[0]), []byte(p[1]), r.byteMode))
	}
	for _, v := range r.valueExact {
		add(f.AddValueExact([]byte(v)))
	}
	for _, v := range r.valuePrefixes {
		add(f.AddValuePrefix([]byte(v)))
	}
	for _, v := range r.valueRegexes {
		add(f.AddValueRegex([]byte(v), r.byteMode))
	}
	return f
}

func (r *refFilter) passes(db int, args []string) bool {
	switch args[0] {
	case "FLUSHALL":
		return true
	case "SWAPDB":
		return r.allDBs
	}
	if !r.allDBs && db != r.db {
		return false
	}
	if args[0] == "FLUSHDB" {
		return true
	}
	key := args[1]
	if args[0] == "XGROUP" {
		key = args[2]
	}
	return r.passesKey(key) && r.passesValues(refValues(args))
}

func (r *refFilter) passesKey(key string) bool {
	var said []bool
	for _, p := range r.prefixes {
		said = append(said, strings.HasPrefix(key, p))
	}
	for _, p := range r.matches {
		said = append(said, refMatch(p, key))
	}
	for _, p := range r.regexes {
		said = append(said, strings.HasPrefix(key, p[0]) && r.found(p[1], strings.TrimPrefix(key, p[0])))
	}
	return anyOf(said)
}

func (r *refFilter) passesValues(values []string) bool {
	if values == nil {
		return true
	}
	var said []bool
	for _, v := range values {
		for _, want := range r.valueExact {
			said = append(said, v == want)
		}
		for _, p := range r.valuePrefixes {
			said = append(said, strings.HasPrefix(v, p))
		}
		for _, p := range r.valueRegexes {
			said = append(said, r.found(p, v))
		}
	}
	return anyOf(said)
}

// anyOf reports whether a filter passes, or whether there is none.
func anyOf(said []bool) bool {
	for _, ok := range said {
		if ok {
			return true
		}
	}
	return len(said) == 0
}

func (r *refFilter) found(pattern, text string) bool {
	if r.byteMode {
		pattern, text = latin1(pattern), latin1(text)
	}
	return regexp.MustCompile(pattern).MatchString(text)
}

// latin1 has a code point for each byte. It will do for the patterns of these
// tests, which say nothing of letters or their case beyond ASCII.
func latin1(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

// refMatch matches a glob whose classes have no escapes and no ranges that run
// backwards, by a regular expression.
func refMatch(glob, key string) bool {
	if key == "" {
		return glob == "" || glob == "*" // as with KEYS
	}
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		case '[':
			n := strings.IndexByte(glob[i:], ']')
			b.WriteString(latin1(glob[i : i+n+1]))
			i += n
		case '\\':
			i++
			b.WriteString(regexp.QuoteMeta(latin1(glob[i : i+1])))
		default:
			b.WriteString(regexp.QuoteMeta(latin1(glob[i : i+1])))
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String()).MatchString(latin1(key))
}

// refValues returns the values of an op, nil if it has none.
func refValues(args []string) (values []string) {
	switch args[0] {
	case "SET": // key value …
		return args[2:3]
	case "SETRANGE", "LSET", "LREM": // key where value
		return args[3:4]
	case "LINSERT": // key where pivot value
		return args[4:5]
	case "LPUSH", "RPUSH", "SADD", "SREM", "ZREM": // key value …
		return args[2:]
	case "HSET", "ZADD": // key field value … and key score member …
		for i := 3; i < len(args); i += 2 {
			values = append(values, args[i])
		}
	case "XADD": // key id field value …
		for i := 4; i < len(args); i += 2 {
			values = append(values, args[i])
		}
	}
	return values
}

// traffic draws frames and filters so that each passes and is left out often.
type traffic struct{ rng *rand.Rand }

func (tr traffic) pick(of ...string) string { return of[tr.rng.IntN(len(of))] }

var trafficTexts = []string{"", "a", "b1", "paid", "unpaid", "é", "\xff", "\xc3", "x\r\n$1\r\n", "{a}", "a*b", "\x00", "ünpaid\xff", "K", "k"}

func (tr traffic) text() string {
	s := tr.pick(trafficTexts...)
	if tr.rng.IntN(3) == 0 {
		s += tr.pick(trafficTexts...)
	}
	return s
}

func (tr traffic) texts() []string {
	all := make([]string, 1+tr.rng.IntN(3))
	for i := range all {
		all[i] = tr.text()
	}
	return all
}

// pairs returns a text before each of some texts.
func (tr traffic) pairs() (all []string) {
	for range 1 + tr.rng.IntN(3) {
		all = append(all, tr.text(), tr.text())
	}
	return all
}

func (tr traffic) key() string {
	return tr.pick("a", "b", "c", "é", "\xff", "") + tr.pick("", "1", "23", ":", "\xc3", "x"+tr.text())
}

// op returns an op of any verb. It need not make sense to a keyspace.
func (tr traffic) op() []string {
	with := func(verb string, args ...string) []string {
		return append([]string{verb, tr.key()}, args...)
	}
	n := fmt.Sprint(tr.rng.IntN(50))
	switch v := op.Verb(1 + tr.rng.IntN(len(trafficVerbs))); v {
	case op.Set:
		if tr.rng.IntN(2) == 0 {
			return with("SET", tr.text())
		}
		return with("SET", tr.text(), "PXAT", n)
	case op.SetRange, op.LSet:
		return with(v.String(), n, tr.text())
	case op.Del, op.Persist, op.LPop, op.RPop:
		return with(v.String())
	case op.PExpireAt:
		return with("PEXPIREAT", n)
	case op.LInsert:
		return with("LINSERT", tr.pick("BEFORE", "AFTER"), tr.text(), tr.text())
	case op.LRem:
		return with("LREM", n, tr.text())
	case op.LTrim:
		return with("LTRIM", n, n)
	case op.HDel, op.LPush, op.RPush, op.SAdd, op.SRem, op.ZRem:
		return with(v.String(), tr.texts()...)
	case op.HSet, op.ZAdd:
		return with(v.String(), tr.pairs()...)
	case op.XAdd:
		return with("XADD", append([]string{n + "-1"}, tr.pairs()...)...)
	case op.XDel, op.XSetID:
		return with(v.String(), n+"-1")
	case op.XTrim:
		return with("XTRIM", "MINID", "=", n+"-1")
	case op.XGroup:
		return []string{"XGROUP", tr.pick("DESTROY", "CREATE", "a"), tr.key(), tr.text(), n}
	case op.XClaim:
		return with("XCLAIM", tr.text(), tr.text(), "0", n+"-1", "TIME", n)
	case op.XAck:
		return with("XACK", tr.text(), n+"-1")
	case op.HPExpireAt:
		return with("HPEXPIREAT", n, "FIELDS", "1", tr.text())
	case op.HPersist:
		return with("HPERSIST", "FIELDS", "1", tr.text())
	}
	return []string{"FLUSHDB"}
}

// trafficVerbs are all verbs by number, which a frame can have.
var trafficVerbs = func() (names []string) {
	for v := op.Verb(1); v <= op.HPersist; v++ {
		names = append(names, v.String())
	}
	return names
}()

var trafficRegexes = []string{
	"a", "^a", "a$", "^$", ".", `^.$`, "p.id", "(?i)K", "[^a]", `\d`, `\bpaid`, "^(a|b|)1*$", `(?s)^.{2}$`, "é", "[é]", `\x00`, "^(?:[^é]|$)", `\{a\}`,
}

// trafficByteRegexes are no UTF-8, or speak of bytes.
var trafficByteRegexes = []string{"\xff", "[\x80-\xff]", `\xff`, `[\x80-\xff]$`, `\x{c3}\xa9`, "^[\xc3]", `\Q\xff\E`, `\377`, "a|\xc3", `[^\x00-\x7f]`}

// filter returns a filter of up to a few patterns of each kind.
func (tr traffic) filter() *refFilter {
	r := &refFilter{db: tr.rng.IntN(4), allDBs: tr.rng.IntN(2) == 0, byteMode: tr.rng.IntN(2) == 0}
	regex := func() string {
		if n := tr.rng.IntN(len(trafficRegexes) + len(trafficByteRegexes)); n < len(trafficRegexes) {
			return trafficRegexes[n]
		} else if p := trafficByteRegexes[n-len(trafficRegexes)]; r.byteMode || utf8.ValidString(p) && !strings.HasPrefix(p, `\377`) {
			return p
		}
		return "b"
	}
	some := func(to *[]string, draw func() string) {
		for n := tr.rng.IntN(6) - 3; n > 0; n-- {
			if s := draw(); s != "" {
				*to = append(*to, s)
			}
		}
	}
	some(&r.prefixes, tr.key)
	some(&r.matches, func() string {
		return tr.pick("", "a", `\*`, "é") + tr.pick("*", "?", "[ab1]", "[^a]", "[\xc3]*", "*1*", "x*", "?*")
	})
	for n := tr.rng.IntN(6) - 3; n > 0; n-- {
		r.regexes = append(r.regexes, [2]string{tr.pick("", "a", "é", "\xff"), regex()})
	}
	if tr.rng.IntN(2) == 0 {
		some(&r.valueExact, tr.text)
		some(&r.valuePrefixes, tr.text)
		some(&r.valueRegexes, regex)
	}
	return r
}
