package oracle

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/tests/keyspace"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// rewriteTimeout is how long a rewrite of the log may take.
const rewriteTimeout = time.Minute

// history holds what a server keeps of its past to the keyspace that it serves: a consumer of the feed, its
// log, and its log written anew must each rebuild it.
type history struct {
	t      *testing.T
	server *process.Server
	cfg    process.Config
	// mirror is a redis-server that gets nothing but the frames of the feed.
	mirror           *process.Server
	cursor           []string // generation and offset in ALL
	frames, restarts int
	// unchecked says that a run began and check has not followed it.
	unchecked bool
}

// newHistory starts the server and, of the given program, its mirror: a redis-server if it knows every command
// that can come, which proves that frames are what they say.
func newHistory(t *testing.T, cfg process.Config, mirror process.Binary) *history {
	h := &history{t: t, cfg: cfg}
	h.server = process.Start(t, process.Subject(t), cfg)
	h.cfg.Dir = h.server.Dir
	h.mirror = process.Start(t, mirror, process.Config{Args: []string{"--appendonly", "no"}})
	if err := h.seek(); err != nil {
		t.Fatal(err)
	}
	return h
}

// Dial connects to the server as it runs now.
func (h *history) Dial() (net.Conn, error) { return h.server.Dial() }

func (h *history) dial() (*wire.Conn, error) { return wire.Dial(h.server.Addr()) }

// begin is a Begin of a Pair. It goes on behind what no check has followed: too many generations may have ended
// since.
func (h *history) begin() error {
	if !h.unchecked {
		h.unchecked = true
		return nil
	}
	mirror, err := wire.Dial(h.mirror.Addr())
	if err != nil {
		return err
	}
	defer mirror.Close()
	for _, args := range [][]string{{"FLUSHALL"}, {"FUNCTION", "FLUSH"}} {
		if r, err := mirror.Do(args...); err != nil || r.IsError("") {
			return fmt.Errorf("%s: %s, %v", args, r, err)
		}
	}
	return h.seek()
}

// seek goes to the end of the feed.
func (h *history) seek() error {
	c, err := h.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Do("CHANGES", "TAIL", "ALL")
	if err != nil || len(r.Elems) != 2 {
		return fmt.Errorf("CHANGES TAIL ALL: %s, %v", r, err)
	}
	h.cursor = r.Strings()
	return nil
}

// check is an After of a Pair. It restarts the server.
func (h *history) check() (*Difference, error) {
	h.unchecked = false
	want, err := h.read(h.server)
	if err != nil {
		return nil, err
	}
	if err := h.follow(); err != nil {
		return &Difference{What: "feed", Want: "frames that are commands", Got: err.Error()}, nil
	}
	if diff, err := h.compare(want, h.mirror, "a mirror that follows the feed"); diff != nil || err != nil {
		return diff, err
	}
	// kill -9, since nothing that was acknowledged may depend on a clean close.
	if err := h.restart(syscall.SIGKILL); err != nil {
		return nil, err
	}
	if diff, err := h.compare(want, h.server, "a replay of the log"); diff != nil || err != nil {
		return diff, err
	}
	if err := h.rewrite(); err != nil {
		return nil, err
	}
	if err := h.restart(syscall.SIGTERM); err != nil {
		return nil, err
	}
	return h.compare(want, h.server, "a load of the rewritten log")
}

func (h *history) read(s *process.Server) (keyspace.Dump, error) {
	c, err := wire.Dial(s.Addr())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	return keyspace.Read(c, databases)
}

// compare compares to the millisecond: an expiry is a fact of the log.
func (h *history) compare(want keyspace.Dump, s *process.Server, what string) (*Difference, error) {
	got, err := h.read(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	diff := keyspace.Diff(want, got, keyspace.Options{}, 5)
	if len(diff) == 0 && want.Digest() != got.Digest() {
		diff = []string{"the digests"}
	}
	if len(diff) == 0 {
		return nil, nil
	}
	return &Difference{What: what, Want: fmt.Sprintf("%d keys", len(want)), Got: strings.Join(diff, "\n          ")}, nil
}

// follow applies what the feed has since the last time.
func (h *history) follow() error {
	feed, err := h.dial()
	if err != nil {
		return err
	}
	defer feed.Close()
	mirror, err := wire.Dial(h.mirror.Addr())
	if err != nil {
		return err
	}
	defer mirror.Close()
	db := "0"
	var refused error
	for {
		feed.SetDeadline(time.Now().Add(time.Minute))
		mirror.SetDeadline(time.Now().Add(time.Minute))
		r, err := feed.Do("CHANGES", "SINCE", "ALL", h.cursor[0], h.cursor[1], "COUNT", "5000", "META", "DB", "*")
		if err != nil || len(r.Elems) != 4 {
			return fmt.Errorf("CHANGES SINCE ALL %s %s: %s, %v", h.cursor[0], h.cursor[1], r, err)
		}
		next := []string{string(r.Elems[0].Text), string(r.Elems[1].Text)}
		frames := r.Elems[2].Elems
		var cmds [][]string
		for _, f := range frames {
			if frameDB := string(f.Elems[2].Elems[2].Text); frameDB != db {
				db = frameDB
				cmds = append(cmds, []string{"SELECT", db})
			}
			cmds = append(cmds, f.Elems[1].Strings())
		}
		replies, err := mirror.Pipeline(cmds...)
		if err != nil {
			return err
		}
		for i, reply := range replies {
			if reply.IsError("") && refused == nil {
				refused = fmt.Errorf("the mirror does not take %q: %s", cmds[i], reply)
			}
		}
		h.frames += len(frames)
		if len(frames) == 0 && next[0] == h.cursor[0] && next[1] == h.cursor[1] {
			// The feed shows what is committed. A reply that has seen all of it waits until it is written; else a
			// kill could take back the DEL of a key that expired just now, and the cursor with it.
			if _, err := feed.Do("DBSIZE"); err != nil {
				return err
			}
			return refused
		}
		// Also past what was refused, so that the next look begins behind it.
		h.cursor = next
	}
}

// restart ends the server and starts it on its directory again.
func (h *history) restart(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		h.server.Kill()
	} else {
		h.server.Stop(h.t)
	}
	next, err := process.Launch(h.server.Binary, h.cfg)
	if err != nil {
		return err
	}
	h.t.Cleanup(next.Kill)
	if err := next.WaitReady(rewriteTimeout); err != nil {
		return fmt.Errorf("the server does not start again: %w\n%s", err, next.Log())
	}
	h.server = next
	h.restarts++
	return nil
}

// rewrite writes the log anew and waits until that is done.
func (h *history) rewrite() error {
	c, err := h.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * rewriteTimeout))
	if r, err := c.Do("BGREWRITEAOF"); err != nil || r.IsError("") {
		return fmt.Errorf("BGREWRITEAOF: %s, %v", r, err)
	}
	for deadline := time.Now().Add(rewriteTimeout); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		r, err := c.Do("INFO", "persistence")
		if err != nil {
			return err
		}
		if strings.Contains(string(r.Text), "aof_rewrite_in_progress:0") {
			if !strings.Contains(string(r.Text), "aof_last_bgrewrite_status:ok") {
				return fmt.Errorf("the rewrite failed: %s", r.Text)
			}
			return nil
		}
	}
	return fmt.Errorf("a rewrite takes longer than %v", rewriteTimeout)
}

// enough fails the test if less was looked at than so many rounds have.
func (h *history) enough(rounds int) {
	h.t.Log(h)
	if h.t.Failed() {
		return // a difference ends a round before its end
	}
	if h.restarts < 2*rounds || h.frames < 300*rounds {
		h.t.Errorf("too little was looked at in %d rounds: %s", rounds, h)
	}
}

func (h *history) String() string {
	return strconv.Itoa(h.frames) + " frames, " + strconv.Itoa(h.restarts) + " restarts"
}
