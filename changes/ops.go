package changes

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Op is what a frame does, taken apart: one of the struct types of this file.
// docs/ops.md says of each what it does and whether doing it twice is harmless.
// All byte slices are those of the frame.
type Op interface {
	// Verb is the name of the Redis command: "SET", "HDEL" …
	Verb() string
}

// FieldValue is a field of a hash or of a stream's entry.
type FieldValue struct{ Field, Value []byte }

// ScoredMember is a member of a sorted set.
type ScoredMember struct {
	Score  float64 // never NaN
	Member []byte
}

// String returns the id as Redis writes it.
func (id StreamID) String() string {
	return strconv.FormatUint(id.Ms, 10) + "-" + strconv.FormatUint(id.Seq, 10)
}

// Ops on keys of any type.
type (
	// Del removes a key. The frame's cause says whether somebody asked for it.
	Del struct{ Key []byte }
	// PExpireAt lets a key expire at Deadline. The DEL comes as a frame of its own:
	// do not remove the key by your own clock.
	PExpireAt struct {
		Key      []byte
		Deadline time.Time
	}
	// Persist takes a key's deadline away.
	Persist struct{ Key []byte }
)

// Ops on strings.
type (
	// Set gives a key a string, whatever it held.
	Set struct {
		Key, Value []byte
		// Deadline is when it expires, zero if it does not. KeepTTL keeps the
		// deadline that the key has.
		Deadline time.Time
		KeepTTL  bool
	}
	// SetRange overwrites a part of a string from a byte on, filling a gap with
	// zeros.
	SetRange struct {
		Key    []byte
		Offset int64
		Bytes  []byte
	}
)

// Ops on hashes. The key goes with its last field.
type (
	// HSet sets fields, without a deadline.
	HSet struct {
		Key    []byte
		Fields []FieldValue
	}
	// HDel removes fields.
	HDel struct {
		Key    []byte
		Fields [][]byte
	}
	// HPExpireAt lets fields expire at Deadline; fields that are not there are none.
	HPExpireAt struct {
		Key      []byte
		Deadline time.Time
		Fields   [][]byte
	}
	// HPersist takes the deadlines of fields away.
	HPersist struct {
		Key    []byte
		Fields [][]byte
	}
)

// Ops on lists. The key goes with its last element.
type (
	// LPush adds elements at the head, one after the other.
	LPush struct {
		Key      []byte
		Elements [][]byte
	}
	// RPush adds elements at the tail.
	RPush struct {
		Key      []byte
		Elements [][]byte
	}
	// LPop removes Count elements at the head.
	LPop struct {
		Key   []byte
		Count int64
	}
	// RPop removes Count elements at the tail.
	RPop struct {
		Key   []byte
		Count int64
	}
	// LSet replaces the element at Index, from the tail if it is negative.
	LSet struct {
		Key     []byte
		Index   int64
		Element []byte
	}
	// LInsert adds an element beside the first one that is equal to Pivot.
	LInsert struct {
		Key            []byte
		Before         bool
		Pivot, Element []byte
	}
	// LRem removes elements equal to Element: the first Count, the last if it is
	// negative, all if it is 0.
	LRem struct {
		Key     []byte
		Count   int64
		Element []byte
	}
	// LTrim keeps the elements from Start to Stop.
	LTrim struct {
		Key         []byte
		Start, Stop int64
	}
)

// Ops on sets and sorted sets. The key goes with its last member.
type (
	// SAdd adds members.
	SAdd struct {
		Key     []byte
		Members [][]byte
	}
	// SRem removes members.
	SRem struct {
		Key     []byte
		Members [][]byte
	}
	// ZAdd gives members their scores.
	ZAdd struct {
		Key     []byte
		Members []ScoredMember
	}
	// ZRem removes members.
	ZRem struct {
		Key     []byte
		Members [][]byte
	}
)

// Ops on streams. The key stays when the last entry goes.
type (
	// XAdd appends an entry.
	XAdd struct {
		Key    []byte
		ID     StreamID
		Fields []FieldValue
	}
	// XDel removes entries.
	XDel struct {
		Key []byte
		IDs []StreamID
	}
	// XTrim removes the entries below MinID, or all.
	XTrim struct {
		Key   []byte
		MinID StreamID
		All   bool
	}
	// XSetID sets what a stream says of entries that are gone.
	XSetID struct {
		Key          []byte
		LastID       StreamID
		EntriesAdded uint64
		MaxDeletedID StreamID
	}
	// XGroup changes a consumer group. Do is "CREATE", "SETID", "DESTROY",
	// "CREATECONSUMER" or "DELCONSUMER".
	XGroup struct {
		Do         string
		Key, Group []byte
		// ID and EntriesRead are what the group has read, for CREATE and SETID;
		// EntriesRead is -1 if it is not known. MkStream creates the key.
		ID          StreamID
		EntriesRead int64
		MkStream    bool
		// Consumer is for CREATECONSUMER and DELCONSUMER.
		Consumer []byte
	}
	// XClaim makes entries pending for a consumer, which it creates.
	XClaim struct {
		Key, Group, Consumer []byte
		IDs                  []StreamID
		// Delivered is when they were delivered last, Count how often.
		Delivered time.Time
		Count     uint64
	}
	// XAck says that entries are no longer pending.
	XAck struct {
		Key, Group []byte
		IDs        []StreamID
	}
)

// Ops without a key.
type (
	// FlushDB removes every key of the frame's database.
	FlushDB struct{}
	// FlushAll removes every key of every database.
	FlushAll struct{}
	// SwapDB exchanges two databases.
	SwapDB struct{ A, B int }
	// Function changes the libraries of functions. Do is "LOAD", with the Code that
	// takes the place of a library of its name, "DELETE", with the Name of the one
	// that goes, or "FLUSH": all go.
	Function struct {
		Do         string
		Name, Code []byte
	}
)

func (Del) Verb() string        { return "DEL" }
func (PExpireAt) Verb() string  { return "PEXPIREAT" }
func (Persist) Verb() string    { return "PERSIST" }
func (Set) Verb() string        { return "SET" }
func (SetRange) Verb() string   { return "SETRANGE" }
func (HSet) Verb() string       { return "HSET" }
func (HDel) Verb() string       { return "HDEL" }
func (HPExpireAt) Verb() string { return "HPEXPIREAT" }
func (HPersist) Verb() string   { return "HPERSIST" }
func (LPush) Verb() string      { return "LPUSH" }
func (RPush) Verb() string      { return "RPUSH" }
func (LPop) Verb() string       { return "LPOP" }
func (RPop) Verb() string       { return "RPOP" }
func (LSet) Verb() string       { return "LSET" }
func (LInsert) Verb() string    { return "LINSERT" }
func (LRem) Verb() string       { return "LREM" }
func (LTrim) Verb() string      { return "LTRIM" }
func (SAdd) Verb() string       { return "SADD" }
func (SRem) Verb() string       { return "SREM" }
func (ZAdd) Verb() string       { return "ZADD" }
func (ZRem) Verb() string       { return "ZREM" }
func (XAdd) Verb() string       { return "XADD" }
func (XDel) Verb() string       { return "XDEL" }
func (XTrim) Verb() string      { return "XTRIM" }
func (XSetID) Verb() string     { return "XSETID" }
func (XGroup) Verb() string     { return "XGROUP" }
func (XClaim) Verb() string     { return "XCLAIM" }
func (XAck) Verb() string       { return "XACK" }
func (FlushDB) Verb() string    { return "FLUSHDB" }
func (FlushAll) Verb() string   { return "FLUSHALL" }
func (SwapDB) Verb() string     { return "SWAPDB" }
func (Function) Verb() string   { return "FUNCTION" }

// UnknownOpError says that an op is none that this version of the package
// knows, or has a form that it does not know: the server is newer. Use a newer
// package, or look at the arguments.
type UnknownOpError struct{ Args [][]byte }

func (e *UnknownOpError) Error() string {
	const most = 100
	text := fmt.Sprintf("%q", e.Args[:min(len(e.Args), 6)])
	if len(text) > most {
		text = text[:most] + "…"
	}
	return "changes: an op that this version does not know: " + text
}

// Decode takes the op of a frame apart. The error is an *UnknownOpError.
func Decode(f *Frame) (Op, error) { return DecodeOp(f.Args) }

// DecodeOp is Decode for an op that is no frame, as of a SnapshotPart.
func DecodeOp(args [][]byte) (Op, error) {
	d := opDecoder{rest: args}
	op := d.op(string(d.next()))
	if d.failed || len(d.rest) > 0 || op == nil {
		return nil, &UnknownOpError{Args: args}
	}
	return op, nil
}

// opDecoder takes arguments from the left. A fault is noted and asked for once.
type opDecoder struct {
	rest   [][]byte
	failed bool
}

func (d *opDecoder) op(verb string) Op {
	switch verb {
	case "SET":
		return d.set()
	case "SETRANGE":
		return SetRange{Key: d.next(), Offset: d.int(), Bytes: d.next()}
	case "DEL":
		return Del{Key: d.next()}
	case "PEXPIREAT":
		return PExpireAt{Key: d.next(), Deadline: d.time()}
	case "PERSIST":
		return Persist{Key: d.next()}
	case "HSET":
		return HSet{Key: d.next(), Fields: d.pairs()}
	case "HDEL":
		return HDel{Key: d.next(), Fields: d.all()}
	case "HPEXPIREAT":
		return HPExpireAt{Key: d.next(), Deadline: d.time(), Fields: d.fields()}
	case "HPERSIST":
		return HPersist{Key: d.next(), Fields: d.fields()}
	case "LPUSH":
		return LPush{Key: d.next(), Elements: d.all()}
	case "RPUSH":
		return RPush{Key: d.next(), Elements: d.all()}
	case "LPOP":
		return LPop{Key: d.next(), Count: d.count()}
	case "RPOP":
		return RPop{Key: d.next(), Count: d.count()}
	case "LSET":
		return LSet{Key: d.next(), Index: d.int(), Element: d.next()}
	case "LINSERT":
		return LInsert{Key: d.next(), Before: d.either("BEFORE", "AFTER"), Pivot: d.next(), Element: d.next()}
	case "LREM":
		return LRem{Key: d.next(), Count: d.int(), Element: d.next()}
	case "LTRIM":
		return LTrim{Key: d.next(), Start: d.int(), Stop: d.int()}
	case "SADD":
		return SAdd{Key: d.next(), Members: d.all()}
	case "SREM":
		return SRem{Key: d.next(), Members: d.all()}
	case "ZADD":
		return ZAdd{Key: d.next(), Members: d.scored()}
	case "ZREM":
		return ZRem{Key: d.next(), Members: d.all()}
	case "FLUSHDB":
		return FlushDB{}
	case "FLUSHALL":
		return FlushAll{}
	case "SWAPDB":
		return SwapDB{A: d.db(), B: d.db()}
	case "FUNCTION":
		return d.function()
	}
	return d.streamOp(verb)
}

// claimTail is how many arguments of XCLAIM follow the ids: TIME ms RETRYCOUNT n
// FORCE JUSTID.
const claimTail = 6

func (d *opDecoder) streamOp(verb string) Op {
	switch verb {
	case "XADD":
		return XAdd{Key: d.next(), ID: d.id(), Fields: d.pairs()}
	case "XDEL":
		return XDel{Key: d.next(), IDs: d.ids(len(d.rest))}
	case "XTRIM":
		return d.trim()
	case "XSETID":
		op := XSetID{Key: d.next(), LastID: d.id()}
		d.word("ENTRIESADDED")
		op.EntriesAdded = d.uint()
		if d.option("MAXDELETEDID") {
			op.MaxDeletedID = d.id()
		}
		return op
	case "XGROUP":
		return d.group()
	case "XCLAIM":
		op := XClaim{Key: d.next(), Group: d.next(), Consumer: d.next()}
		d.word("0")
		op.IDs = d.ids(len(d.rest) - claimTail)
		d.word("TIME")
		op.Delivered = d.time()
		d.word("RETRYCOUNT")
		op.Count = d.uint()
		d.word("FORCE")
		d.word("JUSTID")
		return op
	case "XACK":
		return XAck{Key: d.next(), Group: d.next(), IDs: d.ids(len(d.rest))}
	}
	return nil
}

func (d *opDecoder) function() Op {
	switch op := (Function{Do: string(d.next())}); op.Do {
	case "LOAD":
		d.word("REPLACE")
		op.Code = d.next()
		return op
	case "DELETE":
		op.Name = d.next()
		return op
	case "FLUSH":
		return op
	}
	d.failed = true
	return nil
}

func (d *opDecoder) next() []byte {
	if len(d.rest) == 0 {
		d.failed = true
		return nil
	}
	a := d.rest[0]
	d.rest = d.rest[1:]
	return a
}

// all takes what is left, which must be something.
func (d *opDecoder) all() [][]byte {
	all := d.rest
	d.failed = d.failed || len(all) == 0
	d.rest = nil
	return all
}

// word takes an argument that must be as given.
func (d *opDecoder) word(w string) {
	d.failed = d.failed || string(d.next()) != w
}

// option takes an argument if it is as given.
func (d *opDecoder) option(w string) bool {
	if len(d.rest) == 0 || string(d.rest[0]) != w {
		return false
	}
	d.rest = d.rest[1:]
	return true
}

func (d *opDecoder) either(yes, no string) bool {
	switch string(d.next()) {
	case yes:
		return true
	case no:
	default:
		d.failed = true
	}
	return false
}

func (d *opDecoder) int() int64 {
	n, err := strconv.ParseInt(string(d.next()), 10, 64)
	d.failed = d.failed || err != nil
	return n
}

func (d *opDecoder) uint() uint64 {
	n, err := strconv.ParseUint(string(d.next()), 10, 64)
	d.failed = d.failed || err != nil
	return n
}

func (d *opDecoder) db() int {
	n := d.int()
	d.failed = d.failed || n < 0 || n > math.MaxInt32
	return int(n)
}

// time takes a Unix time in milliseconds.
func (d *opDecoder) time() time.Time { return time.UnixMilli(d.int()) }

// count takes the count of a pop, which stands only where it is not 1.
func (d *opDecoder) count() int64 {
	if len(d.rest) == 0 {
		return 1
	}
	return d.int()
}

func (d *opDecoder) pairs() []FieldValue {
	all := d.all()
	if len(all)%2 != 0 {
		d.failed = true
		return nil
	}
	pairs := make([]FieldValue, len(all)/2)
	for i := range pairs {
		pairs[i] = FieldValue{Field: all[2*i], Value: all[2*i+1]}
	}
	return pairs
}

// fields takes FIELDS n field …
func (d *opDecoder) fields() [][]byte {
	d.word("FIELDS")
	n := d.int()
	fields := d.all()
	d.failed = d.failed || n != int64(len(fields))
	return fields
}

func (d *opDecoder) scored() []ScoredMember {
	all := d.all()
	if len(all)%2 != 0 {
		d.failed = true
		return nil
	}
	members := make([]ScoredMember, len(all)/2)
	for i := range members {
		score, err := strconv.ParseFloat(string(all[2*i]), 64)
		d.failed = d.failed || err != nil || math.IsNaN(score)
		members[i] = ScoredMember{Score: score, Member: all[2*i+1]}
	}
	return members
}

func (d *opDecoder) id() StreamID {
	ms, seq, ok := strings.Cut(string(d.next()), "-")
	id := StreamID{}
	var err1, err2 error
	id.Ms, err1 = strconv.ParseUint(ms, 10, 64)
	id.Seq, err2 = strconv.ParseUint(seq, 10, 64)
	d.failed = d.failed || !ok || err1 != nil || err2 != nil
	return id
}

// ids takes n ids, at least one.
func (d *opDecoder) ids(n int) []StreamID {
	if n < 1 || n > len(d.rest) {
		d.failed = true
		return nil
	}
	ids := make([]StreamID, n)
	for i := range ids {
		ids[i] = d.id()
	}
	return ids
}

// set takes key value [PXAT ms | KEEPTTL].
func (d *opDecoder) set() Op {
	op := Set{Key: d.next(), Value: d.next()}
	switch {
	case d.option("PXAT"):
		op.Deadline = d.time()
	case d.option("KEEPTTL"):
		op.KeepTTL = true
	}
	return op
}

// trim takes key MINID = id, or key MAXLEN = 0.
func (d *opDecoder) trim() Op {
	op := XTrim{Key: d.next(), All: d.either("MAXLEN", "MINID")}
	d.word("=")
	if op.All {
		d.word("0")
	} else {
		op.MinID = d.id()
	}
	return op
}

// group takes a subcommand, key, group and what belongs to the subcommand.
func (d *opDecoder) group() Op {
	op := XGroup{Do: string(d.next()), Key: d.next(), Group: d.next(), EntriesRead: -1}
	switch op.Do {
	case "CREATE", "SETID":
		op.ID = d.id()
		op.MkStream = op.Do == "CREATE" && d.option("MKSTREAM")
		if d.option("ENTRIESREAD") {
			op.EntriesRead = d.int()
		}
	case "CREATECONSUMER", "DELCONSUMER":
		op.Consumer = d.next()
	case "DESTROY":
	default:
		d.failed = true
	}
	return op
}
