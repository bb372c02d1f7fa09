// Package command describes commands: what each is called, takes, touches and
// costs, and the handler that runs it. Everything that is said of commands
// elsewhere (COMMAND, ACL categories, key extraction, the documentation) is
// derived from the Specs.
package command

import "strings"

// Handler runs a command: it parses all arguments, then reads, changes and
// replies through c. It writes exactly one reply.
type Handler func(c *Ctx)

// Spec is one command or subcommand.
type Spec struct {
	Name     string // lower case; a subcommand has its own name only
	Arity    int    // with the name; negative: at least so many
	Flags    Flags
	Category Category // beyond what the flags imply
	Keys     []KeySpec
	// Channels says which arguments are channels.
	Channels ChannelUse
	// Reach, if set, returns a key of every shard that the command may look into
	// besides those of Keys, or all if that can be any. It may return more than
	// the handler then needs, but nothing less.
	Reach func(args [][]byte) (keys [][]byte, all bool)
	Tips  []string
	// WritesNothing, if set, reports whether a call with these arguments changes nothing
	// although the Flags say that the command may.
	WritesNothing func(args [][]byte) bool
	// Secrets, if set, calls hide with the index of each argument that nobody else must
	// see; one that is not there is left out.
	Secrets func(args [][]byte, hide func(i int))

	Summary     string
	Syntax      string // the arguments as documentation shows them
	Since       string
	Group       string
	Complexity  string
	Differences string // how it differs from Redis, if it does

	Run Handler
	Sub []*Spec

	parent *Spec
	number int // in its Table
}

// FullName returns the name as ACL and COMMAND give it: parent|sub.
func (s *Spec) FullName() string {
	if s.parent != nil {
		return s.parent.Name + "|" + s.Name
	}
	return s.Name
}

// Parent returns the command that s is a subcommand of, nil if none.
func (s *Spec) Parent() *Spec { return s.parent }

// Number is the index of the command among all of its Table, subcommands
// included: from 0, below Table.Len.
func (s *Spec) Number() int { return s.number }

// Flags say how a command may be used. Those up to MovableKeys are Redis's and
// appear in COMMAND INFO; the others are ours.
type Flags uint32

const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM
	Admin
	PubSub
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	MayReplicate
	AllowBusy
	NoAsyncLoading
	NoMulti
	NoMandatoryKeys
	MovableKeys

	// AllShards: the command works on whole databases and runs with every shard
	// locked.
	AllShards
	// TellsMisses: a key that the command asks for and that is missing is an event,
	// as with commands that read, though it writes.
	TellsMisses
	// Unlocked: the command takes no shard lock; it touches no key, or locks
	// what it needs by itself.
	Unlocked
)

// flagNames lacks MayReplicate, which COMMAND INFO does not show.
var flagNames = []struct {
	flag Flags
	name string
}{
	{Write, "write"}, {ReadOnly, "readonly"}, {DenyOOM, "denyoom"}, {Admin, "admin"}, {PubSub, "pubsub"},
	{NoScript, "noscript"}, {Blocking, "blocking"}, {Loading, "loading"}, {Stale, "stale"},
	{SkipMonitor, "skip_monitor"}, {SkipSlowlog, "skip_slowlog"}, {Asking, "asking"}, {Fast, "fast"},
	{NoAuth, "no_auth"}, {NoMandatoryKeys, "no_mandatory_keys"}, {NoAsyncLoading, "no_async_loading"},
	{NoMulti, "no_multi"}, {MovableKeys, "movablekeys"}, {AllowBusy, "allow_busy"},
}

// Names returns Redis's names of the flags, in the order of COMMAND INFO.
func (f Flags) Names() []string {
	var out []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// FlagNames returns what COMMAND INFO shows: the flags' names, with movablekeys
// where the keys do not all stand at fixed places.
func (s *Spec) FlagNames() []string {
	f := s.Flags
	for i := range s.Keys {
		if k := &s.Keys[i]; k.NumKeys || k.Keyword != "" || k.Unknown {
			f |= MovableKeys
		}
	}
	return f.Names()
}

// Category is a set of ACL categories.
type Category uint32

const (
	CatKeyspace Category = 1 << iota
	CatRead
	CatWrite
	CatSet
	CatSortedSet
	CatList
	CatHash
	CatString
	CatBitmap
	CatHyperLogLog
	CatGeo
	CatStream
	CatPubSub
	CatAdmin
	CatFast
	CatSlow
	CatBlocking
	CatDangerous
	CatConnection
	CatTransaction
	CatScripting
)

var categoryNames = []string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo",
	"stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
}

// Categories returns the ACL categories of a command: the ones it names and
// those that Redis derives from flags.
func (s *Spec) Categories() Category {
	c := s.Category
	if s.Flags&Write != 0 {
		c |= CatWrite
	}
	if s.Flags&ReadOnly != 0 && c&CatScripting == 0 {
		c |= CatRead
	}
	if s.Flags&Admin != 0 {
		c |= CatAdmin | CatDangerous
	}
	if s.Flags&PubSub != 0 {
		c |= CatPubSub
	}
	if s.Flags&Blocking != 0 {
		c |= CatBlocking
	}
	if s.Flags&Fast != 0 {
		c |= CatFast
	} else {
		c |= CatSlow
	}
	return c
}

// CategoryNames returns the names of all categories, in the order of ACL CAT.
// Nobody may write to them.
func CategoryNames() []string { return categoryNames }

// Names returns the categories as ACL CAT names them, with a leading '@'.
func (c Category) Names() []string {
	var out []string
	for i, n := range categoryNames {
		if c&(1<<i) != 0 {
			out = append(out, "@"+n)
		}
	}
	return out
}

// CategoryNamed returns the category with that name, 0 if there is none.
func CategoryNamed(name string) Category {
	for i, n := range categoryNames {
		if strings.EqualFold(n, name) {
			return 1 << i
		}
	}
	return 0
}
