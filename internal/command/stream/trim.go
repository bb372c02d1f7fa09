package stream

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

var (
	errTwoTrims     = &resp.Error{Code: "ERR", Text: "syntax error, MAXLEN and MINID options at the same time are not compatible"}
	errMaxLen       = &resp.Error{Code: "ERR", Text: "The MAXLEN argument must be >= 0."}
	errLimit        = &resp.Error{Code: "ERR", Text: "The LIMIT argument must be >= 0."}
	errLimitAlone   = &resp.Error{Code: "ERR", Text: "syntax error, LIMIT cannot be used without specifying a trimming strategy"}
	errLimitExact   = &resp.Error{Code: "ERR", Text: "syntax error, LIMIT cannot be used without the special ~ option"}
	errTrimStrategy = &resp.Error{Code: "ERR", Text: "syntax error, XTRIM must be called with a trimming strategy"}
)

// trimOptions are the options of XADD and XTRIM that say what is trimmed.
type trimOptions struct {
	trim     shard.StreamTrim
	set      bool // MAXLEN or MINID was given
	hasLimit bool
	policy   policy
}

// parse consumes an option that says what is trimmed, if the next argument is
// one with arguments behind it.
func (o *trimOptions) parse(a *command.Args) bool {
	switch {
	case o.policy.parse(a):
	case a.Len() < 2:
		return false
	case a.Is("MAXLEN"):
		if o.begin(a) {
			n := a.Int()
			if n < 0 {
				a.Fail(errMaxLen)
			}
			o.trim.MaxLen = uint64(n)
		}
	case a.Is("MINID"):
		if o.begin(a) {
			o.trim.ByID = true
			o.trim.MinID = scanID(a)
		}
	case a.Is("LIMIT"):
		o.hasLimit = true
		if o.trim.Limit = a.Int(); o.trim.Limit < 0 {
			a.Fail(errLimit)
		}
	default:
		return false
	}
	return true
}

// begin reads whether a strategy is exact.
func (o *trimOptions) begin(a *command.Args) bool {
	if o.set {
		a.Fail(errTwoTrims)
		return false
	}
	o.set = true
	if a.Len() >= 2 {
		switch string(command.CText(a.Peek())) {
		case "~":
			o.trim.Approximate = true
			a.Bytes()
		case "=":
			a.Bytes()
		}
	}
	return true
}

// Without a LIMIT, an approximate trim removes no more than what Redis has in a
// hundred nodes.
const (
	nodesTrimmed   = 100
	defaultLimit   = 10_000
	maxDefaultTrim = 1_000_000
)

// finish checks what the options say together.
func (o *trimOptions) finish(a *command.Args, tx *shard.Tx) {
	switch {
	case tx.Replaying():
		// Another server wrote it into its log: what it trimmed, exactly, and the
		// LIMIT that it was asked to keep while it found that out.
		o.trim.Limit = 0
	case o.trim.Limit != 0 && !o.set:
		a.Fail(errLimitAlone)
	case o.hasLimit && !o.trim.Approximate:
		a.Fail(errLimitExact)
	case o.trim.Approximate && !o.hasLimit:
		o.trim.Limit = min(nodesTrimmed*min(int64(tx.Limits().StreamNodeMaxEntries), maxDefaultTrim), maxDefaultTrim)
		if o.trim.Limit <= 0 {
			o.trim.Limit = defaultLimit
		}
	}
}

func xTrim() *command.Spec {
	return &command.Spec{
		Name: "xtrim", Arity: -4, Flags: command.Write, Category: command.CatStream,
		Keys:  command.One(1, command.RW|command.Delete),
		Tips:  []string{"nondeterministic_output"},
		Group: "stream", Since: "5.0.0", Complexity: "O(N) for N entries removed; blocks of entries go at once",
		Syntax:      "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
		Summary:     "Removes the first entries, by how many are to stay or by id; answers how many went.",
		Differences: differsAcked,
		Run:         runXTrim,
	}
}

// differsAcked is said of all commands that trim.
const differsAcked = "What ACKED removes from behind an entry that stays counts as deleted (max-deleted-entry-id), not as trimmed; with ~ it is exact."

func runXTrim(c *command.Ctx) {
	a := c.Scan(2)
	var o trimOptions
	for a.More() {
		if !o.parse(&a) {
			a.Fail(command.ErrSyntax)
		}
	}
	if a.Err() == nil && !o.set && o.trim.Limit == 0 {
		a.Fail(errTrimStrategy)
	}
	o.finish(&a, c.Tx)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	if s, ok := view(c); ok {
		n := o.run(c, s)
		if n > 0 {
			c.Tx.Notify(shard.OfStreams, "xtrim", c.Key(1))
		}
		c.W.Int(n)
	}
}
