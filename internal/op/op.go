// Package op is the vocabulary of changes and its encoding.
//
// An op is one change to one key, written as a real Redis command whose random,
// relative and conditional parts are resolved: SPOP becomes SREM of the members
// that went, EXPIRE becomes PEXPIREAT, INCR becomes SET … KEEPTTL. The log, the
// change feed and a base all carry ops and nothing else, and one interpreter
// (package shard) applies them.
//
// The ops of one command, transaction or script form a Commit. A block of the
// log holds whole commits; Scanner takes a block's payload apart again.
package op

// Verb names an op. The numbers never leave the process, the texts are on disk.
type Verb uint8

// The closed vocabulary. docs/ops.md says of each what it does and whether
// applying it twice is harmless.
const (
	None Verb = iota
	Set
	SetRange
	Del
	PExpireAt
	Persist
	HSet
	HDel
	LPush
	RPush
	LPop
	RPop
	LSet
	LInsert
	LRem
	LTrim
	SAdd
	SRem
	ZAdd
	ZRem
	XAdd
	XDel
	XTrim
	XSetID
	XGroup
	XClaim
	XAck
	FlushDB
	FlushAll
	SwapDB
	HPExpireAt
	HPersist
	Function
	numVerbs
)

var verbNames = [numVerbs]string{
	Set: "SET", SetRange: "SETRANGE", Del: "DEL", PExpireAt: "PEXPIREAT", Persist: "PERSIST",
	HSet: "HSET", HDel: "HDEL",
	LPush: "LPUSH", RPush: "RPUSH", LPop: "LPOP", RPop: "RPOP", LSet: "LSET", LInsert: "LINSERT", LRem: "LREM", LTrim: "LTRIM",
	SAdd: "SADD", SRem: "SREM", ZAdd: "ZADD", ZRem: "ZREM",
	XAdd: "XADD", XDel: "XDEL", XTrim: "XTRIM", XSetID: "XSETID", XGroup: "XGROUP", XClaim: "XCLAIM", XAck: "XACK",
	FlushDB: "FLUSHDB", FlushAll: "FLUSHALL", SwapDB: "SWAPDB",
	HPExpireAt: "HPEXPIREAT", HPersist: "HPERSIST",
	Function: "FUNCTION",
}

// String returns the Redis command that carries the op.
func (v Verb) String() string { return verbNames[v] }

// Keyed reports whether the op has a key. An op without one concerns every
// stream.
func (v Verb) Keyed() bool { return v != FlushDB && v != FlushAll && v != SwapDB && v != Function }

// KeyAt returns which argument of an op the key is, the verb being the first;
// 0 if it has none.
func (v Verb) KeyAt() int {
	switch {
	case !v.Keyed():
		return 0
	case v == XGroup:
		return 2 // behind the subcommand
	}
	return 1
}

// values is the one table of what a VALUE filter of the feed can look at; the
// table in docs/feed.md says the same.
var values = [numVerbs]struct{ first, step uint8 }{
	Set: {2, 0}, SetRange: {3, 0},
	HSet:  {3, 2}, // field, value
	LPush: {2, 1}, RPush: {2, 1}, LSet: {3, 0}, LRem: {3, 0},
	LInsert: {4, 0}, // the new element, not the pivot
	SAdd:    {2, 1}, SRem: {2, 1},
	ZAdd: {3, 2}, // score, member
	ZRem: {2, 1},
	XAdd: {4, 2}, // field, value
}

// Values returns which arguments of an op are its values, the verb being
// argument 0: the first one, and from there every step-th; only the first if step
// is 0. Without a value, as with DEL and what concerns expiry, both are 0.
func (v Verb) Values() (first, step int) {
	at := values[v]
	return int(at.first), int(at.step)
}

// verbOf maps the first argument of a logged command to its verb; None if the
// command is no op.
func verbOf(name []byte) Verb {
	switch string(name) {
	case "SET":
		return Set
	case "SETRANGE":
		return SetRange
	case "DEL":
		return Del
	case "PEXPIREAT":
		return PExpireAt
	case "PERSIST":
		return Persist
	case "HSET":
		return HSet
	case "HDEL":
		return HDel
	case "LPUSH":
		return LPush
	case "RPUSH":
		return RPush
	case "LPOP":
		return LPop
	case "RPOP":
		return RPop
	case "LSET":
		return LSet
	case "LINSERT":
		return LInsert
	case "LREM":
		return LRem
	case "LTRIM":
		return LTrim
	case "SADD":
		return SAdd
	case "SREM":
		return SRem
	case "ZADD":
		return ZAdd
	case "ZREM":
		return ZRem
	case "XADD":
		return XAdd
	case "XDEL":
		return XDel
	case "XTRIM":
		return XTrim
	case "XSETID":
		return XSetID
	case "XGROUP":
		return XGroup
	case "XCLAIM":
		return XClaim
	case "XACK":
		return XAck
	case "FLUSHDB":
		return FlushDB
	case "FLUSHALL":
		return FlushAll
	case "SWAPDB":
		return SwapDB
	case "HPEXPIREAT":
		return HPExpireAt
	case "HPERSIST":
		return HPersist
	case "FUNCTION":
		return Function
	}
	return None
}

// Cause says why a key, or a field of a hash, went: on request, by its deadline,
// or for memory.
type Cause uint8

const (
	User Cause = iota
	Expired
	Evicted
)

// String returns the cause as the feed's META names it.
func (c Cause) String() string {
	switch c {
	case Expired:
		return "expired"
	case Evicted:
		return "evicted"
	}
	return "user"
}

// EveryStream is the stream of an op that has no key.
const EveryStream = -1
