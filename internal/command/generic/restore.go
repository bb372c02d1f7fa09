package generic

import (
	"errors"
	"math"

	"kevy/internal/command"
	"kevy/internal/rdb"
	"kevy/resp"
	"kevy/shard"
)

const restoreDifferences = "Takes payloads of RDB versions up to 12, and always checks all of them, as with sanitize-dump-payload yes, " +
	"and what a stream says of its length too."

func restore() *command.Spec {
	return &command.Spec{
		Name: "restore", Arity: -4, Flags: command.Write | command.DenyOOM, Category: command.CatKeyspace | command.CatDangerous,
		Keys:  command.One(1, command.OW|command.Update),
		Group: "generic", Since: "2.6.0", Complexity: "O(N) with a value of N elements or bytes, and O(log N) for each element of a sorted set",
		Syntax:      "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
		Summary:     "Creates a key with the value that DUMP answered.",
		Differences: restoreDifferences,
		Run:         runRestore,
	}
}

// restoreAsking is what a node of a cluster sends to another one.
func restoreAsking() *command.Spec {
	s := restore()
	s.Name, s.Group, s.Since = "restore-asking", "server", "3.0.0"
	s.Flags |= command.Asking
	s.Summary = "RESTORE for a key that moves between the nodes of a cluster."
	return s
}

var (
	errBusyKey  = &resp.Error{Code: "BUSYKEY", Text: "Target key name already exists."}
	errTTL      = &resp.Error{Code: "ERR", Text: "Invalid TTL value, must be >= 0"}
	errIdleTime = &resp.Error{Code: "ERR", Text: "Invalid IDLETIME value, must be >= 0"}
	errFreq     = &resp.Error{Code: "ERR", Text: "Invalid FREQ value, must be >= 0 and <= 255"}
	errPayload  = &resp.Error{Code: "ERR", Text: "DUMP payload version or checksum are wrong"}
	errFormat   = &resp.Error{Code: "ERR", Text: "Bad data format"}
)

// unset is an option that was not given.
const unset = -1

type restoreOptions struct {
	replace, absolute bool
	idleSec, freq     int64
}

func parseRestoreOptions(a *command.Args) restoreOptions {
	o := restoreOptions{idleSec: unset, freq: unset}
	for a.More() {
		switch {
		case a.Is("REPLACE"):
			o.replace = true
		case a.Is("ABSTTL"):
			o.absolute = true
		case a.Len() > 1 && o.freq == unset && a.Is("IDLETIME"):
			if o.idleSec = a.Int(); a.Err() == nil && o.idleSec < 0 {
				a.Fail(errIdleTime)
			}
		case a.Len() > 1 && o.idleSec == unset && a.Is("FREQ"):
			if o.freq = a.Int(); a.Err() == nil && (o.freq < 0 || o.freq > 255) {
				a.Fail(errFreq)
			}
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	return o
}

func runRestore(c *command.Ctx) {
	key := c.Args[1]
	a := c.Scan(4)
	o := parseRestoreOptions(&a)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	// The order of these is Redis's.
	if !o.replace && c.Tx.Exists(key) {
		c.W.Error(errBusyKey)
		return
	}
	ttl, ok := command.ParseInt(c.Args[2])
	switch {
	case !ok:
		c.W.Error(command.ErrNotInt)
		return
	case ttl < 0:
		c.W.Error(errTTL)
		return
	}
	limits := c.Tx.Limits()
	v, err := rdb.ParsePayload(c.Args[3], &limits)
	if err != nil {
		c.W.Error(payloadError(err))
		return
	}
	atMs, expired := ttl, false
	if ttl != 0 {
		if !o.absolute {
			if ttl > math.MaxInt64-c.Tx.NowMs() {
				atMs = 1 // Redis comes out before today too
			} else {
				atMs += c.Tx.NowMs()
			}
		}
		// In a log the end of a key that has expired stands by itself, if it came.
		expired = atMs <= c.Tx.NowMs() && !c.Tx.Replaying()
	}
	replaced := c.Tx.DelOverdue(key) // without a look at its deadline
	if expired {
		if replaced || c.Tx.Del(key) {
			c.Tx.Notify(shard.OfGeneric, "del", key)
		}
	} else {
		c.Tx.Put(key, v, atMs)
		c.Tx.Notify(shard.OfGeneric, "restore", key)
		// Each has an effect under the policies that it belongs to.
		if o.idleSec != unset {
			c.Tx.SetIdle(key, o.idleSec)
		}
		if o.freq != unset {
			c.Tx.SetFrequency(key, uint8(o.freq))
		}
	}
	c.W.OK()
}

// payloadError returns what a client is told of a payload that cannot be
// restored.
func payloadError(err error) *resp.Error {
	var unsupported *rdb.Unsupported
	switch {
	case errors.Is(err, rdb.ErrPayload):
		return errPayload
	case errors.As(err, &unsupported):
		return &resp.Error{Code: errFormat.Code, Text: errFormat.Text + ": " + unsupported.Error()}
	}
	return errFormat
}
