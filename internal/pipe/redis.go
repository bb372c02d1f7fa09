package pipe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"kevy/changes"
	"kevy/internal/backoff"
	"kevy/internal/client"
	"kevy/resp"
)

// redisSink makes a live copy in another server that speaks RESP. Ops are
// commands, so they are sent as they are; a batch goes between MULTI and EXEC
// together with its cursor, which makes it exactly-once: after a lost connection
// the cursor in the target tells whether the EXEC was done.
//
// The cursor is in a hash, stateKey+name in database stateDB:
//
//	position   "cursor generation:offset", or "snapshot token n" while one loads
//	selection  the filters and rules that the copy is of
//	diverged   the error of a command that the target refused to run, if any
//
// The hash is watched from one batch to the next, so that a second pipe of the
// same name is found out before it does harm.
type redisSink struct {
	dial      client.Options
	key       string
	selection string
	own       *ownKeys
	filter    changes.Filter
	mapDB     int // the target's database for all, -1: the source's number
	stateDB   int
	ttl       ttlPolicy
	ttlLate   time.Duration // of ttlLateBy
	replace   bool
	accept    bool
	snapshot  bool
	anew      bool
	log       *slog.Logger

	conn     *client.Conn    // nil: not connected
	db       int             // that conn has selected
	position string          // of the state, as far as is known
	known    bool            // the target has a state
	forgive  bool            // the next transaction takes the note of a refused command away
	token    string          // of the snapshot that is loading
	skew     time.Duration   // of the target's clock, ahead of ours
	lacks    map[string]bool // verbs that the target does not know
	told     map[string]bool // verbs whose absence was said in the log
}

// ttlPolicy is what becomes of deadlines. A copy that removes keys by its own
// clock can lose one whose deadline is moved by a frame that is still on its
// way; what it lost it does not get back with that frame.
type ttlPolicy uint8

const (
	// ttlExact copies deadlines as they are, but for those that are over, of
	// which the source's DEL, or the frame that has moved them, is on its way.
	ttlExact ttlPolicy = iota
	// ttlLateBy copies them later by a time, which the pipe may lie behind.
	ttlLateBy
	// ttlNone copies none: keys go by the source's DEL alone.
	ttlNone
)

const stateKey = "kevy:pipe:"

// PasswordVariable is the environment variable with the target's password, where
// the URL, which lists of processes show, has none.
const PasswordVariable = "KEVY_TARGET_PASSWORD"

func openRedis(t *Target) (Sink, error) {
	if len(t.Streams) != 1 || t.Streams[0] != changes.All {
		return nil, errors.New("a copy in another server needs the stream ALL, since FLUSHALL has its place in the order of the whole store")
	}
	s := &redisSink{
		key: stateKey + t.Name, selection: selectionOf(&t.Filter, t.Rewrite), filter: t.Filter, mapDB: -1,
		snapshot: t.Snapshot || t.Anew, anew: t.Anew, log: t.Log, told: map[string]bool{},
	}
	var err error
	if s.own, err = newOwnKeys(&t.Filter, t.Rewrite); err != nil {
		return nil, err
	}
	if t.Format != "" && t.Format != FormatRESP {
		return nil, fmt.Errorf("another server takes commands, not %s", t.Format)
	}
	s.dial.Addr = t.URL.Host
	if t.URL.Hostname() == "" {
		return nil, fmt.Errorf("%s names no host: write %s://host:port", t.URL.Redacted(), t.URL.Scheme)
	}
	if t.URL.Port() == "" {
		s.dial.Addr = net.JoinHostPort(t.URL.Hostname(), "6379")
	}
	s.dial.Username = t.URL.User.Username()
	s.dial.Password, _ = t.URL.User.Password()
	if s.dial.Password == "" {
		s.dial.Password = os.Getenv(PasswordVariable)
	}
	if t.URL.Scheme == "rediss" {
		if s.dial.TLS, err = t.tlsConfig(); err != nil {
			return nil, err
		}
	}
	if path := strings.Trim(t.URL.Path, "/"); path != "" {
		if s.mapDB, err = strconv.Atoi(path); err != nil || s.mapDB < 0 {
			return nil, fmt.Errorf("the path of %s is no database number", t.URL.Redacted())
		}
		if t.Filter.AllDBs {
			return nil, errors.New("the URL names one database of the target, so say which one of the source goes there: --db N")
		}
		s.stateDB = s.mapDB
	}
	if err := s.parseTTL(t.Option("ttl", "exact")); err != nil {
		return nil, err
	}
	for name, flag := range map[string]*bool{"replace": &s.replace, "accept-diverged": &s.accept} {
		if *flag, err = parseYes(name, t.Option(name, "no")); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func parseYes(name, value string) (bool, error) {
	switch value {
	case "yes", "true", "1", "":
		return true, nil
	case "no", "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("the option %s takes yes or no, not %q", name, value)
}

func (s *redisSink) parseTTL(text string) error {
	switch text {
	case "exact":
		s.ttl = ttlExact
	case "none":
		s.ttl = ttlNone
	default:
		late, err := time.ParseDuration(strings.TrimPrefix(text, "+"))
		if err != nil || late <= 0 {
			return fmt.Errorf("the option ttl takes exact, none, or a time such as 1h by which deadlines are copied later, not %q", text)
		}
		s.ttl, s.ttlLate = ttlLateBy, late
	}
	return nil
}

// Resume implements Sink.
func (s *redisSink) Resume(ctx context.Context) (map[string]changes.Cursor, bool, error) {
	state, err := s.connect(ctx)
	if err != nil {
		return nil, true, err
	}
	s.position, s.known = state["position"], len(state) > 0
	s.forgive = state["diverged"] != "" && (s.anew || s.accept)
	if s.anew || !s.known {
		return nil, true, nil
	}
	if text := state["diverged"]; text != "" && !s.accept {
		return nil, true, fmt.Errorf("the copy is no longer equal to its source, since %s: make it anew with --anew, or go on as it is with the target's option accept-diverged=yes", text)
	}
	if state["selection"] != s.selection {
		return nil, true, fmt.Errorf("the copy was made with other filters or rules (%s; now %s): start once with --anew, or give this pipe another --name", state["selection"], s.selection)
	}
	kind, rest, _ := strings.Cut(s.position, " ")
	if kind == "snapshot" {
		if !s.snapshot {
			return nil, true, errors.New("the snapshot did not come to its end, so the target has a part of the state only: start with --snapshot")
		}
		return nil, true, nil
	}
	at, err := changes.ParseCursor(rest)
	if err != nil {
		return nil, true, fmt.Errorf("the key %s of the target holds no cursor of a pipe (%q): give this pipe another --name", s.key, s.position)
	}
	return map[string]changes.Cursor{changes.All: at}, true, nil
}

// Close implements Sink.
func (s *redisSink) Close(context.Context) error {
	s.drop()
	return nil
}

func (s *redisSink) drop() {
	if s.conn != nil {
		_ = s.conn.Close() // what was sent is answered or sent again
		s.conn = nil
	}
}

// connect connects, learns what the target can, and watches and reads the
// state. It tries until ctx ends, or the target refuses for good.
func (s *redisSink) connect(ctx context.Context) (map[string]string, error) {
	var b backoff.Backoff
	for {
		s.drop()
		state, err := s.connectOnce(ctx)
		if err == nil {
			return state, nil
		}
		s.drop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if permanent(err) {
			return nil, fmt.Errorf("the target %s refuses: %w", s.dial.Addr, err)
		}
		s.log.Warn("the target cannot be reached; trying again", "target", s.dial.Addr, "error", err)
		if err := b.Wait(ctx, 0); err != nil {
			return nil, err
		}
	}
}

func (s *redisSink) connectOnce(ctx context.Context) (map[string]string, error) {
	conn, err := client.Dial(ctx, s.dial)
	if err != nil {
		return nil, err
	}
	s.conn, s.db = conn, 0
	if s.stateDB != 0 {
		if _, err := conn.Call("SELECT", strconv.Itoa(s.stateDB)); err != nil {
			return nil, err
		}
		s.db = s.stateDB
	}
	r, err := conn.Call("COMMAND", "INFO", "HPEXPIREAT", "FUNCTION")
	if err != nil {
		return nil, err
	}
	s.lacks = map[string]bool{}
	for i, name := range []string{"HPEXPIREAT", "FUNCTION"} {
		if i < len(r.Elems) && len(r.Elems[i].Elems) == 0 {
			s.lacks[name] = true
		}
	}
	if s.lacks["HPEXPIREAT"] {
		s.lacks["HPERSIST"] = true
	}
	if r, err = conn.Call("TIME"); err != nil {
		return nil, err
	}
	if len(r.Elems) == 2 {
		if seconds, err := client.Uint(r.Elems[0]); err == nil {
			s.skew = time.Unix(int64(seconds), 0).Sub(time.Now().Truncate(time.Second))
		}
	}
	conn.Append("WATCH", s.key)
	conn.Append("HGETALL", s.key)
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	if _, err := s.receive(); err != nil {
		return nil, err
	}
	return s.receiveState()
}

// receive reads a reply that is no error.
func (s *redisSink) receive() (resp.Reply, error) {
	r, err := s.conn.Receive()
	if err == nil {
		err = r.Err()
	}
	return r, err
}

func (s *redisSink) receiveState() (map[string]string, error) {
	r, err := s.receive()
	if err != nil {
		return nil, err
	}
	state := make(map[string]string, len(r.Elems)/2)
	for i := 0; i+1 < len(r.Elems); i += 2 {
		state[string(r.Elems[i].Str)] = string(r.Elems[i+1].Str)
	}
	return state, nil
}

// transientCodes are the errors that pass by themselves or by the hand of
// whoever looks after the target.
var transientCodes = []string{"OOM", "MISCONF", "READONLY", "LOADING", "NOREPLICAS", "BUSY", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN", "EXECABORT"}

// permanent reports whether trying again is of no use: a server has answered,
// with an error that stays.
func permanent(err error) bool {
	var answer *resp.Error
	if !errors.As(err, &answer) {
		return false
	}
	return !slices.Contains(transientCodes, answer.Code) && !strings.Contains(answer.Text, "max number of clients")
}
