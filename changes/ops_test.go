package changes

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"kevy/internal/op"
)

func words(line string) [][]byte {
	var args [][]byte
	for _, w := range strings.Fields(line) {
		if w == `""` {
			w = ""
		}
		args = append(args, []byte(w))
	}
	return args
}

func TestDecode(t *testing.T) {
	b := func(s string) []byte { return []byte(s) }
	bs := func(s string) [][]byte { return words(s) }
	at := time.UnixMilli(33177117420000)
	inf := math.Inf(1)
	for line, want := range map[string]Op{
		"SET k v":                                Set{Key: b("k"), Value: b("v")},
		`SET "" ""`:                              Set{Key: b(""), Value: b("")},
		"SET k v PXAT 33177117420000":            Set{Key: b("k"), Value: b("v"), Deadline: at},
		"SET k v KEEPTTL":                        Set{Key: b("k"), Value: b("v"), KeepTTL: true},
		"SETRANGE k 7 x":                         SetRange{Key: b("k"), Offset: 7, Bytes: b("x")},
		"DEL k":                                  Del{Key: b("k")},
		"PEXPIREAT k 33177117420000":             PExpireAt{Key: b("k"), Deadline: at},
		"PERSIST k":                              Persist{Key: b("k")},
		"HSET h f 1 g 2":                         HSet{Key: b("h"), Fields: []FieldValue{{b("f"), b("1")}, {b("g"), b("2")}}},
		"HDEL h f g":                             HDel{Key: b("h"), Fields: bs("f g")},
		"HPEXPIREAT h 33177117420000 FIELDS 1 f": HPExpireAt{Key: b("h"), Deadline: at, Fields: bs("f")},
		"HPERSIST h FIELDS 2 f g":                HPersist{Key: b("h"), Fields: bs("f g")},
		"LPUSH l a b":                            LPush{Key: b("l"), Elements: bs("a b")},
		"RPUSH l a":                              RPush{Key: b("l"), Elements: bs("a")},
		"LPOP l":                                 LPop{Key: b("l"), Count: 1},
		"RPOP l 3":                               RPop{Key: b("l"), Count: 3},
		"LSET l -1 x":                            LSet{Key: b("l"), Index: -1, Element: b("x")},
		"LINSERT l BEFORE p x":                   LInsert{Key: b("l"), Before: true, Pivot: b("p"), Element: b("x")},
		"LINSERT l AFTER p x":                    LInsert{Key: b("l"), Pivot: b("p"), Element: b("x")},
		"LREM l -2 x":                            LRem{Key: b("l"), Count: -2, Element: b("x")},
		"LTRIM l 1 -1":                           LTrim{Key: b("l"), Start: 1, Stop: -1},
		"SADD s a b":                             SAdd{Key: b("s"), Members: bs("a b")},
		"SREM s a":                               SRem{Key: b("s"), Members: bs("a")},
		"ZADD z 1.5 a -inf b inf c":              ZAdd{Key: b("z"), Members: []ScoredMember{{1.5, b("a")}, {-inf, b("b")}, {inf, b("c")}}},
		"ZREM z a":                               ZRem{Key: b("z"), Members: bs("a")},
		"XADD s 5-1 f v":                         XAdd{Key: b("s"), ID: StreamID{5, 1}, Fields: []FieldValue{{b("f"), b("v")}}},
		"XDEL s 5-1 6-18446744073709551615":      XDel{Key: b("s"), IDs: []StreamID{{5, 1}, {6, math.MaxUint64}}},
		"XTRIM s MINID = 6-1":                    XTrim{Key: b("s"), MinID: StreamID{6, 1}},
		"XTRIM s MAXLEN = 0":                     XTrim{Key: b("s"), All: true},
		"XSETID s 7-0 ENTRIESADDED 1":            XSetID{Key: b("s"), LastID: StreamID{7, 0}, EntriesAdded: 1},
		"XGROUP CREATE s g 0-0 MKSTREAM":         XGroup{Do: "CREATE", Key: b("s"), Group: b("g"), MkStream: true, EntriesRead: -1},
		"XGROUP CREATE s g 5-1 ENTRIESREAD 1":    XGroup{Do: "CREATE", Key: b("s"), Group: b("g"), ID: StreamID{5, 1}, EntriesRead: 1},
		"XGROUP SETID s g 5-1 ENTRIESREAD 3":     XGroup{Do: "SETID", Key: b("s"), Group: b("g"), ID: StreamID{5, 1}, EntriesRead: 3},
		"XGROUP DESTROY s g":                     XGroup{Do: "DESTROY", Key: b("s"), Group: b("g"), EntriesRead: -1},
		"XGROUP CREATECONSUMER s g c":            XGroup{Do: "CREATECONSUMER", Key: b("s"), Group: b("g"), Consumer: b("c"), EntriesRead: -1},
		"XGROUP DELCONSUMER s g c":               XGroup{Do: "DELCONSUMER", Key: b("s"), Group: b("g"), Consumer: b("c"), EntriesRead: -1},
		"XACK s g 5-1":                           XAck{Key: b("s"), Group: b("g"), IDs: []StreamID{{5, 1}}},
		"FLUSHDB":                                FlushDB{},
		"FLUSHALL":                               FlushAll{},
		"SWAPDB 0 15":                            SwapDB{A: 0, B: 15},
		"FUNCTION LOAD REPLACE code":             Function{Do: "LOAD", Code: b("code")},
		"FUNCTION DELETE lib":                    Function{Do: "DELETE", Name: b("lib")},
		"FUNCTION FLUSH":                         Function{Do: "FLUSH"},
		"XSETID s 7-0 ENTRIESADDED 1 MAXDELETEDID 6-1": XSetID{Key: b("s"), LastID: StreamID{7, 0}, EntriesAdded: 1, MaxDeletedID: StreamID{6, 1}},
		"XCLAIM s g c 0 5-1 5-2 TIME 33177117420000 RETRYCOUNT 2 FORCE JUSTID": XClaim{
			Key: b("s"), Group: b("g"), Consumer: b("c"), IDs: []StreamID{{5, 1}, {5, 2}}, Delivered: at, Count: 2,
		},
	} {
		args := words(line)
		got, err := DecodeOp(args)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", line, got, err)
			continue
		}
		if got.Verb() != string(args[0]) {
			t.Errorf("%s has the verb %s", line, got.Verb())
		}
		// Shorter or longer it is another op, or none, and no panic.
		for i := range args {
			if short, err := DecodeOp(args[:i]); err == nil && reflect.DeepEqual(short, want) {
				t.Errorf("%q is read as %s", args[:i], line)
			}
		}
		if long, err := DecodeOp(append(words(line), b("more"))); err == nil && reflect.DeepEqual(long, want) {
			t.Errorf("%s with an argument more is read as without it", line)
		}
	}
	for _, line := range []string{
		"", "GET k", "set k v", "SET k", "SET k v PX 1", "SET k v PXAT x", "HSET h f", "HDEL h", "ZADD z x m", "ZADD z nan m", "ZADD z 1", "XADD s 5 f v",
		"XADD s *-* f v", "XTRIM s MAXLEN = 1", "XTRIM s MAXLEN ~ 0", "XGROUP HELP s g", "SWAPDB 0", "SWAPDB -1 0", "HPERSIST h FIELDS 2 f",
		"LINSERT l x p e", "FLUSHALL ASYNC", "XCLAIM s g c 0 TIME 1 RETRYCOUNT 1 FORCE JUSTID", "XACK s g", "FUNCTION LOAD x",
	} {
		var unknown *UnknownOpError
		if got, err := DecodeOp(words(line)); !errors.As(err, &unknown) {
			t.Errorf("%q is read as %#v, %v", line, got, err)
		}
	}
}

// examples has an op for each verb.
var examples = map[string]string{
	"SET": "SET k v", "SETRANGE": "SETRANGE k 1 v", "DEL": "DEL k", "PEXPIREAT": "PEXPIREAT k 1", "PERSIST": "PERSIST k", "HSET": "HSET k f v",
	"HDEL": "HDEL k f", "LPUSH": "LPUSH k v", "RPUSH": "RPUSH k v", "LPOP": "LPOP k", "RPOP": "RPOP k", "LSET": "LSET k 0 v",
	"LINSERT": "LINSERT k AFTER p v", "LREM": "LREM k 0 v", "LTRIM": "LTRIM k 0 1", "SADD": "SADD k m", "SREM": "SREM k m", "ZADD": "ZADD k 1 m",
	"ZREM": "ZREM k m", "XADD": "XADD k 1-1 f v", "XDEL": "XDEL k 1-1", "XTRIM": "XTRIM k MAXLEN = 0", "XSETID": "XSETID k 1-1 ENTRIESADDED 1",
	"XGROUP": "XGROUP DESTROY k g", "XCLAIM": "XCLAIM k g c 0 1-1 TIME 1 RETRYCOUNT 1 FORCE JUSTID", "XACK": "XACK k g 1-1", "FLUSHDB": "FLUSHDB",
	"FLUSHALL": "FLUSHALL", "SWAPDB": "SWAPDB 0 1", "HPEXPIREAT": "HPEXPIREAT k 1 FIELDS 1 f", "HPERSIST": "HPERSIST k FIELDS 1 f",
	"FUNCTION": "FUNCTION DELETE lib",
}

// TestEveryOpIsKnown compares with the vocabulary of the server: each verb
// decodes, and each key is where the server says.
func TestEveryOpIsKnown(t *testing.T) {
	verbs := vocabulary()
	if len(verbs) < 31 {
		t.Fatalf("the vocabulary has %d ops", len(verbs))
	}
	for _, v := range verbs {
		line, ok := examples[v.String()]
		if !ok {
			t.Errorf("%s is an op of the server and has no type here", v)
			continue
		}
		f := Frame{Args: words(line)}
		if decoded, err := Decode(&f); err != nil || decoded.Verb() != v.String() {
			t.Errorf("%s: %#v, %v", line, decoded, err)
		}
		var want []byte
		if i := v.KeyAt(); i > 0 {
			want = f.Args[i]
		}
		if string(f.Key()) != string(want) {
			t.Errorf("%s has the key %q, the server says %q", line, f.Key(), want)
		}
	}
	if len(examples) != len(verbs) {
		t.Errorf("%d ops here, %d in the server", len(examples), len(verbs))
	}
}

// vocabulary lists the server's verbs: those whose text the server reads back.
func vocabulary() (verbs []op.Verb) {
	for v := op.None + 1; ; v++ {
		ok := func() (ok bool) {
			defer func() { ok = recover() == nil }()
			_ = v.String() // beyond the last one there is no text
			return true
		}()
		if !ok {
			return verbs
		}
		verbs = append(verbs, v)
	}
}
