package kevy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy"
	"kevy/internal/engine"
	"kevy/internal/vfs"
)

func subscribe(t *testing.T, db *kevy.DB, from kevy.Cursor, f kevy.Filter, o ...kevy.SubscribeOption) *kevy.Subscription {
	t.Helper()
	s, err := db.Subscribe(t.Context(), from, f, o...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tail(t *testing.T, db *kevy.DB) kevy.Cursor {
	t.Helper()
	at, err := db.ChangesTail()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// next returns the next commit as "offset COMMAND …; offset COMMAND …".
func next(t *testing.T, s *kevy.Subscription) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, ch := range c.Changes {
		texts = append(texts, fmt.Sprintf("%d %s", ch.Offset, strings.Trim(fmt.Sprintf("%s", ch.Args), "[]")))
	}
	return strings.Join(texts, "; ")
}

// rest returns what there is of a subscription, without waiting.
func rest(t *testing.T, s *kevy.Subscription) string {
	t.Helper()
	var all []string
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		c, err := s.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return strings.Join(all, " ")
		}
		if err != nil {
			return strings.Join(append(all, err.Error()), " ")
		}
		for _, ch := range c.Changes {
			all = append(all, fmt.Sprint(ch.Offset))
		}
	}
}

func TestSubscribeReplaysThenFollows(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	from := tail(t, db)
	do(t, db, "SET", "before", "1")
	s := subscribe(t, db, from, kevy.Filter{})
	if got := next(t, s); got != "0 SET before 1" {
		t.Fatal(got)
	}
	time.AfterFunc(20*time.Millisecond, func() {
		_, _ = db.Update(func(tx *kevy.Tx) error {
			for _, cmd := range [][]string{{"SET", "a", "1"}, {"INCR", "n"}, {"DEL", "before"}} {
				if _, err := tx.Do(cmd...); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if got := next(t, s); got != "1 SET a 1; 2 SET n 1 KEEPTTL; 3 DEL before" {
		t.Fatal(got)
	}
	at := s.Cursor()
	if at != tail(t, db) {
		t.Errorf("the cursor is %v, the tail %v", at, tail(t, db))
	}
	// Any change of the commit leads to all of it.
	for offset := uint64(1); offset <= 3; offset++ {
		c, err := db.CommitAt(kevy.Cursor{Generation: at.Generation, Offset: offset})
		if err != nil || len(c.Changes) != 3 || c.Changes[0].First != 1 || c.Changes[2].Last != 3 || c.Next != at {
			t.Errorf("the commit of offset %d: %+v %v", offset, c, err)
		}
	}
	if _, err := db.CommitAt(at); !errors.Is(err, kevy.ErrFuture) {
		t.Errorf("what is not there yet: %v", err)
	}
	// FLUSHALL ends the generation; the subscription goes on in the next one.
	do(t, db, "FLUSHALL")
	do(t, db, "SET", "after", "1")
	if got := next(t, s) + "; " + next(t, s); got != "4 FLUSHALL; 0 SET after 1" {
		t.Fatal(got)
	}
	at = s.Cursor()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir)
	defer db.Close()
	do(t, db, "SET", "again", "1")
	if got := next(t, subscribe(t, db, at, kevy.Filter{})); got != "1 SET again 1" {
		t.Error(got)
	}
}

func TestSubscribeFilters(t *testing.T) {
	db := open(t, "")
	defer db.Close()
	from := tail(t, db)
	for _, cmd := range [][]string{
		{"SET", "user:1", "paid"}, {"SET", "user:2", "open"}, {"HSET", "order:1", "state", "paid"}, {"SET", "\xff", "\xfe"}, {"DEL", "user:2"}, {"MOVE", "user:1", "3"},
	} { // offsets 0 to 4, and MOVE as 5 (SET in 3) and 6 (DEL in 0)
		do(t, db, cmd...)
	}
	for name, tc := range map[string]struct {
		filter kevy.Filter
		want   string
	}{
		"all of database 0": {kevy.Filter{}, "0 1 2 3 4 6"},
		"prefix":            {kevy.Filter{Prefixes: []string{"user:"}}, "0 1 4 6"},
		"match":             {kevy.Filter{Matches: []string{"*:1"}}, "0 2 6"},
		"regex":             {kevy.Filter{Regexes: []kevy.KeyRegex{{Prefix: "user:", Pattern: "[2-9]"}}}, "1 4"},
		"regex of bytes":    {kevy.Filter{Regexes: []kevy.KeyRegex{{Pattern: `\xff`}}, ByteMode: true}, "3"},
		"value":             {kevy.Filter{ValueExact: []string{"paid"}}, "0 2 4 6"},
		"value prefix":      {kevy.Filter{ValuePrefixes: []string{"op"}, Prefixes: []string{"user"}}, "1 4 6"},
		"value regex":       {kevy.Filter{ValueRegexes: []string{`^[\xf0-\xff]$`}, ByteMode: true}, "3 4 6"},
		"another database":  {kevy.Filter{DB: 3}, "5"},
		"every database":    {kevy.Filter{AllDBs: true, Prefixes: []string{"user:1"}}, "0 5 6"},
		"nothing":           {kevy.Filter{Prefixes: []string{"none"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := subscribe(t, db, from, tc.filter, kevy.WithReadAhead(2))
			if got := rest(t, s); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if s.Cursor() != tail(t, db) {
				t.Errorf("the cursor has not moved over what was left out: %v, %v", s.Cursor(), tail(t, db))
			}
		})
	}
	for want, f := range map[string]kevy.Filter{
		"kevy: invalid filter: PREFIX must not be empty":                                            {Prefixes: []string{""}},
		"kevy: invalid filter: more than 16 VALUE EXACT":                                            {ValueExact: strings.Split(strings.Repeat("v ", 16)+"v", " ")},
		`kevy: invalid filter: REGEX: missing closing ) at "("; the syntax is RE2's, as in Go`:      {Regexes: []kevy.KeyRegex{{Pattern: "("}}},
		"kevy: invalid filter: VALUE REGEX is not UTF-8: bytes are matched with BYTEMODE":           {ValueRegexes: []string{"\xff"}},
		"kevy: invalid filter: there are databases 0 to 15, and no 16":                              {DB: 16},
		"kevy: invalid filter: REGEX: missing closing ] at \"[\"; the syntax is RE2's, as in Go":    {Regexes: []kevy.KeyRegex{{Pattern: "["}, {Pattern: "("}}},
		"kevy: invalid filter: the prefix of a REGEX has 65537 bytes, at most 65536 are allowed":    {Regexes: []kevy.KeyRegex{{Prefix: strings.Repeat("x", 65537), Pattern: "x"}}},
		"kevy: invalid filter: MATCH has 1025 bytes, at most 1024 are allowed":                      {Matches: []string{strings.Repeat("x", 1025)}},
		"kevy: invalid filter: there are databases 0 to 15, and no -1":                              {DB: -1, AllDBs: true},
		"kevy: invalid filter: VALUE PREFIX must not be empty":                                      {ValuePrefixes: []string{"x", ""}},
		"kevy: invalid filter: REGEX compiles to 1001 steps, at most 1000 are allowed: repeat less": {Regexes: []kevy.KeyRegex{{Pattern: "x{999}"}}},
		"kevy: invalid filter: REGEX: \"\\\\x{1ff}\" is no byte, and BYTEMODE matches bytes":        {Regexes: []kevy.KeyRegex{{Pattern: `\x{1ff}`}}, ByteMode: true},
		"kevy: invalid filter: VALUE REGEX must not be empty":                                       {ValueRegexes: []string{""}},
		"kevy: invalid filter: more than 16 REGEX":                                                  {Regexes: slices.Repeat([]kevy.KeyRegex{{Pattern: "x"}}, 17)},
	} {
		if _, err := db.Subscribe(t.Context(), from, f); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", f, err, want)
		}
	}
}

// TestSubscriptionEnds by its own context, by that of a call, with the DB, and
// when it cannot go on.
func TestSubscriptionEnds(t *testing.T) {
	db := open(t, "")
	from := tail(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := db.Subscribe(ctx, from, kevy.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	call, cancelCall := context.WithTimeout(t.Context(), 10*time.Millisecond)
	if _, err := s.Next(call); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the call's time: %v", err)
	}
	cancelCall()
	do(t, db, "SET", "k", "v")
	if got := next(t, s); got != "0 SET k v" {
		t.Error("after a call ended:", got)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := s.Next(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("after the subscription's context: %v", err)
	}
	n := 0
	for c, err := range s.Commits(t.Context()) {
		if n++; !errors.Is(err, context.Canceled) || c.Changes != nil {
			t.Errorf("the iterator yields %v %v", c, err)
		}
	}
	if n != 1 {
		t.Errorf("the iterator yields %d times", n)
	}

	// What was read before a SWAPDB of the database is returned before the error,
	// and the error stays.
	s = subscribe(t, db, from, kevy.Filter{})
	do(t, db, "SET", "k", "w")
	do(t, db, "SWAPDB", "0", "1")
	var resync *kevy.ResyncError
	if a, b := next(t, s), next(t, s); a != "0 SET k v" || b != "1 SET k w" {
		t.Error(a, b)
	}
	for range 2 {
		if _, err := s.Next(t.Context()); !errors.As(err, &resync) || resync.Reason != "swapdb" || resync.Tail != tail(t, db) {
			t.Errorf("at a SWAPDB: %v", err)
		}
	}

	if _, err := db.Subscribe(t.Context(), kevy.Cursor{Generation: 1}, kevy.Filter{}); !errors.As(err, &resync) || resync.Reason != "generation" {
		t.Errorf("a foreign cursor: %v", err)
	}
	if _, err := db.CommitAt(kevy.Cursor{Generation: 1}); !errors.As(err, &resync) {
		t.Errorf("the commit at a foreign cursor: %v", err)
	}
	at := tail(t, db)
	at.Offset++
	if _, err := db.Subscribe(t.Context(), at, kevy.Filter{}); !errors.Is(err, kevy.ErrFuture) {
		t.Errorf("a cursor beyond the end: %v", err)
	}
	if _, err := db.Subscribe(t.Context(), tail(t, db), kevy.Filter{}, kevy.WithDurable()); err == nil || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("what is durable of a store in memory: %v", err)
	}

	s = subscribe(t, db, tail(t, db), kevy.Filter{})
	time.AfterFunc(10*time.Millisecond, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if _, err := s.Next(t.Context()); !errors.Is(err, kevy.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if _, err := db.Subscribe(t.Context(), from, kevy.Filter{}); !errors.Is(err, kevy.ErrClosed) {
		t.Errorf("Subscribe after Close: %v", err)
	}
	off := open(t, "", kevy.WithoutFeed())
	defer off.Close()
	if _, err := off.Subscribe(t.Context(), from, kevy.Filter{}); !errors.Is(err, kevy.ErrFeedDisabled) {
		t.Errorf("without a feed: %v", err)
	}
	if _, err := off.CommitAt(from); !errors.Is(err, kevy.ErrFeedDisabled) {
		t.Errorf("CommitAt without a feed: %v", err)
	}
	if _, err := off.ChangesOldest(); !errors.Is(err, kevy.ErrFeedDisabled) {
		t.Errorf("ChangesOldest without a feed: %v", err)
	}
	if _, at, err := off.Write(t.Context(), "SET", "k", "v"); err != nil || at != (kevy.Cursor{}) {
		t.Errorf("Write without a feed: %v %v", at, err)
	}
}

// TestSubscribersBesideWriters: each gets every commit whole and in order, until
// the store closes.
func TestSubscribersBesideWriters(t *testing.T) {
	db := open(t, "data", onDisk(vfs.NewMem()))
	from := tail(t, db)
	const writers, commits = 3, 300
	var wg sync.WaitGroup
	for i := range 3 {
		s := subscribe(t, db, from, kevy.Filter{Prefixes: []string{"w"}}, kevy.WithReadAhead(1+i*50))
		wg.Go(func() {
			seen := map[string]int{}
			last := uint64(0)
			for c, err := range s.Commits(context.Background()) {
				if err != nil {
					if !errors.Is(err, kevy.ErrClosed) {
						t.Error(err)
					}
					break
				}
				key := string(c.Changes[0].Args[1])
				if len(c.Changes) != 2 || string(c.Changes[1].Args[1]) != key+"'" || c.Changes[0].Offset < last || c.Changes[1].Offset != c.Next.Offset-2 {
					t.Errorf("a commit of %d changes at %d, after %d: %v", len(c.Changes), c.Changes[0].Offset, last, c)
					break
				}
				last = c.Next.Offset
				if want := fmt.Sprint(seen[key]); string(c.Changes[0].Args[2]) != want {
					t.Errorf("%s is %s, want %s", key, c.Changes[0].Args[2], want)
					break
				}
				seen[key]++
			}
			for w := range writers {
				if n := seen[fmt.Sprint("w", w)]; n != commits {
					t.Errorf("%d commits of writer %d were seen", n, w)
				}
			}
		})
	}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range commits {
				_, err := db.Update(func(tx *kevy.Tx) error {
					key := fmt.Sprint("w", w)
					for _, k := range []string{key, key + "'", "other"} {
						if _, err := tx.Do("SET", k, fmt.Sprint(i)); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	end := tail(t, db)
	// They are done once each could have seen the end.
	s := subscribe(t, db, from, kevy.Filter{})
	for s.Cursor() != end {
		next(t, s)
	}
	time.Sleep(200 * time.Millisecond)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

// TestSubscribeDurable: nothing is seen before it is fsynced.
func TestSubscribeDurable(t *testing.T) {
	db := open(t, "data", onDisk(vfs.NewMem()), kevy.WithFsync(kevy.FsyncNo))
	from := tail(t, db)
	do(t, db, "SET", "k", "v")
	s := subscribe(t, db, from, kevy.Filter{}, kevy.WithDurable())
	if got := rest(t, s); got != "" || s.Cursor() != from {
		t.Errorf("it has seen %q", got)
	}
	if got := rest(t, subscribe(t, db, from, kevy.Filter{})); got != "0" {
		t.Errorf("visible is %q", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	always := open(t, "always", onDisk(vfs.NewMem()), kevy.WithFsync(kevy.FsyncAlways))
	defer always.Close()
	s = subscribe(t, always, tail(t, always), kevy.Filter{}, kevy.WithDurable())
	do(t, always, "SET", "k", "v")
	if got := next(t, s); got != "0 SET k v" {
		t.Error(got)
	}
}

// TestWriteReturnsItsCursor: a reader that has got there has seen the write.
func TestWriteReturnsItsCursor(t *testing.T) {
	db := open(t, "")
	defer db.Close()
	from := tail(t, db)
	for i, cmd := range [][]string{{"SET", "k", "v"}, {"MSET", "a", "1", "b", "2"}, {"DEL", "k"}} {
		r, at, err := db.Write(t.Context(), cmd...)
		if err != nil || at != tail(t, db) || at.Generation != from.Generation || at.Offset != []uint64{1, 3, 4}[i] {
			t.Errorf("%v: %v %v %v", cmd, r, at, err)
		}
	}
	if _, at, err := db.Write(t.Context(), "DEL", "k"); err != nil || at.Offset > 4 || at.Generation != from.Generation {
		t.Errorf("of nothing changed: %v %v", at, err)
	}
	if _, _, err := db.Write(t.Context(), "INCR"); err == nil {
		t.Error("a wrong command succeeds")
	}
	if oldest, err := db.ChangesOldest(); err != nil || oldest != from {
		t.Errorf("the oldest is %v, %v, want %v", oldest, err, from)
	}
}

// TestRareFilterKeepsItsCursor: a subscription of which one change in a million
// passes goes on, while the log behind it is let go: its cursor moves over what
// is left out. One that does not move is told that its past is gone.
func TestRareFilterKeepsItsCursor(t *testing.T) {
	const perCommit, commits = 1000, 1000
	db := open(t, t.TempDir(), func(o *engine.Options) {
		o.SegmentBytes, o.FeedDiskBytes, o.FeedMemoryBytes = 256<<10, 1<<20, 1<<20
		o.Rewrite = engine.RewriteRule{Percentage: 100, MinBytes: 1 << 20}
	})
	defer db.Close()
	from := tail(t, db)
	rare := subscribe(t, db, from, kevy.Filter{Prefixes: []string{"rare:"}})
	look := func() int {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		c, err := rare.Next(ctx)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("at %v: %v", rare.Cursor(), err)
		}
		return len(c.Changes)
	}
	// standing waits until a reader that has not moved is told.
	standing := func() {
		var resync *kevy.ResyncError
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if _, err := db.ChangesSince(from, 1); errors.As(err, &resync) && resync.Reason == "evicted" {
				from = tail(t, db)
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing of the log is let go")
			}
		}
	}
	found := 0
	for i := range commits {
		_, err := db.Update(func(tx *kevy.Tx) error {
			args := []string{"MSET"}
			for j := range perCommit {
				args = append(args, fmt.Sprint("key:", j), fmt.Sprint(i))
			}
			if i == commits*9/10 {
				args[1] = "rare:1"
			}
			_, err := tx.Do(args...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			found += look()
		}
		if i%(commits/2) == commits/2-1 {
			standing()
			found += look()
		}
	}
	oldest, err := db.ChangesOldest()
	if err != nil || oldest.Offset < commits*perCommit/2 || found != 1 || rare.Cursor() != tail(t, db) {
		t.Errorf("the oldest change is %v, %v; the subscription has found %d and is at %v of %v", oldest, err, found, rare.Cursor(), tail(t, db))
	}
}
