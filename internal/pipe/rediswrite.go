package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kevy/changes"
	"kevy/internal/backoff"
)

// work is what goes into one transaction.
type work struct {
	ops      []workOp
	position string // of the state afterwards
}

// workOp is a command for a database of the target.
type workOp struct {
	db   int
	args [][]byte
}

var errSwapDB = errors.New("SWAPDB has exchanged two databases, of which the copy has a part only: start once with --anew to make it anew")

// Write implements Sink.
func (s *redisSink) Write(ctx context.Context, commits []*changes.Commit) error {
	w := work{position: s.position}
	for _, c := range commits {
		begin := len(w.ops)
		for i := range c.Frames {
			f := &c.Frames[i]
			switch verb := f.Verb(); {
			case verb == "SWAPDB" && !s.wholeStore():
				return errSwapDB
			case (verb == "FLUSHALL" || verb == "FLUSHDB") && !s.own.every():
				var err error
				if begin, err = s.wipeWithin(ctx, &w, begin, f); err != nil {
					return err
				}
			default:
				s.add(&w, f.DB, f.Args)
			}
		}
		w.position = "cursor " + c.Next.String()
	}
	return s.exec(ctx, &w)
}

// wholeStore reports whether the target is the pipe's as a whole.
func (s *redisSink) wholeStore() bool { return s.own.every() && s.filter.AllDBs }

// wipeWithin removes the pipe's keys at a FLUSHALL or FLUSHDB that stands within
// a commit, whose ops begin at begin in w. It takes several steps, which are done
// again if they are cut off. So what earlier commits ask for goes first, with the
// cursor before this commit; and what this commit has done to the keys that are
// wiped is left out. It returns where the commit's ops begin now.
func (s *redisSink) wipeWithin(ctx context.Context, w *work, begin int, flush *changes.Frame) (int, error) {
	earlier, own := work{ops: w.ops[:begin:begin], position: w.position}, slices.Clone(w.ops[begin:])
	if err := s.exec(ctx, &earlier); err != nil {
		return 0, err
	}
	var err error
	if flush.Verb() == "FLUSHDB" {
		db := s.targetDB(flush.DB)
		own = slices.DeleteFunc(own, func(o workOp) bool { return o.db == db })
		err = s.wipe(ctx, db)
	} else {
		own = nil
		err = s.wipe(ctx, -1)
	}
	w.ops = own
	return 0, err
}

func (s *redisSink) targetDB(db int) int {
	if s.mapDB >= 0 {
		return s.mapDB
	}
	return db
}

// add adds an op in the form that the target takes.
func (s *redisSink) add(w *work, sourceDB int, args [][]byte) {
	db := s.targetDB(sourceDB)
	verb := string(args[0])
	if s.lacks[verb] || verb == "FUNCTION" && !s.own.every() {
		s.tellLeftOut(verb)
		return
	}
	switch verb {
	case "FLUSHALL":
		if !s.wholeStore() {
			args = [][]byte{[]byte("FLUSHDB")}
			db = s.targetDB(s.filter.DB)
		}
	case "SWAPDB":
		w.ops = append(w.ops, workOp{s.stateDB, args})
		// The state has moved along, and is written anew where it belongs.
		for i, other := range []int{2, 1} {
			if len(args) == 3 && string(args[i+1]) == strconv.Itoa(s.stateDB) {
				if n, err := strconv.Atoi(string(args[other])); err == nil && n != s.stateDB {
					w.ops = append(w.ops, workOp{n, [][]byte{[]byte("DEL"), []byte(s.key)}})
				}
			}
		}
		return
	case "SET", "PEXPIREAT", "PERSIST", "HPEXPIREAT", "HPERSIST":
		if args = s.deadline(verb, args); args == nil {
			return
		}
	}
	// A source that is itself the target of a pipe of this name.
	if at := keyAt(args); at > 0 && db == s.stateDB && string(args[at]) == s.key {
		return
	}
	w.ops = append(w.ops, workOp{db, args})
}

func (s *redisSink) tellLeftOut(verb string) {
	if s.told[verb] {
		return
	}
	s.told[verb] = true
	switch verb {
	case "HPEXPIREAT", "HPERSIST":
		s.log.Warn("the target does not know deadlines of hash fields; its copies have none, and the fields go when the source removes them", "command", verb)
	case "FUNCTION":
		s.log.Warn("functions are not copied, by a pipe that carries a part of the keys or to a target that has none", "command", verb)
	}
}

// deadline returns an op that sets or removes a deadline as the policy wants
// it, nil for none at all.
func (s *redisSink) deadline(verb string, args [][]byte) [][]byte {
	at := 2 // where the deadline stands
	switch verb {
	case "SET":
		if at = 4; len(args) != 5 || string(args[3]) != "PXAT" {
			return args
		}
	case "PERSIST", "HPERSIST":
		if s.ttl == ttlNone {
			return nil
		}
		return args
	}
	ms, err := strconv.ParseInt(string(args[at]), 10, 64)
	if err != nil {
		return args // the target says what is wrong with it
	}
	switch {
	case s.ttl == ttlLateBy:
		ms += s.ttlLate.Milliseconds()
	case s.ttl == ttlExact && ms > time.Now().Add(s.skew).UnixMilli():
		return args
	}
	if s.ttl == ttlLateBy && ms > time.Now().Add(s.skew).UnixMilli() {
		late := slices.Clone(args)
		late[at] = strconv.AppendInt(nil, ms, 10)
		return late
	}
	switch verb {
	case "SET":
		return args[:3]
	case "PEXPIREAT":
		return [][]byte{[]byte("PERSIST"), args[1]}
	}
	return append([][]byte{[]byte("HPERSIST"), args[1]}, args[3:]...)
}

const (
	// chunkOps and chunkBytes are how much of a transaction is sent before its
	// replies are read, so that neither end waits for the other.
	chunkOps   = 512
	chunkBytes = 1 << 20
)

// exec does the work, once.
func (s *redisSink) exec(ctx context.Context, w *work) error {
	if len(w.ops) == 0 && w.position == s.position && s.known {
		return nil
	}
	var b backoff.Backoff
	for {
		err := errNotConnected
		if s.conn != nil {
			err = s.tryExec(w)
		}
		if err == nil {
			s.position, s.known, s.forgive = w.position, true, false
			return nil
		}
		var diverged *divergedError
		if errors.As(err, &diverged) {
			return s.diverge(ctx, diverged)
		}
		state, err := s.again(ctx, &b, err, "a batch did not get through")
		if err != nil {
			return err
		}
		switch now := state["position"]; {
		case state["diverged"] != "" && !s.forgive:
			return fmt.Errorf("the copy is no longer equal to its source, since %s: make it anew with --anew", state["diverged"])
		case now == w.position && len(state) > 0:
			s.position, s.known, s.forgive = w.position, true, false
			return nil
		case len(state) > 0 != s.known || now != s.position:
			return s.stolen(now)
		}
	}
}

var errNotConnected = errors.New("not connected")

// again connects for another attempt, after a pause if the one before has failed,
// with err, and returns the state. An error of the target that stays is final.
func (s *redisSink) again(ctx context.Context, b *backoff.Backoff, err error, what string) (map[string]string, error) {
	s.drop()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case permanent(err):
		return nil, fmt.Errorf("the target %s refuses: %w", s.dial.Addr, err)
	}
	if err != errNotConnected {
		s.log.Warn(what+"; trying again", "target", s.dial.Addr, "error", err)
		if err := b.Wait(ctx, 0); err != nil {
			return nil, err
		}
	}
	return s.connect(ctx)
}

func (s *redisSink) stolen(now string) error {
	if now == "" {
		return fmt.Errorf("the key %s is gone from the target, and the copy, it may be, with it: start once with --anew to make it anew", s.key)
	}
	return fmt.Errorf("another pipe of the same name writes to this target (%s is at %q, this one at %q): end one of them, or give them names with --name", s.key, now, s.position)
}

// divergedError says that a command was refused within a transaction that was
// done nonetheless.
type divergedError struct{ text string }

func (e *divergedError) Error() string { return e.text }

// diverge notes in the target that its copy is wrong, so that nothing goes on
// from it unseen.
func (s *redisSink) diverge(ctx context.Context, e *divergedError) error {
	err := fmt.Errorf("the copy is no longer equal to its source, since %s. What is wrong is in the target: another writer, or a value of another type under that key. Make it anew with --anew", e.text)
	if _, noteErr := s.conn.Call("HSET", s.key, "diverged", e.text); noteErr != nil && ctx.Err() == nil {
		return errors.Join(err, fmt.Errorf("and this could not be noted there: %w", noteErr))
	}
	return err
}

// tryExec sends the transaction and looks at every reply.
func (s *redisSink) tryExec(w *work) error {
	waiting, sent := 0, 0
	settle := func() error {
		if err := s.conn.Flush(); err != nil {
			return err
		}
		for ; waiting > 0; waiting-- {
			if _, err := s.receive(); err != nil {
				return err
			}
		}
		sent = 0
		return nil
	}
	// what says of each reply of EXEC which op it answers, nil for our own.
	what := make([][][]byte, 0, len(w.ops)+4)
	queue := func(op [][]byte, args ...[]byte) error {
		s.conn.AppendBytes(args...)
		what = append(what, op)
		waiting++
		if sent += argsBytes(args); waiting < chunkOps && sent < chunkBytes {
			return nil
		}
		return settle()
	}
	selectDB := func(db int) error {
		if s.db == db {
			return nil
		}
		s.db = db
		return queue(nil, []byte("SELECT"), strconv.AppendInt(nil, int64(db), 10))
	}
	s.conn.Append("MULTI")
	waiting++
	for _, o := range w.ops {
		if err := selectDB(o.db); err != nil {
			return err
		}
		if err := queue(o.args, o.args...); err != nil {
			return err
		}
	}
	if err := selectDB(s.stateDB); err != nil {
		return err
	}
	if err := queue(nil, []byte("HSET"), []byte(s.key), []byte("position"), []byte(w.position), []byte("selection"), []byte(s.selection)); err != nil {
		return err
	}
	if s.forgive {
		if err := queue(nil, []byte("HDEL"), []byte(s.key), []byte("diverged")); err != nil {
			return err
		}
	}
	s.conn.Append("EXEC")
	s.conn.Append("WATCH", s.key)
	s.conn.Append("HGETALL", s.key)
	if err := settle(); err != nil {
		return err
	}
	r, err := s.receive()
	if err != nil {
		return err
	}
	if r.Null {
		return errWatched
	}
	if len(r.Elems) != len(what) {
		return fmt.Errorf("EXEC answered %d replies to %d commands", len(r.Elems), len(what))
	}
	for i, answer := range r.Elems {
		if err := answer.Err(); err != nil {
			if what[i] == nil {
				return err
			}
			return s.divergedBy(what[i], err)
		}
	}
	if _, err := s.receive(); err != nil {
		return err
	}
	state, err := s.receiveState()
	if err != nil {
		return err
	}
	if state["position"] != w.position {
		return errWatched
	}
	return nil
}

// errWatched says that somebody else has changed the state.
var errWatched = errors.New("the pipe's state in the target was changed by somebody else")

func (s *redisSink) divergedBy(op [][]byte, err error) error {
	command := string(op[0])
	if at := keyAt(op); at > 0 {
		command += " " + strconv.Quote(string(op[at]))
	}
	// The replies behind EXEC are still to be read.
	for range 2 {
		if _, err := s.conn.Receive(); err != nil {
			s.drop()
			break
		}
	}
	return &divergedError{fmt.Sprintf("the target answered to %s with: %v", command, err)}
}

// SnapshotStart implements SnapshotSink.
func (s *redisSink) SnapshotStart(ctx context.Context, _, token string) error {
	if !s.known && !s.replace {
		if key, db, err := s.findOwn(ctx); err != nil {
			return err
		} else if key != nil {
			return fmt.Errorf("the target has keys already where the copy is to be, such as %q in database %d, and a copy begins by removing them: empty it, or start with the target's option replace=yes", key, db)
		}
	}
	s.token = token
	w := work{position: "snapshot " + token + " 0"}
	// With the transaction what the target has is void; until the last step is
	// done it stays so.
	if s.wholeStore() {
		w.ops = append(w.ops, workOp{s.stateDB, [][]byte{[]byte("FLUSHALL")}})
		return s.exec(ctx, &w)
	}
	if err := s.exec(ctx, &w); err != nil {
		return err
	}
	if s.own.every() {
		w = work{position: "snapshot " + token + " wiped", ops: []workOp{{s.targetDB(s.filter.DB), [][]byte{[]byte("FLUSHDB")}}}}
		return s.exec(ctx, &w)
	}
	return s.wipe(ctx, -1)
}

// SnapshotPart implements SnapshotSink.
func (s *redisSink) SnapshotPart(ctx context.Context, p *changes.SnapshotPart) error {
	w := work{position: fmt.Sprintf("snapshot %s %d", s.token, p.N)}
	for _, op := range p.Ops {
		s.add(&w, p.DB, op)
	}
	return s.exec(ctx, &w)
}

// SnapshotEnd implements SnapshotSink.
func (s *redisSink) SnapshotEnd(ctx context.Context, _ string, at changes.Cursor) error {
	return s.exec(ctx, &work{position: "cursor " + at.String()})
}

// scanCount is how many keys one step of a scan looks at.
const scanCount = "1000"

// errFound ends a scan early.
var errFound = errors.New("found")

// findOwn looks for a key of the target that is the pipe's.
func (s *redisSink) findOwn(ctx context.Context) (key []byte, db int, err error) {
	err = s.scan(ctx, -1, func(in int, keys [][]byte) error {
		key, db = keys[0], in
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return key, db, err
}

// wipe removes the pipe's keys from a database of the target, or from all that
// it writes to (-1). It may be done again.
func (s *redisSink) wipe(ctx context.Context, db int) error {
	return s.scan(ctx, db, func(_ int, keys [][]byte) error {
		_, err := s.conn.Call(append([]string{"UNLINK"}, texts(keys)...)...)
		return err
	})
}

func texts(keys [][]byte) []string {
	words := make([]string, len(keys))
	for i, k := range keys {
		words[i] = string(k)
	}
	return words
}

// scan calls visit with the pipe's keys in a database, or in all (-1), as many
// at once as a step finds. A lost connection begins it anew.
func (s *redisSink) scan(ctx context.Context, db int, visit func(db int, keys [][]byte) error) error {
	var b backoff.Backoff
	for {
		err := errNotConnected
		if s.conn != nil {
			err = s.scanOnce(db, visit)
		}
		if err == nil || errors.Is(err, errFound) {
			return err
		}
		state, err := s.again(ctx, &b, err, "the target's keys could not be gone through")
		if err != nil {
			return err
		}
		if state["position"] != s.position {
			return s.stolen(state["position"])
		}
	}
}

func (s *redisSink) scanOnce(db int, visit func(db int, keys [][]byte) error) error {
	dbs := []int{db}
	if db < 0 {
		var err error
		if dbs, err = s.databases(); err != nil {
			return err
		}
	}
	for _, db := range dbs {
		if err := s.selectNow(db); err != nil {
			return err
		}
		for cursor := "0"; ; {
			r, err := s.conn.Call("SCAN", cursor, "COUNT", scanCount)
			if err != nil {
				return err
			}
			if len(r.Elems) != 2 {
				return fmt.Errorf("SCAN answered %.100s", r.String())
			}
			var keys [][]byte
			for _, e := range r.Elems[1].Elems {
				if s.own.owns(e.Str) && !(db == s.stateDB && bytes.Equal(e.Str, []byte(s.key))) {
					keys = append(keys, e.Str)
				}
			}
			if len(keys) > 0 {
				if err := visit(db, keys); err != nil {
					return err
				}
			}
			if cursor = string(r.Elems[0].Str); cursor == "0" {
				break
			}
		}
	}
	return s.selectNow(s.stateDB)
}

func (s *redisSink) selectNow(db int) error {
	if s.db == db {
		return nil
	}
	_, err := s.conn.Call("SELECT", strconv.Itoa(db))
	if err == nil {
		s.db = db
	}
	return err
}

// databases lists those of the target that have keys and that the pipe writes
// to.
func (s *redisSink) databases() ([]int, error) {
	if !s.filter.AllDBs {
		return []int{s.targetDB(s.filter.DB)}, nil
	}
	r, err := s.conn.Call("INFO", "keyspace")
	if err != nil {
		return nil, err
	}
	var dbs []int
	for line := range strings.Lines(string(r.Str)) {
		name, _, _ := strings.Cut(line, ":")
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "db")); err == nil {
			dbs = append(dbs, n)
		}
	}
	return dbs, nil
}
