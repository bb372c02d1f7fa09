package changes

import (
	"kevy/feed"
	"kevy/internal/command"
	"kevy/resp"
)

// optionSyntax is the syntax of what take takes.
const optionSyntax = "[COUNT n] [BYTES n] [DURABLE] [META] [DB <n | *>] [PREFIX p ...] [MATCH glob ...] [REGEX prefix re ...] " +
	"[VALUE <EXACT v | PREFIX p | REGEX re> ...] [BYTEMODE]"

// Options are the options and filters that every way to read a stream shares:
// SINCE, SUBSCRIBE and HTTP. They are made with NewOptions and complete after
// Parse.
type Options struct {
	// Count and Bytes bound a reply or a message, rounded up to the end of a
	// commit; 0 is the feed's default.
	Count, Bytes int
	// Durable asks for fsynced frames only.
	Durable bool
	// Meta asks for each frame's facts.
	Meta   bool
	Filter feed.Filter

	dbs      int
	byteMode bool
	// regexes are added once it is known whether BYTEMODE is among the options.
	regexes []func(byteMode bool) error
}

// NewOptions returns the options of a reader that has asked for nothing: of a
// store with dbs databases it sees the frames of database db.
func NewOptions(db, dbs int) *Options {
	return &Options{Filter: feed.Filter{DB: db}, dbs: dbs}
}

// newOptions returns the options of a command that has named none.
func newOptions(c *command.Ctx) *Options {
	return NewOptions(c.Session.DB(), c.Session.(Session).DBs())
}

// Parse reads the options that are left in the walk and returns what is wrong
// with them. own takes those that one way to read has for itself, with what
// follows them, and reports whether the option is one of them; nil if there are
// none.
func (o *Options) Parse(a *command.Args, own func(option []byte) bool) *resp.Error {
	for a.More() {
		if option := a.Bytes(); !o.take(a, option) && (own == nil || !own(option)) {
			a.Fail(command.ErrSyntax)
		}
	}
	o.finish(a)
	return a.Err()
}

// take takes the option that the walk has just yielded, with what follows it,
// and reports whether it is one of these.
func (o *Options) take(a *command.Args, option []byte) bool {
	switch {
	case command.EqualFold(option, "COUNT"):
		o.Count = positive(a, feed.MaxCount)
	case command.EqualFold(option, "BYTES"):
		o.Bytes = positive(a, feed.MaxBytes)
	case command.EqualFold(option, "DURABLE"):
		o.Durable = true
	case command.EqualFold(option, "META"):
		o.Meta = true
	case command.EqualFold(option, "DB"):
		o.takeDB(a)
	case command.EqualFold(option, "BYTEMODE"):
		o.byteMode = true
	case command.EqualFold(option, "PREFIX"):
		addFilter(a, o.Filter.AddPrefix)
	case command.EqualFold(option, "MATCH"):
		addFilter(a, o.Filter.AddMatch)
	case command.EqualFold(option, "REGEX"):
		prefix, pattern := a.Bytes(), a.Bytes()
		o.regexes = append(o.regexes, func(byteMode bool) error { return o.Filter.AddRegex(prefix, pattern, byteMode) })
	case command.EqualFold(option, "VALUE"):
		o.takeValue(a)
	default:
		return false
	}
	return true
}

var errDBStarNeedsMeta = resp.Errorf("ERR", "invalid filter: DB * needs META, which says each frame's database")

// finish completes the filter and looks at what can be told only once all options
// are known.
func (o *Options) finish(a *command.Args) {
	for _, add := range o.regexes {
		if a.Err() != nil {
			break
		}
		if err := add(o.byteMode); err != nil {
			a.Fail(feed.ReplyError(err))
		}
	}
	o.regexes = nil
	if a.Err() == nil && o.Filter.AllDBs && !o.Meta {
		a.Fail(errDBStarNeedsMeta)
	}
}

// Request returns what the options ask the feed for. It shares the filter.
func (o *Options) Request(stream int, at feed.Cursor) feed.Request {
	return feed.Request{Stream: stream, Cursor: at, Filter: &o.Filter, Count: o.Count, Bytes: o.Bytes, Durable: o.Durable}
}

func (o *Options) takeDB(a *command.Args) {
	arg := a.Bytes()
	if string(arg) == "*" {
		o.Filter.AllDBs = true
		return
	}
	n, ok := command.ParseInt(arg)
	if a.Err() == nil && (!ok || n < 0 || n >= int64(o.dbs)) {
		a.Fail(resp.Errorf("ERR", "DB index is out of range"))
		return
	}
	o.Filter.DB, o.Filter.AllDBs = int(n), false
}

// positive reads a number that is clamped to 1…most.
func positive(a *command.Args, most int64) int {
	return int(min(max(a.Int(), 1), most))
}

var errValueKind = resp.Errorf("ERR", "invalid filter: VALUE takes EXACT, PREFIX or REGEX")

func (o *Options) takeValue(a *command.Args) {
	switch kind := a.Bytes(); {
	case command.EqualFold(kind, "EXACT"):
		addFilter(a, o.Filter.AddValueExact)
	case command.EqualFold(kind, "PREFIX"):
		addFilter(a, o.Filter.AddValuePrefix)
	case command.EqualFold(kind, "REGEX"):
		pattern := a.Bytes()
		o.regexes = append(o.regexes, func(byteMode bool) error { return o.Filter.AddValueRegex(pattern, byteMode) })
	default:
		a.Fail(errValueKind)
	}
}

func addFilter(a *command.Args, add func([]byte) error) {
	p := a.Bytes()
	if a.Err() != nil {
		return
	}
	if err := add(p); err != nil {
		a.Fail(feed.ReplyError(err))
	}
}
