package shard

import (
	"errors"
	"fmt"
	"strconv"

	"kevy/internal/ds"
	"kevy/internal/op"
)

var errNoGroup = errors.New("no such group")

// applyStream is apply for the ops of streams.
func (tx *Tx) applyStream(v op.Verb, args [][]byte) (err error) {
	switch v {
	case op.XAdd:
		if len(args)%2 == 0 {
			return fmt.Errorf("%d arguments", len(args))
		}
		id, err := parseID(args[2])
		if err != nil {
			return err
		}
		s, err := tx.Stream(args[1])
		if err == nil && !s.LastID().Less(id) {
			err = fmt.Errorf("id %s is not above %s", id, s.LastID())
		}
		if err != nil {
			return err
		}
		return tx.XAdd(args[1], id, args[3:]...)
	case op.XDel:
		ids, err := parseIDs(args[2:])
		if err == nil {
			_, err = tx.XDel(args[1], ids)
		}
		return err
	case op.XTrim:
		t, err := trimArgs(args[2:])
		if err == nil {
			_, err = tx.XTrim(args[1], t)
		}
		return err
	case op.XSetID:
		return tx.applySetID(args[1], args[2:])
	case op.XGroup:
		return tx.applyGroup(string(args[1]), args[2], args[3], args[4:])
	case op.XClaim:
		return tx.applyClaim(args[1], args[2], args[3:])
	case op.XAck:
		ids, err := parseIDs(args[3:])
		if err == nil {
			_, err = tx.XAck(args[1], args[2], ids)
		}
		return err
	}
	return nil
}

func parseID(b []byte) (StreamID, error) {
	id, _, ok := ds.ParseStreamID(b, 0)
	if !ok {
		return id, fmt.Errorf("id %q", b)
	}
	return id, nil
}

func parseIDs(args [][]byte) ([]StreamID, error) {
	ids := make([]StreamID, len(args))
	for i, a := range args {
		id, err := parseID(a)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}

// trimArgs reads MAXLEN = n or MINID = id.
func trimArgs(args [][]byte) (t StreamTrim, err error) {
	if len(args) == 3 && string(args[1]) == "=" {
		switch string(args[0]) {
		case "MAXLEN":
			t.MaxLen, err = strconv.ParseUint(string(args[2]), 10, 63)
			return t, err
		case "MINID":
			t.ByID = true
			t.MinID, err = parseID(args[2])
			return t, err
		}
	}
	return t, fmt.Errorf("trim %q", args)
}

// applySetID applies XSETID with the arguments behind the key.
func (tx *Tx) applySetID(key []byte, args [][]byte) error {
	last, err := parseID(args[0])
	if err != nil {
		return err
	}
	s, err := tx.Stream(key)
	if err != nil {
		return err
	}
	added, maxDeleted := s.Added(), s.MaxDeletedID()
	for args = args[1:]; len(args) >= 2 && err == nil; args = args[2:] {
		switch string(args[0]) {
		case "ENTRIESADDED":
			var n int64
			n, err = strconv.ParseInt(string(args[1]), 10, 64)
			added = uint64(n)
		case "MAXDELETEDID":
			maxDeleted, err = parseID(args[1])
		default:
			err = fmt.Errorf("option %q", args[0])
		}
	}
	if err != nil {
		return err
	}
	ok, err := tx.XSetID(key, last, added, maxDeleted)
	if err == nil && !ok {
		err = errors.New("no such key")
	}
	return err
}

// applyGroup applies XGROUP with the arguments behind the group.
func (tx *Tx) applyGroup(subcommand string, key, group []byte, args [][]byte) (err error) {
	ok := false
	switch {
	case (subcommand == "CREATE" || subcommand == "SETID") && len(args) > 0:
		last, err := parseID(args[0])
		if err != nil {
			return err
		}
		read, mkStream, err := groupOptions(args[1:])
		if err != nil {
			return err
		}
		if subcommand == "CREATE" {
			ok, err = tx.XGroupCreate(key, group, last, read, mkStream)
		} else {
			ok, err = tx.XGroupSetID(key, group, last, read)
		}
		if err != nil {
			return err
		}
	case subcommand == "DESTROY":
		ok, err = tx.XGroupDestroy(key, group)
	case subcommand == "CREATECONSUMER" && len(args) == 1:
		ok, err = tx.XGroupCreateConsumer(key, group, args[0])
	case subcommand == "DELCONSUMER" && len(args) == 1:
		_, ok, err = tx.XGroupDelConsumer(key, group, args[0])
	}
	if err == nil && !ok {
		err = fmt.Errorf("%s %q of group %q", subcommand, args, group)
	}
	return err
}

// groupOptions reads [MKSTREAM] [ENTRIESREAD n].
func groupOptions(args [][]byte) (read int64, mkStream bool, err error) {
	read = UnknownRead
	for len(args) > 0 && err == nil {
		switch {
		case string(args[0]) == "MKSTREAM":
			mkStream = true
			args = args[1:]
		case string(args[0]) == "ENTRIESREAD" && len(args) > 1:
			read, err = strconv.ParseInt(string(args[1]), 10, 64)
			args = args[2:]
		default:
			err = fmt.Errorf("option %q", args[0])
		}
	}
	return read, mkStream, err
}

// claimTail is how many arguments stand behind the ids of an XCLAIM.
const claimTail = 6

// applyClaim applies XCLAIM with the arguments behind the group, as appendClaim
// appends them.
func (tx *Tx) applyClaim(key, group []byte, args [][]byte) error {
	n := len(args) - claimTail
	if n < 3 || string(args[n]) != "TIME" || string(args[n+2]) != "RETRYCOUNT" {
		return fmt.Errorf("claim %q", args)
	}
	ids, err := parseIDs(args[2:n])
	if err != nil {
		return err
	}
	c := Claim{Consumer: args[0]}
	count, err := strconv.ParseInt(string(args[n+3]), 10, 64)
	if err != nil {
		return err
	}
	c.Count = uint64(count)
	if c.DeliveredMs, err = strconv.ParseInt(string(args[n+1]), 10, 64); err != nil {
		return err
	}
	ok, err := tx.XClaim(key, group, c, ids...)
	if err == nil && !ok {
		err = errNoGroup
	}
	return err
}
