package server

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kevy/tests/wire"
)

// frames reads messages of the stream ALL until it has seen the frame before
// offset end, beginning with offset at, and checks that none is missing.
func (c *conn) frames(at, end int) {
	c.t.Helper()
	for at < end {
		r := c.message()
		if string(r.Elems[0].Text) != "changes" {
			c.t.Fatalf("%s instead of frames", r)
		}
		for _, fr := range r.Elems[4].Elems {
			if string(fr.Elems[0].Text) != strconv.Itoa(at) {
				c.t.Fatalf("offset %s, and %d should come", fr.Elems[0].Text, at)
			}
			at++
		}
	}
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestSubscriberThatNeverReads: writes go on, the server keeps nothing for it but
// what the socket takes, and when it reads at last nothing is missing.
func TestSubscriberThatNeverReads(t *testing.T) {
	const writes, size = 512, 1 << 20
	in := start(t, "--feed-backlog-bytes", "8mb")
	w := in.conn()
	_ = w.SetDeadline(time.Now().Add(5 * patience))
	stalled := []*conn{in.conn().proto("2"), in.conn().proto("3"), in.conn().proto("3")}
	stalled[0].do("CHANGES SUBSCRIBE ALL TAIL")
	stalled[1].do("CHANGES SUBSCRIBE ALL TAIL COUNT 65536 BYTES 67108864")
	stalled[2].do("CHANGES SUBSCRIBE ALL TAIL WINDOW 3")
	value := strings.Repeat("x", size)
	before := heap()
	most := before
	for i := range writes {
		if r, err := w.Do("SET", fmt.Sprint("k", i%4), value); err != nil || r.String() != "+OK" {
			t.Fatal(r, err)
		}
		if i%64 == 63 {
			most = max(most, heap())
		}
	}
	// The backlog, four values, the buffers of the writer and of what is in flight.
	if limit := uint64(32 << 20); most-before > limit {
		t.Errorf("%d MiB more are in use, and %d are allowed", (most-before)>>20, limit>>20)
	}
	for i, c := range stalled {
		_ = c.SetDeadline(time.Now().Add(5 * patience))
		if i < 2 {
			c.frames(0, writes)
			continue
		}
		c.frames(0, 3)
		c.do("CHANGES CREDIT ALL 1000000")
		c.frames(3, writes)
	}
}

// TestLargeCommitIsStreamed: a commit that is larger than what is allowed to
// gather passes whole, to one who reads it and to one who goes in the middle.
func TestLargeCommitIsStreamed(t *testing.T) {
	t.Parallel()
	const keys, size = 24, 1 << 20
	in := start(t, "--client-output-buffer-limit", "pubsub 1mb 1mb 1")
	c, other, gone := in.conn().proto("3"), in.conn(), in.conn()
	for _, c := range []*conn{c, other, gone} {
		_ = c.SetDeadline(time.Now().Add(3 * patience))
		c.do("CHANGES SUBSCRIBE ALL TAIL")
	}
	w := in.conn()
	args := []string{"MSET"}
	for i := range keys {
		args = append(args, fmt.Sprint("k", i), strings.Repeat("x", size))
	}
	if r, err := w.Do(args...); err != nil || r.String() != "+OK" {
		t.Fatal(r, err)
	}
	if _, err := io.CopyN(io.Discard, gone, 3<<20); err != nil {
		t.Fatal(err)
	}
	gone.Close()
	w.do("SET after 1")
	for _, c := range []*conn{c, other} {
		r := c.message()
		if n := len(r.Elems[4].Elems); n != keys {
			t.Errorf("a message of %d frames, the commit has %d", n, keys)
		}
		c.frames(keys, keys+1)
	}
	eventually(t, "who has gone is gone", func() bool { return w.infoInt("clients", "connected_clients") == 3 })
	// The limit counts replies, those of a subscriber too.
	if err := c.Send("MGET", "k1", "k2"); err != nil {
		t.Fatal(err)
	}
	c.ended()
}

// TestPushWaitsForTheReply: a message is not sent in the middle of a reply, nor
// does UNSUBSCRIBE wait for one that waits for the reply that is under way.
func TestPushWaitsForTheReply(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := in.conn()
	gen, _ := w.tail("ALL")
	for i := range 40 {
		if _, err := w.Do("SET", fmt.Sprint("k", i), strings.Repeat("x", 200<<10)); err != nil {
			t.Fatal(err)
		}
	}
	for _, last := range []string{"CHANGES UNSUBSCRIBE", "RESET", "QUIT"} {
		c := in.conn().proto("3")
		c.do("CHANGES SUBSCRIBE ALL TAIL")
		if _, err := c.Write([]byte("CHANGES SINCE ALL " + gen + " 0 COUNT 40 BYTES 67108864\r\nECHO hi\r\n" + last + "\r\n")); err != nil {
			t.Fatal(err)
		}
		// The reply is under way and does not fit into the socket's buffers.
		time.Sleep(20 * time.Millisecond)
		w.do("SET late v")
		r := c.message()
		for r.Kind == wire.Push {
			r = c.message()
		}
		if len(r.Elems) != 3 || len(r.Elems[2].Elems) < 40 {
			t.Fatalf("SINCE answers %d parts", len(r.Elems))
		}
		var after []string
		for len(after) < 2 {
			if r := c.message(); r.Kind != wire.Push || string(r.Elems[0].Text) != "changes" {
				after = append(after, r.String())
			}
		}
		if want := map[string]string{"QUIT": "+OK", "RESET": "+RESET", "CHANGES UNSUBSCRIBE": `push["changes-unsubscribe", "ALL"]`}[last]; after[0] != `"hi"` || after[1] != want {
			t.Errorf("%s: %q", last, after)
		}
		if last == "QUIT" {
			c.ended()
		} else {
			w.do("SET later v")
			c.expect("ECHO x", `"x"`)
		}
	}
}

// TestWindowAndCredit: no message more than was allowed.
func TestWindowAndCredit(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := in.conn()
	gen, _ := w.tail("ALL")
	for range 10 {
		w.do("SET k v")
	}
	for _, proto := range []string{"2", "3"} {
		c := in.conn().proto(proto)
		c.do("CHANGES SUBSCRIBE ALL " + gen + " 0 COUNT 1 WINDOW 2 HEARTBEAT 20")
		at := 0
		// passes reads so many messages with frames, and then heartbeats.
		passes := func(n int) {
			t.Helper()
			for beats := 0; beats < 5; {
				r := c.message()
				if len(r.Elems) == 3 {
					continue // the confirmation of CREDIT
				}
				if len(r.Elems[4].Elems) == 0 {
					beats++
				}
				at += len(r.Elems[4].Elems)
				if next := string(r.Elems[3].Text); next != strconv.Itoa(at) {
					t.Fatalf("next-offset %s behind frame %d", next, at)
				}
				n -= len(r.Elems[4].Elems)
			}
			if n != 0 {
				t.Fatalf("%d messages are missing", n)
			}
		}
		passes(2)
		for _, credit := range []int{1, 3, 100} {
			if err := c.Send("CHANGES", "CREDIT", "ALL", strconv.Itoa(credit)); err != nil {
				t.Fatal(err)
			}
			passes(min(credit, 10-at))
		}
		for range 2 { // credits add up, to a bound
			if err := c.Send("CHANGES", "CREDIT", "ALL", "9223372036854775807"); err != nil {
				t.Fatal(err)
			}
			for r := c.message(); ; r = c.message() {
				if string(r.Elems[0].Text) == "changes-credit" {
					break
				}
			}
		}
		if n := c.credit(w); n != maxCreditForTest {
			t.Errorf("the credit is %d", n)
		}
	}
}

// maxCreditForTest is the bound of a window that docs/feed.md names.
const maxCreditForTest = 1 << 53

// credit returns what INFO says is left of the last subscriber's window.
func (c *conn) credit(w *conn) int64 {
	id := ""
	info := w.do("CHANGES INFO ALL").Elems
	for i := 0; i < len(info); i += 2 {
		if string(info[i].Text) != "subscribers" {
			continue
		}
		for _, s := range info[i+1].Elems {
			for j := 0; j < len(s.Elems); j += 2 {
				switch string(s.Elems[j].Text) {
				case "addr":
					id = string(s.Elems[j+1].Text)
				case "credit":
					if n, _ := strconv.ParseInt(string(s.Elems[j+1].Text), 10, 64); id == c.LocalAddr().String() {
						return n
					}
				}
			}
		}
	}
	return -1
}

// TestHeartbeats say how far the scan is, also where a filter lets nothing pass.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := in.conn()
	c := in.conn()
	c.do("CHANGES SUBSCRIBE ALL TAIL PREFIX nothing: HEARTBEAT 1 META")
	began := time.Now()
	for range 100 {
		w.do("SET k v")
	}
	beats := 0
	for {
		r := c.message()
		beats++
		if len(r.Elems) != 6 || len(r.Elems[4].Elems) != 0 {
			t.Fatalf("%s is no heartbeat", r)
		}
		if string(r.Elems[3].Text) == "100" {
			if string(r.Elems[5].Text) != "100" {
				t.Errorf("complete-lsn is %s", r.Elems[5].Text)
			}
			break
		}
	}
	for range 5 {
		c.message()
		beats++
	}
	// 10 ms is the least.
	if most := int(time.Since(began)/(10*time.Millisecond)) + 1; beats > most {
		t.Errorf("%d heartbeats in %v", beats, time.Since(began))
	}
}

// TestSubscribersOverEnds: FLUSHALL leads into the next generation; what cannot
// be followed ends with the reason; the connection stays.
func TestSubscribersOverEnds(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := in.conn()
	gen, _ := w.tail("ALL")
	c := in.conn().proto("2")
	c.do("CHANGES SUBSCRIBE ALL TAIL")
	w.do("SET k v")
	w.do("FLUSHALL")
	next, _ := w.tail("ALL")
	w.do("SET l v")
	var got []string
	for len(got) == 0 || !strings.Contains(got[len(got)-1], `"l"`) {
		r := strings.NewReplacer(gen, "G", next, "N").Replace(c.message().String())
		got = append(got, r)
	}
	all := strings.Join(got, " ")
	if !strings.Contains(all, `[:0, ["SET", "k", "v"]]`) || !strings.Contains(all, `["FLUSHALL"]`) || !strings.Contains(all, `["changes", "ALL", :N, :1, [[:0, ["SET", "l", "v"]]]]`) {
		t.Errorf("got %s", all)
	}
	w.do("SWAPDB 0 1")
	r := c.message()
	if len(r.Elems) != 3 || string(r.Elems[0].Text) != "changes-end" || string(r.Elems[1].Text) != "ALL" ||
		!strings.HasPrefix(string(r.Elems[2].Text), "FEEDRESYNC "+next) || !strings.HasSuffix(string(r.Elems[2].Text), " swapdb") {
		t.Errorf("SWAPDB ends the stream with %s", r)
	}
	c.expect("PING", "+PONG")
	c.do("CHANGES SUBSCRIBE ALL TAIL DB 1")
	c.expect("PING", `["pong", ""]`)
	if line := w.do("CLIENT LIST TYPE pubsub").String(); strings.Count(line, "id=") != 1 {
		t.Errorf("CLIENT LIST TYPE pubsub: %s", line)
	}
}

// TestManySubscribers: a thousand, each gets everything, and INFO tells of those
// that are furthest behind.
func TestManySubscribers(t *testing.T) {
	t.Parallel()
	const many, writes = 1000, 100
	in := start(t, "--shards", "4")
	w := in.conn()
	_ = w.SetDeadline(time.Now().Add(3 * patience))
	var all []*conn
	for range many {
		c := in.conn().proto("3")
		_ = c.SetDeadline(time.Now().Add(3 * patience))
		c.do("CHANGES SUBSCRIBE ALL TAIL")
		all = append(all, c)
	}
	for i := range writes {
		w.do(fmt.Sprint("SET k", i, " v"))
	}
	var reading sync.WaitGroup
	for _, c := range all {
		reading.Add(1)
		go func() {
			defer reading.Done()
			at := 0
			for at < writes {
				r, err := c.ReadReply()
				if err != nil {
					t.Error(err)
					return
				}
				for _, fr := range r.Elems[4].Elems {
					if string(fr.Elems[0].Text) != strconv.Itoa(at) {
						t.Errorf("offset %s, and %d should come", fr.Elems[0].Text, at)
						return
					}
					at++
				}
			}
		}()
	}
	reading.Wait()
	text := w.do("CHANGES INFO").String()
	if n := w.infoInt("feed", "feed_subscriptions"); n != many {
		t.Errorf("feed_subscriptions is %d", n)
	}
	if !strings.Contains(text, fmt.Sprintf(`"subscriber-count", :%d`, many)) || strings.Count(text, `"addr"`) != 64 {
		t.Errorf("CHANGES INFO: %s", text)
	}
}

// TestSubscriberLag: what INFO says of one that does not read.
func TestSubscriberLag(t *testing.T) {
	t.Parallel()
	in := start(t)
	w := in.conn()
	c := in.conn().proto("3")
	c.do("CHANGES SUBSCRIBE ALL TAIL PREFIX k WINDOW 1")
	w.do("SET k1 v")
	c.frames(0, 1)
	for range 100 {
		w.do("SET k " + strings.Repeat("v", 1000))
	}
	time.Sleep(1200 * time.Millisecond)
	text := w.do("CHANGES INFO").String()
	if !strings.Contains(text, `:1], "durable", :0, "filtered", :1, "credit", :0, "lag-frames", :100, "lag-bytes", :`) {
		t.Errorf("CHANGES INFO: %s", text)
	}
	lag := func(text, name string) float64 {
		_, rest, _ := strings.Cut(text, `"`+name+`", `)
		n, err := strconv.ParseFloat(strings.Trim(strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ']' })[0], `":`), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := lag(text, "lag-bytes"); n < 100_000 || n > 250_000 {
		t.Errorf("lag-bytes is %v", n)
	}
	if n := lag(text, "lag-seconds"); n < 1 || n > 20 {
		t.Errorf("lag-seconds is %v", n)
	}
	c.do("CHANGES CREDIT ALL 100")
	c.frames(1, 101)
	eventually(t, "it has caught up", func() bool {
		text := w.do("CHANGES INFO").String()
		return lag(text, "lag-frames") == 0 && lag(text, "lag-bytes") == 0 && lag(text, "lag-seconds") == 0
	})
}

// TestSubscriberIsNotIdle: timeout does not end a subscriber.
func TestSubscriberIsNotIdle(t *testing.T) {
	t.Parallel()
	in := start(t, "--timeout", "1")
	c := in.conn()
	c.do("CHANGES SUBSCRIBE ALL TAIL")
	time.Sleep(3 * time.Second)
	c.expect("PING", `["pong", ""]`)
	c.do("CHANGES UNSUBSCRIBE")
	c.ended()
}

// TestStopWithSubscribers: the server stops, whatever its subscribers do.
func TestStopWithSubscribers(t *testing.T) {
	in := start(t)
	w := in.conn()
	for i := range 50 {
		c := in.conn().proto(strconv.Itoa(2 + i%2))
		c.do("CHANGES SUBSCRIBE ALL TAIL")
		if i%3 == 0 {
			c.do("CHANGES SUBSCRIBE 0 TAIL WINDOW 0")
		}
		if i%5 == 0 {
			if i%2 == 1 {
				_ = c.Send("BLPOP", "q", "0")
			}
			_ = c.Send("CHANGES", "UNSUBSCRIBE", "0")
		}
	}
	value := strings.Repeat("x", 1<<20)
	for range 20 {
		if _, err := w.Do("SET", "k", value); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSubscribeInDisorder: subscribing, unsubscribing, giving credit and leaving,
// while writes pass; between a confirmation and its opposite each stream is whole.
func TestSubscribeInDisorder(t *testing.T) {
	t.Parallel()
	in := start(t, "--shards", "2")
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Add(1)
	w := in.conn()
	_ = w.SetDeadline(time.Now().Add(3 * patience))
	go func() {
		defer running.Done()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := w.Do("SET", fmt.Sprint("k", i%100), strings.Repeat("v", i%5000)); err != nil {
				t.Error(err)
				return
			}
			if i%500 == 499 {
				if _, err := w.Do("FLUSHALL"); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for worker := range 8 {
		running.Add(1)
		go func() {
			defer running.Done()
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := disorder(in, worker, round); err != nil {
					t.Errorf("worker %d, round %d: %v", worker, round, err)
					return
				}
			}
		}()
	}
	time.Sleep(1500 * time.Millisecond)
	close(stop)
	running.Wait()
	watcher := in.conn()
	eventually(t, "nobody is left", func() bool { return watcher.infoInt("clients", "connected_clients") == 2 })
}

// disorder uses a connection for a while and leaves it in the middle of
// something.
func disorder(in *instance, worker, round int) error {
	nc, err := net.DialTimeout("tcp", in.addr, patience)
	if err != nil {
		return err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	c := wire.NewConn(nc)
	if _, err := c.Do("HELLO", strconv.Itoa(2+worker%2)); err != nil {
		return err
	}
	var batch []byte
	for i := range 30 {
		stream := []string{"0", "1", "ALL"}[(worker+round+i)%3]
		switch (worker*7 + round*3 + i*i) % 5 {
		case 0, 1:
			batch = wire.AppendStrings(batch, "CHANGES", "SUBSCRIBE", stream, "TAIL", "WINDOW", "2", "HEARTBEAT", "10")
		case 2:
			batch = wire.AppendStrings(batch, "CHANGES", "CREDIT", stream, "1")
		case 3:
			batch = wire.AppendStrings(batch, "CHANGES", "UNSUBSCRIBE", stream)
		case 4:
			batch = wire.AppendStrings(batch, "PING")
		}
	}
	batch = wire.AppendStrings(batch, "CHANGES", "UNSUBSCRIBE")
	batch = wire.AppendStrings(batch, "ECHO", "last")
	if _, err := c.Write(batch); err != nil {
		return err
	}
	if round%3 == 0 {
		return nil // it goes at once
	}
	at := map[string]string{}
	for {
		r, err := c.ReadReply()
		if err != nil {
			return err
		}
		switch {
		case string(r.Text) == "last":
			if len(at) > 0 {
				return fmt.Errorf("still subscribed to %v", at)
			}
			return nil
		case len(r.Elems) == 0:
			continue
		}
		stream := ""
		if len(r.Elems) > 1 {
			stream = string(r.Elems[1].Text)
		}
		switch string(r.Elems[0].Text) {
		case "changes-subscribe":
			at[stream] = string(r.Elems[2].Text) + " " + string(r.Elems[3].Text)
		case "changes-unsubscribe":
			delete(at, stream)
		case "changes":
			before, ok := at[stream]
			if !ok {
				return fmt.Errorf("%s without a subscription", r)
			}
			generation, next := string(r.Elems[2].Text), string(r.Elems[3].Text)
			if frames := r.Elems[4].Elems; len(frames) > 0 {
				if first := generation + " " + string(frames[0].Elems[0].Text); first != before {
					return fmt.Errorf("stream %s: frame %s behind cursor %s", stream, first, before)
				}
			}
			at[stream] = generation + " " + next
		case "changes-end":
			return fmt.Errorf("%s", r)
		}
	}
}
