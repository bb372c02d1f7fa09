package stream

import (
	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func xSetID() *command.Spec {
	return &command.Spec{
		Name: "xsetid", Arity: -3, Flags: command.Write | command.DenyOOM | command.Fast, Category: command.CatStream,
		Keys:  command.One(1, command.RW|command.Update),
		Group: "stream", Since: "5.0.0", Complexity: "O(1)",
		Syntax:  "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
		Summary: "Sets the last id of a stream, how many entries were added to it and the greatest id of a deleted one.",
		Run:     runXSetID,
	}
}

var (
	errAddedNegative = &resp.Error{Code: "ERR", Text: "entries_added must be positive"}
	errBelowDeleted  = &resp.Error{Code: "ERR", Text: "The ID specified in XSETID is smaller than the provided max_deleted_entry_id"}
	errBelowTop      = &resp.Error{Code: "ERR", Text: "The ID specified in XSETID is smaller than the target stream top item"}
	errAddedTooFew   = &resp.Error{Code: "ERR", Text: "The entries_added specified in XSETID is smaller than the target stream length"}
)

func runXSetID(c *command.Ctx) {
	a := c.Scan(2)
	last := scanID(&a)
	var maxDeleted shard.StreamID
	added := int64(-1)
	for a.More() {
		switch {
		case a.Len() < 2:
			a.Fail(command.ErrSyntax)
		case a.Is("ENTRIESADDED"):
			if added = a.Int(); added < 0 {
				a.Fail(errAddedNegative)
			}
		case a.Is("MAXDELETEDID"):
			if maxDeleted = scanID(&a); last.Less(maxDeleted) {
				a.Fail(errBelowDeleted)
			}
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	s, ok := view(c)
	if !ok {
		return
	}
	switch {
	case !s.Exists():
		c.W.Error(command.ErrNoSuchKey)
		return
	case s.Len() > 0 && last.Less(s.TopID()):
		c.W.Error(errBelowTop)
		return
	case s.Len() > 0 && added != -1 && int64(s.Len()) > added:
		c.W.Error(errAddedTooFew)
		return
	}
	if added == -1 {
		added = int64(s.Added())
	}
	if maxDeleted.IsZero() {
		maxDeleted = s.MaxDeletedID()
	}
	if _, err := c.Tx.XSetID(c.Key(1), last, uint64(added), maxDeleted); err != nil {
		c.W.Err(err)
		return
	}
	c.Tx.Notify(shard.OfStreams, "xsetid", c.Key(1))
	c.W.OK()
}
