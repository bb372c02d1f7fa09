package shard

import (
	"bytes"
	"fmt"
	"strconv"

	"kevy/internal/ds"
	"kevy/internal/op"
)

// Apply applies an op that was recorded before: in recovery, from the log and
// from its base. The Tx was begun with BeginReplay and holds the key's shard. An error
// means that the op does not fit the state, which a whole log never shows.
func (tx *Tx) Apply(f *op.Frame) error {
	if f.DB < 0 || f.DB >= tx.set.dbs {
		return fmt.Errorf("op in database %d, but there are %d", f.DB, tx.set.dbs)
	}
	for _, a := range f.Args {
		if len(a) > maxStringBytes {
			return fmt.Errorf("op %s has an argument of %d bytes", f.Verb, len(a))
		}
	}
	tx.db = f.DB
	if err := tx.apply(f.Verb, f.Args); err != nil {
		return fmt.Errorf("op %s of key %q: %w", f.Verb, f.Key(), err)
	}
	return nil
}

func (tx *Tx) apply(v op.Verb, args [][]byte) (err error) {
	switch v {
	case op.Set:
		deadline, err := setDeadlineArgs(args[3:])
		if err != nil {
			return err
		}
		tx.Set(args[1], args[2], deadline)
	case op.SetRange:
		n, err := strconv.Atoi(string(args[2]))
		if err != nil || n < 0 || n > maxStringBytes-len(args[3]) {
			return fmt.Errorf("offset %q", args[2])
		}
		return tx.SetRange(args[1], n, args[3])
	case op.Del:
		for _, key := range args[1:] {
			tx.Del(key)
		}
	case op.PExpireAt:
		at, err := strconv.ParseInt(string(args[2]), 10, 64)
		if err != nil {
			return fmt.Errorf("deadline %q", args[2])
		}
		tx.ExpireAt(args[1], at)
	case op.Persist:
		tx.Persist(args[1])
	case op.HSet:
		if len(args)%2 != 0 {
			return fmt.Errorf("%d arguments", len(args))
		}
		_, err = tx.HSet(args[1], args[2:]...)
	case op.HDel:
		_, err = tx.HDel(args[1], args[2:]...)
	case op.HPExpireAt:
		at, err := strconv.ParseInt(string(args[2]), 10, 64)
		if err != nil || at <= 0 {
			return fmt.Errorf("deadline %q", args[2])
		}
		fields, err := countedFields(args[3:])
		if err != nil {
			return err
		}
		return tx.HExpireAt(args[1], at, fields, nil, nil)
	case op.HPersist:
		fields, err := countedFields(args[2:])
		if err != nil {
			return err
		}
		return tx.HPersist(args[1], fields, nil)
	case op.LPush, op.RPush:
		_, err = tx.push(v, args[1], args[2:])
	case op.LPop, op.RPop:
		n := 1
		if len(args) > 2 {
			if n, err = strconv.Atoi(string(args[2])); err != nil {
				return fmt.Errorf("count %q", args[2])
			}
		}
		_, err = tx.pop(v, args[1], n, nil)
	case op.LSet:
		i, err := strconv.Atoi(string(args[2]))
		if err != nil {
			return fmt.Errorf("index %q", args[2])
		}
		_, err = tx.LSet(args[1], i, args[3])
		return err
	case op.LInsert:
		_, err = tx.LInsert(args[1], bytes.EqualFold(args[2], []byte("AFTER")), args[3], args[4])
	case op.LRem:
		n, err := strconv.Atoi(string(args[2]))
		if err != nil {
			return fmt.Errorf("count %q", args[2])
		}
		_, err = tx.LRem(args[1], n, args[3])
		return err
	case op.LTrim:
		start, err1 := strconv.Atoi(string(args[2]))
		stop, err2 := strconv.Atoi(string(args[3]))
		if err1 != nil || err2 != nil {
			return fmt.Errorf("range %q %q", args[2], args[3])
		}
		return tx.LTrim(args[1], start, stop)
	case op.SAdd:
		_, err = tx.SAdd(args[1], args[2:]...)
	case op.SRem:
		_, err = tx.SRem(args[1], args[2:]...)
	case op.ZAdd:
		if len(args)%2 != 0 {
			return fmt.Errorf("%d arguments", len(args))
		}
		members := make([]Scored, 0, (len(args)-2)/2)
		for i := 2; i < len(args); i += 2 {
			score, err := strconv.ParseFloat(string(args[i]), 64)
			if err != nil || score != score {
				return fmt.Errorf("score %q", args[i])
			}
			members = append(members, Scored{Member: args[i+1], Score: score})
		}
		_, err = tx.ZAdd(args[1], members...)
	case op.ZRem:
		_, err = tx.ZRem(args[1], args[2:]...)
	case op.XAdd, op.XDel, op.XTrim, op.XSetID, op.XGroup, op.XClaim, op.XAck:
		return tx.applyStream(v, args)
	case op.Function:
		return tx.applyFunction(args)
	case op.FlushDB:
		tx.FlushDB(tx.db)
	case op.FlushAll:
		tx.FlushAll()
	case op.SwapDB:
		a, err1 := strconv.Atoi(string(args[1]))
		b, err2 := strconv.Atoi(string(args[2]))
		if err1 != nil || err2 != nil || min(a, b) < 0 || max(a, b) >= tx.set.dbs {
			return fmt.Errorf("databases %q %q", args[1], args[2])
		}
		tx.SwapDB(a, b)
	default:
		return fmt.Errorf("verb %d has no interpreter", v)
	}
	return err
}

// countedFields reads FIELDS, a number and so many fields.
func countedFields(args [][]byte) ([][]byte, error) {
	n, err := strconv.Atoi(string(args[1]))
	if err != nil || n != len(args)-2 || string(args[0]) != "FIELDS" {
		return nil, fmt.Errorf("fields %q %q of %d", args[0], args[1], len(args)-2)
	}
	return args[2:], nil
}

// maxStringBytes is the longest string value that is applied.
const maxStringBytes = ds.MaxValueBytes

func setDeadlineArgs(rest [][]byte) (int64, error) {
	switch {
	case len(rest) == 0:
		return 0, nil
	case len(rest) == 1 && string(rest[0]) == "KEEPTTL":
		return KeepTTL, nil
	case len(rest) == 2 && string(rest[0]) == "PXAT":
		if at, err := strconv.ParseInt(string(rest[1]), 10, 64); err == nil && at > 0 {
			return at, nil
		}
	}
	return 0, fmt.Errorf("SET options %q", rest)
}
