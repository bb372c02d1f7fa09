package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"kevy/internal/op"
)

// frameOf returns the frame of an op.
func frameOf(t testing.TB, db int, args ...string) *op.Frame {
	t.Helper()
	c := commitOfArgs(1, loggedOp{db: db, args: args})
	var pos op.LogPosition
	c.Bind(&pos)
	var s op.Scanner
	s.Reset(c.AppendTo(nil, true), 0)
	f, err := s.Next()
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	return f
}

// TestFilterAgainstReference holds what passes to a filter written the slow way,
// for frames of every verb in any database with any bytes.
func TestFilterAgainstReference(t *testing.T) {
	seed := seedOf(t)
	tr := traffic{rand.New(rand.NewPCG(seed, 1))}
	passed, left := map[string]int{}, map[string]int{}
	for range 800 {
		ref := tr.filter()
		f := ref.filter(t)
		for range 100 {
			db, args := tr.rng.IntN(4), tr.op()
			if tr.rng.IntN(60) == 0 {
				args = [][]string{{"FLUSHALL"}, {"SWAPDB", "1", "2"}}[tr.rng.IntN(2)]
			}
			want := ref.passes(db, args)
			if got := f.passes(frameOf(t, db, args...)); got != want {
				t.Fatalf("seed %d: %v of %q in database %d: %v, want %v", seed, ref, args, db, got, want)
			}
			if want {
				passed[args[0]]++
			} else {
				left[args[0]]++
			}
		}
	}
	for _, v := range trafficVerbs {
		if least := 80; v != "FLUSHALL" && (passed[v] < least || left[v] < least) {
			t.Errorf("%s: %d passed, %d left out, want %d of each", v, passed[v], left[v], least)
		}
	}
}

func TestFilterByCase(t *testing.T) {
	set := func(key, value string) []string { return []string{"SET", key, value} }
	for name, tc := range map[string]struct {
		ref  refFilter
		args []string
		want bool
	}{
		"regex is searched":                  {refFilter{regexes: [][2]string{{"user:", "4"}}}, set("user:142", ""), true},
		"regex is not searched in prefix":    {refFilter{regexes: [][2]string{{"user:4", "4"}}}, set("user:4", ""), false},
		"regex begins behind its prefix":     {refFilter{regexes: [][2]string{{"user:", "^1"}}}, set("user:1", ""), true},
		"regex of another prefix":            {refFilter{regexes: [][2]string{{"user:", "1"}}}, set("order:1", ""), false},
		"regex of every key":                 {refFilter{regexes: [][2]string{{"", "er:1$"}}}, set("user:1", ""), true},
		"regex in what is no UTF-8":          {refFilter{regexes: [][2]string{{"", "^.1$"}}}, set("\xff1", ""), true},
		"regex of text: é is one":            {refFilter{regexes: [][2]string{{"", "^.$"}}}, set("é", ""), true},
		"regex of bytes: é is two":           {refFilter{regexes: [][2]string{{"", "^..$"}}, byteMode: true}, set("é", ""), true},
		"regex of bytes: a byte":             {refFilter{regexes: [][2]string{{"", `^\xff$`}}, byteMode: true}, set("\xff", ""), true},
		"regex of bytes: not its code point": {refFilter{regexes: [][2]string{{"", `^\xe9$`}}, byteMode: true}, set("é", ""), false},
		"value":                              {refFilter{valueExact: []string{"v"}}, set("k", "v"), true},
		"value exactly":                      {refFilter{valueExact: []string{"v"}}, set("k", "vv"), false},
		"value or value":                     {refFilter{valueExact: []string{"v"}, valuePrefixes: []string{"w"}}, set("k", "ww"), true},
		"value and key":                      {refFilter{prefixes: []string{"x"}, valueExact: []string{"v"}}, set("k", "v"), false},
		"value is not an option":             {refFilter{valueExact: []string{"PXAT"}}, []string{"SET", "k", "v", "PXAT", "1"}, false},
		"value is not a field":               {refFilter{valueExact: []string{"f"}}, []string{"HSET", "k", "f", "v"}, false},
		"any value":                          {refFilter{valueExact: []string{"w"}}, []string{"HSET", "k", "f", "v", "g", "w"}, true},
		"value is not a score":               {refFilter{valueExact: []string{"1"}}, []string{"ZADD", "k", "1", "m"}, false},
		"value is not a pivot":               {refFilter{valueExact: []string{"p"}}, []string{"LINSERT", "k", "BEFORE", "p", "v"}, false},
		"value is not an id":                 {refFilter{valueExact: []string{"1-1"}}, []string{"XADD", "k", "1-1", "f", "v"}, false},
		"no value":                           {refFilter{valueExact: []string{"v"}}, []string{"DEL", "k"}, true},
		"no value, expiry of fields":         {refFilter{valueExact: []string{"v"}}, []string{"HPEXPIREAT", "k", "1", "FIELDS", "1", "f"}, true},
		"no value, another key":              {refFilter{prefixes: []string{"x"}, valueExact: []string{"v"}}, []string{"DEL", "k"}, false},
		"the database goes":                  {refFilter{prefixes: []string{"x"}, valueExact: []string{"v"}}, []string{"FLUSHDB"}, true},
		"another database goes":              {refFilter{db: 3}, []string{"FLUSHDB"}, false},
		"everything goes":                    {refFilter{db: 3, prefixes: []string{"x"}}, []string{"FLUSHALL"}, true},
		"SWAPDB under one database":          {refFilter{}, []string{"SWAPDB", "5", "6"}, false},
		"SWAPDB under all":                   {refFilter{allDBs: true, prefixes: []string{"x"}, valueExact: []string{"v"}}, []string{"SWAPDB", "5", "6"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.ref.filter(t).passes(frameOf(t, 0, tc.args...)); got != tc.want {
				t.Errorf("it passes: %v", got)
			}
			if got := tc.ref.passes(0, tc.args); got != tc.want {
				t.Errorf("the reference passes it: %v", got)
			}
		})
	}
}

// TestByteMode: a byte above 127 is matched by itself, by ranges and by what is
// said of ASCII, and has no case.
func TestByteMode(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"\xff", "a\xffb", true}, {`\xff`, "a\xffb", true}, {`\x{ff}`, "\xff", true}, {`\377`, "\xff", true}, {`\377`, "\xfe", false},
		{"^é$", "é", true}, {"^[é]$", "é", false}, {"^[é]{2}$", "é", true}, {"^.{2}$", "é", true}, {"^é$", "\xe9", false},
		{"(?i)^é$", "É", false}, {"(?i)^é$", "\xe3\xa9", false}, {"(?i)^aé$", "Aé", true}, {"(?i)k", "K", true},
		{`\pL`, "é", false}, {`^\pL$`, "a", true}, {`\w`, "é", false}, {`\W`, "\xff", true}, {`[[:^ascii:]]`, "\x80", true}, {`[[:^ascii:]]`, "\x7f", false},
		{`[\x80-\xff]`, "\x7f", false}, {`[\x80-\xff]`, "\x80", true}, {`[\x00-\xff]`, "\xff", true}, {`[^\x80-\xff]`, "\xff", false}, {`[a-\xff]`, "\xfe", true},
		{`\Q\xff\E`, "\xff", false}, {`\Q\xff\E`, `\xff`, true}, {"\\Q\xff", "\xff", true}, {"\\Qa\xff.\\E.", "a\xff.x", true}, {`\\xff`, `\xff`, true}, {`\\xff`, "\xff", false},
		{`^\x41\101$`, "AA", true}, {`\x7`, "", false}, {"^(?:\xff|b)+$", "b\xff\xffb", true}, {`\bé`, "é", false}, {`\x{0000000ff}`, "\xff", true},
	} {
		re, err := compile("REGEX", []byte(tc.pattern), true)
		if tc.pattern == `\x7` {
			if err == nil {
				t.Error(`\x7 is accepted`)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", tc.pattern, err)
		} else if got := re.found([]byte(tc.text)); got != tc.want {
			t.Errorf("%q in %q: %v", tc.pattern, tc.text, got)
		}
	}
}

func TestFilterLimits(t *testing.T) {
	f := Filter{}
	p := []byte("p")
	for range MaxPatterns {
		for _, err := range []error{
			f.AddPrefix(p), f.AddMatch(p), f.AddRegex(nil, p, false), f.AddValueExact(p), f.AddValuePrefix(p), f.AddValueRegex(p, true),
		} {
			must(t, err)
		}
	}
	fresh := func() *Filter { return &Filter{} }
	text, pattern := []byte(strings.Repeat("x", MaxTextBytes)), []byte(strings.Repeat("x", MaxPatternBytes))
	// An instruction for each x, one for the end, and one that always fails.
	most := fmt.Appendf(nil, "x{%d}", MaxRegexSize-2)
	for _, err := range []error{
		fresh().AddPrefix(text), fresh().AddMatch(pattern), fresh().AddRegex(text, p, false), fresh().AddValueExact(text), fresh().AddValuePrefix(text),
		fresh().AddRegex(nil, most, false), fresh().AddValueRegex(most, true), fresh().AddRegex(nil, []byte("("+strings.Repeat("|", MaxPatternBytes-2)+")"), false),
	} {
		must(t, err)
	}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"17th prefix":        {f.AddPrefix(p), "more than 16 PREFIX"},
		"17th glob":          {f.AddMatch(p), "more than 16 MATCH"},
		"17th regex":         {f.AddRegex(nil, p, false), "more than 16 REGEX"},
		"17th value":         {f.AddValueExact(p), "more than 16 VALUE EXACT"},
		"17th value prefix":  {f.AddValuePrefix(p), "more than 16 VALUE PREFIX"},
		"17th value regex":   {f.AddValueRegex(p, false), "more than 16 VALUE REGEX"},
		"blank prefix":       {fresh().AddPrefix(nil), "PREFIX must not be empty"},
		"blank glob":         {fresh().AddMatch(nil), "MATCH must not be empty"},
		"blank regex":        {fresh().AddRegex(p, nil, false), "REGEX must not be empty"},
		"blank value":        {fresh().AddValueExact(nil), "VALUE EXACT must not be empty"},
		"blank value prefix": {fresh().AddValuePrefix(nil), "VALUE PREFIX must not be empty"},
		"blank value regex":  {fresh().AddValueRegex(nil, false), "VALUE REGEX must not be empty"},
		"long prefix":        {fresh().AddPrefix(append(text, 'x')), "PREFIX has 65537 bytes, at most 65536 are allowed"},
		"long glob":          {fresh().AddMatch(append(pattern, 'x')), "MATCH has 1025 bytes, at most 1024 are allowed"},
		"long regex":         {fresh().AddRegex(nil, append(pattern, 'x'), false), "REGEX has 1025 bytes, at most 1024 are allowed"},
		"long regex prefix":  {fresh().AddRegex(append(text, 'x'), p, false), "the prefix of a REGEX has 65537 bytes, at most 65536 are allowed"},
		"long value regex":   {fresh().AddValueRegex(append(pattern, 'x'), false), "VALUE REGEX has 1025 bytes, at most 1024 are allowed"},
		"large regex":        {fresh().AddRegex(nil, []byte("x{999}"), false), "REGEX compiles to 1001 steps, at most 1000 are allowed: repeat less"},
		"larger regex":       {fresh().AddRegex(nil, []byte("(x{999}){999}"), false), `REGEX: invalid repeat count at "{999}"; the syntax is RE2's, as in Go`},
		"no regex":           {fresh().AddRegex(nil, []byte("a(b"), false), `REGEX: missing closing ) at "a(b"; the syntax is RE2's, as in Go`},
		"no value regex":     {fresh().AddValueRegex([]byte(`(?=a)`), false), "VALUE REGEX: invalid or unsupported Perl syntax at \"(?=\"; the syntax is RE2's, as in Go"},
		"no text":            {fresh().AddRegex(nil, []byte("\xff"), false), "REGEX is not UTF-8: bytes are matched with BYTEMODE"},
		"no byte":            {fresh().AddRegex(nil, []byte(`a\x{100}`), true), `REGEX: "\\x{100}" is no byte, and BYTEMODE matches bytes`},
		"no octal byte":      {fresh().AddRegex(nil, []byte(`\400`), true), `REGEX: "\\400" is no byte, and BYTEMODE matches bytes`},
	} {
		var bad *FilterError
		if !errors.As(tc.err, &bad) || ReplyError(tc.err).Error() != "ERR invalid filter: "+tc.want {
			t.Errorf("%s: %v\nwant %s", name, tc.err, tc.want)
		}
	}
}

// TestFiltersAllocateNothing for a frame, passed or not.
func TestFiltersAllocateNothing(t *testing.T) {
	frames := []*op.Frame{
		frameOf(t, 0, "SET", "user:1", "paid"), frameOf(t, 0, "SET", "user:\xff", "\xffpaid"), frameOf(t, 0, "HSET", "order:1", "f", "v", "g", "paid"),
		frameOf(t, 0, "DEL", "user:1"),
	}
	for name, ref := range filtersToMeasure {
		f := ref.filter(t)
		run := func() {
			for _, fr := range frames {
				f.passes(fr)
			}
		}
		run()
		// The race detector has pools forget at random.
		if n := testing.AllocsPerRun(1000, run); n >= 1 && !raceDetector {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// filtersToMeasure are one of each kind.
var filtersToMeasure = map[string]*refFilter{
	"none":                 {allDBs: true},
	"DB":                   {},
	"PREFIX":               {prefixes: []string{"user:"}},
	"MATCH":                {matches: []string{"*er:*1"}},
	"REGEX":                {regexes: [][2]string{{"user:", `[a-f]\d+$`}}},
	"REGEX, BYTEMODE":      {regexes: [][2]string{{"user:", `[a-f]\d+$`}}, byteMode: true},
	"VALUE EXACT":          {valueExact: []string{"paid"}},
	"VALUE REGEX":          {valueRegexes: []string{`(un)?paid\d$`}},
	"VALUE REGEX, no find": {valueRegexes: []string{`refunded`}},
}

// TestSlowFilterAnswersInTime: a read whose filter costs more than its time
// returns with a moved cursor rather than look on.
func TestSlowFilterAnswersInTime(t *testing.T) {
	s, l := openFake(t, 1)
	const frames = 100
	for range frames {
		l.append(commitOf(1, "SET k "+strings.Repeat("x", clockBytes/8)))
	}
	f := (&refFilter{valueRegexes: []string{"y"}}).filter(t)
	s.scanTime = time.Nanosecond
	at := Cursor{s.Tail(0).Generation, 0}
	var b Batch
	calls := 0
	for ; at.Offset < frames; calls++ {
		must(t, s.Since(ctx, &Request{Cursor: at, Filter: f, Block: time.Hour}, &b))
		if b.Next <= at.Offset || b.Next > at.Offset+9 || b.Len() > 0 {
			t.Fatalf("from offset %d it went on to %d with %d frames", at.Offset, b.Next, b.Len())
		}
		at.Offset = b.Next
	}
	if calls < frames/9 {
		t.Errorf("%d calls", calls)
	}
	// A Follower has the time anew in each read.
	follower, err := s.Follow(Request{Cursor: Cursor{at.Generation, 0}, Filter: f})
	must(t, err)
	defer follower.Close()
	for calls = 0; follower.Cursor() != at; calls++ {
		must(t, follower.Next(context.Background(), &b))
		if follower.AtEnd() || calls > frames {
			t.Fatalf("after %d reads it stands at %v, at the end: %v", calls, follower.Cursor(), follower.AtEnd())
		}
	}
	if calls < frames/9 {
		t.Errorf("%d reads of a follower", calls)
	}
	s.scanTime = MaxScanTime
	if must(t, follower.Next(context.Background(), &b)); !follower.AtEnd() {
		t.Error("the follower does not see the end")
	}
	b.Release()
}

// TestValuesArePublished holds the table of docs/feed.md and the one of docs/ops.md
// to what filters look at.
func TestValuesArePublished(t *testing.T) {
	type place struct{ first, step int }
	published := map[string]place{}
	for _, row := range tableRows(t, "../docs/feed.md", regexp.MustCompile("(?m)^\\| `([A-Z]+) key [^`]*`(?:, `([A-Z]+)`|, with [^|]*)? \\| (\\d+)(?:, (\\d+), …)? \\|$")) {
		var p place
		fmt.Sscan(row[3], &p.first)
		if row[4] != "" {
			fmt.Sscan(row[4], &p.step)
			p.step -= p.first
		}
		published[row[1]] = p
		if row[2] != "" {
			published[row[2]] = p
		}
	}
	for v := op.Verb(1); int(v) <= len(trafficVerbs); v++ {
		var want place
		if want.first, want.step = v.Values(); published[v.String()] != want {
			t.Errorf("docs/feed.md says that the values of %s are at %v, they are at %v", v, published[v.String()], want)
		}
		delete(published, v.String())
	}
	if len(published) > 0 {
		t.Errorf("of no op: %v", published)
	}
	ops := 0
	for _, row := range tableRows(t, "../docs/ops.md", regexp.MustCompile("(?m)^\\| `([A-Z]+)[^|]*?`(?:, `([A-Z]+)`)? \\|.*\\| (yes|no) \\|$")) {
		for _, name := range row[1:3] {
			for v := op.Verb(1); name != "" && int(v) <= len(trafficVerbs); v++ {
				if first, _ := v.Values(); v.String() == name {
					ops++
					if row[3] != map[bool]string{true: "yes", false: "no"}[first > 0] {
						t.Errorf("docs/ops.md says of %s: value %s", name, row[3])
					}
				}
			}
		}
	}
	if ops < len(trafficVerbs)-4 {
		t.Errorf("docs/ops.md has %d ops of %d", ops, len(trafficVerbs))
	}
}

func tableRows(t *testing.T, path string, row *regexp.Regexp) [][]string {
	t.Helper()
	page, err := os.ReadFile(path)
	must(t, err)
	return row.FindAllStringSubmatch(string(page), -1)
}

// TestPatternsBoundMemory: what a pattern within the limits compiles to is small.
func TestPatternsBoundMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make([]*Filter, 0, 64)
	for range 64 {
		f := &Filter{}
		must(t, f.AddRegex(nil, []byte(strings.Repeat(`\pL`, 300)), false))
		kept = append(kept, f)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := int64(after.HeapAlloc-before.HeapAlloc) / 64; per > 4<<20 {
		t.Errorf("a pattern holds %d bytes", per)
	}
	runtime.KeepAlive(kept)
}

// FuzzFilterRegex: no pattern does harm. One that is taken finds what Go's regexp
// finds; in BYTEMODE a text is the same whether it is shown as it stands or byte
// by byte, and bytes above 127 are found by themselves.
func FuzzFilterRegex(f *testing.F) {
	for _, p := range append(trafficRegexes, trafficByteRegexes...) {
		for _, text := range trafficTexts {
			f.Add([]byte(p), []byte(text), true)
			f.Add([]byte(p), []byte(text), false)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, text []byte, byteMode bool) {
		text = text[:min(len(text), 1<<10)] // the time grows with text and pattern
		filter := &Filter{}
		if err := filter.AddRegex(nil, pattern, byteMode); err != nil {
			var bad *FilterError
			if !errors.As(err, &bad) || strings.ContainsAny(ReplyError(err).Error(), "\r\n") {
				t.Fatalf("%q: %q", pattern, err)
			}
			return
		}
		re := filter.regexes[0].re
		got := re.found(text)
		if !byteMode {
			if want := regexp.MustCompile(string(pattern)).Match(text); got != want {
				t.Fatalf("%q in %q: %v", pattern, text, got)
			}
			return
		}
		var shown strings.Builder
		for _, c := range text {
			shown.WriteRune(byteRune(c))
		}
		if want := re.re.MatchString(shown.String()); got != want {
			t.Fatalf("%q in %q: %v", pattern, text, got)
		}
		if len(text) > MaxRegexSize/4 {
			return
		}
		own, err := compile("REGEX", append(append([]byte(`\A(?:`), regexp.QuoteMeta(string(text))...), `)\z`...), true)
		if err != nil || !own.found(text) {
			t.Fatalf("%q is not found by itself: %v", text, err)
		}
	})
}
