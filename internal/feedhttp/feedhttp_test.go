package feedhttp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kevy/aof"
	"kevy/feed"
	"kevy/internal/changejson"
	"kevy/internal/command/changes"
	"kevy/internal/engine"
	"kevy/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// store is a store in memory behind a server.
type store struct {
	*engine.Engine
	t    testing.TB
	all  []int
	tx   *shard.Tx
	http *Server
	addr string
	url  string
}

func serve(t testing.TB, change func(*Options)) *store {
	t.Helper()
	e, err := engine.Open(engine.Options{NoFile: true, Shards: 4, DBs: 4, Fsync: aof.PolicyNo, FeedMemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{
		Source: e.Feed(), DBs: 4, MaxClients: func() int { return 1000 }, LocalOnly: func() bool { return true }, Logger: slog.New(slog.DiscardHandler),
		Subscribers: &changes.Subscribers{}, NextID: func() uint64 { return 7 },
		Pause: func() <-chan struct{} {
			beat := make(chan struct{})
			time.AfterFunc(time.Millisecond, func() { close(beat) })
			return beat
		},
		writeTimeout: time.Hour, // a test that is kept waiting is no slow reader
	}
	if change != nil {
		change(&opt)
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &store{Engine: e, t: t, all: []int{0, 1, 2, 3}, tx: e.NewTx(), http: New(opt), addr: ln.Addr().String()}
	s.url = "http://" + s.addr + "/changes"
	s.http.Serve(ln)
	t.Cleanup(func() {
		s.http.Close()
		http.DefaultClient.CloseIdleConnections()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// commit makes one commit of what fn changes.
func (s *store) commit(db int, fn func(tx *shard.Tx)) {
	s.Set().Lock(s.all)
	defer s.Set().Unlock(s.all)
	s.tx.Begin(s.all, db, s.NowMs())
	defer s.tx.End()
	fn(s.tx)
	s.Commit(s.tx)
}

func (s *store) set(pairs ...string) {
	s.commit(0, func(tx *shard.Tx) {
		for i := 0; i < len(pairs); i += 2 {
			tx.Set([]byte(pairs[i]), []byte(pairs[i+1]), 0)
		}
	})
}

// get makes a request, and returns the status and the body.
func (s *store) get(query string, header ...string) (int, string) {
	s.t.Helper()
	r := s.open(query, header...)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return r.StatusCode, string(body)
}

func (s *store) open(query string, header ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"?"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// lines splits a body into what each line says.
func lines(t testing.TB, body string) (frames []changejson.Frame, last map[string]any) {
	t.Helper()
	for line := range strings.Lines(body) {
		f, err := changejson.ParseFrame([]byte(line))
		if err == nil {
			frames = append(frames, f)
			continue
		}
		last = nil
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return frames, last
}

func words(f changejson.Frame) string {
	var out []string
	for _, a := range f.Args {
		out = append(out, string(a))
	}
	return strings.Join(out, " ")
}

func TestLines(t *testing.T) {
	s := serve(t, nil)
	g := s.Feed().Tail(4).Generation
	s.set("user:1", "a")
	s.set("user:2", "b", "\xff\x00", "binary")
	s.commit(2, func(tx *shard.Tx) { tx.Set([]byte("elsewhere"), []byte("x"), 0) })
	from := fmt.Sprintf("generation=%d&offset=0", g)
	for _, test := range []struct{ query, want string }{
		{from, "SET user:1 a|SET user:2 b|SET \xff\x00 binary@4"},
		{"stream=all&" + from, "SET user:1 a|SET user:2 b|SET \xff\x00 binary@4"},
		{"start=oldest", "SET user:1 a|SET user:2 b|SET \xff\x00 binary@4"},
		{from + "&prefix=user:", "SET user:1 a|SET user:2 b@4"},
		{from + "&prefix=x&match=*r:2", "SET user:2 b@4"},
		{from + "&regex=%5E[0-9]%2B$&regex-prefix=user:", "SET user:1 a|SET user:2 b@4"},
		{from + "&regex=r:1", "SET user:1 a@4"},
		{from + "&value-exact=b", "SET user:2 b@4"},
		{from + "&value-prefix=bin&value-exact=a", "SET user:1 a|SET \xff\x00 binary@4"},
		{from + "&value-regex=^.$", "SET user:1 a|SET user:2 b@4"},
		{from + "&regex=%5Cxff&bytemode", "SET \xff\x00 binary@4"},
		{from + "&count=1", "SET user:1 a@1"},
		{from + "&count=2", "SET user:1 a|SET user:2 b|SET \xff\x00 binary@3"},
		{from + "&bytes=1", "SET user:1 a@1"},
		{from + "&db=2", "SET elsewhere x@4"},
		{from + "&db=*&count=9", "SET user:1 a|SET user:2 b|SET \xff\x00 binary|SET elsewhere x@4"},
		{"start=tail", "@4"},
		{"", "@4"},
		{"block=1", "@4"},
		{"follow=no&durable=no", "@4"},
	} {
		status, body := s.get(test.query)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", test.query, status, body)
			continue
		}
		frames, last := lines(t, body)
		var got []string
		for _, f := range frames {
			got = append(got, words(f))
		}
		if text := fmt.Sprintf("%s@%.0f", strings.Join(got, "|"), last["offset"]); text != test.want || last["event"] != "position" || last["generation"] != float64(g) {
			t.Errorf("%s: %s\nwant %s\n%s", test.query, text, test.want, body)
		}
	}
	_, body := s.get(from + "&count=2")
	frames, _ := lines(t, body)
	if f := frames[1]; f.Stream != "ALL" || f.Generation != g || f.Offset != 1 || f.First != 1 || f.Last != 2 || f.LSN != 2 || f.Cause != "user" || f.Ms == 0 {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(body, `"args":["SET","/wA=","binary"],"base64":[1]`) {
		t.Errorf("binary is not flagged: %s", body)
	}

	// Waiting ends with a frame, or with time.
	began := time.Now()
	done := time.AfterFunc(100*time.Millisecond, func() { s.set("late", "x") })
	defer done.Stop()
	_, body = s.get("block=60000")
	if frames, last := lines(t, body); len(frames) != 1 || last["offset"] != 5.0 || time.Since(began) > patience/2 {
		t.Errorf("waiting: %s", body)
	}
}

func TestErrors(t *testing.T) {
	s := serve(t, nil)
	s.set("a", "b")
	g := s.Feed().Tail(4).Generation
	cursor := fmt.Sprintf("generation=%d&offset=", g)
	for _, test := range []struct {
		query  string
		status int
		want   string
	}{
		{cursor + "2", 400, "feed cursor ahead of stream"},
		{"generation=7&offset=0", 410, fmt.Sprintf(`"FEEDRESYNC %d 1 %d 0 generation","reason":"generation","generation":%d,"tail":1,"oldest_generation":%d,"oldest":0`, g, g, g, g)},
		{"stream=9", 404, "no such stream '9'"},
		{"generation=1", 400, "both are needed"},
		{cursor + "-1", 400, "is no number"},
		{cursor + "9007199254740992", 400, "is no number"},
		{cursor + "0&start=tail", 400, "not both"},
		{"start=here", 400, "start is tail, oldest or snapshot"},
		{"start=snapshot", 400, "add follow=yes"},
		{"follow&start=snapshot&token=x-y", 400, "all are needed"},
		{"follow&token=x-y&after=1", 400, "all are needed"},
		{"follow&start=snapshot&token=x-y&after=z", 400, "is no number"},
		{"follow&start=snapshot&token=x-y&after=1", 410, "no such snapshot"},
		{"follow&start=snapshot&durable", 400, "DURABLE needs a log"},
		{"prefx=user:", 400, `there is no parameter \"prefx\"`},
		{"prefix=", 400, "PREFIX must not be empty"},
		{"regex=(", 400, "REGEX"},
		{"regex=a&regex=b&regex-prefix=c", 400, "1 of regex-prefix and 2 of regex"},
		{"regex-prefix=c", 400, "regex-prefix without regex"},
		{"db=4", 400, "DB index is out of range"},
		{"db=1&db=2", 400, "db is given 2 times"},
		{"count=x", 400, "count is no number"},
		{"db=x", 400, "db is no number"},
		{"durable", 400, "DURABLE needs a log"},
		{"follow&block=1", 400, "leave out follow"},
		{"heartbeat=1000", 400, "add follow=yes"},
		{"follow=maybe", 400, "follow is yes or no"},
		{"a=%zz", 400, "cannot be read"},
		{strings.Repeat("prefix=a&", feed.MaxPatterns+1), 400, "PREFIX"},
	} {
		status, body := s.get(test.query)
		if status != test.status || !strings.Contains(body, test.want) || !json.Valid([]byte(body)) {
			t.Errorf("%s: %d %s\nwant %d %s", test.query, status, body, test.status, test.want)
		}
	}
	if status, body := s.get("", "Accept", "text/event-stream", "Last-Event-ID", "x"); status != 400 {
		t.Errorf("a wrong id: %d %s", status, body)
	}
	for _, test := range []struct {
		method, path, host, body string
		status                   int
	}{
		{"GET", "/", "", "", 404},
		{"POST", "/changes", "", "", 405},
		{"HEAD", "/changes", "", "", 405},
		{"GET", "/changes", "rebound.example", "", 403},
		{"GET", "/changes", "localhost:1", "", 200},
		{"GET", "/changes", "[::1]", "", 200},
		{"GET", "/changes", "", "a body", 400},
	} {
		req, err := http.NewRequest(test.method, "http://"+s.addr+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = test.host
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != test.status {
			t.Errorf("%+v: %d", test, r.StatusCode)
		}
	}
}

// event is a server-sent event.
type event struct{ kind, id, data string }

// events reads server-sent events as a browser does; a comment is an event of
// the kind comment.
func events(t testing.TB, body io.Reader) func() event {
	lines := bufio.NewReader(body)
	return func() (e event) {
		t.Helper()
		var data []string
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return event{kind: err.Error()}
			}
			line = strings.TrimSuffix(line, "\n")
			field, value, _ := strings.Cut(line, ": ")
			switch {
			case line == "" && len(data) > 0:
				e.data = strings.Join(data, "\n")
				return e
			case line == "":
			case field == "":
				return event{kind: "comment", data: value}
			case field == "data":
				data = append(data, value)
			case field == "id":
				e.id = value
			case field == "event":
				e.kind = value
			default:
				t.Fatalf("the line %q", line)
			}
		}
	}
}

func TestServerSentEvents(t *testing.T) {
	s := serve(t, nil)
	g := strconv.FormatUint(s.Feed().Tail(4).Generation, 10)
	sse := []string{"Accept", "text/html, text/event-stream;q=0.9"}
	r := s.open("prefix=k&heartbeat=100", sse...)
	defer r.Body.Close()
	if kind := r.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("the type is %s", kind)
	}
	next := events(t, r.Body)
	// Where it begins is known before anything happens.
	if e := next(); e.kind != "position" || e.id != g+":0" {
		t.Fatalf("%+v", e)
	}
	if e := next(); e.kind != "comment" || e.data != "heartbeat" {
		t.Fatalf("%+v", e)
	}
	s.set("k1", "a", "other", "b", "k2", "c", "other", "d")
	e := next()
	for e.kind == "comment" {
		e = next()
	}
	frames, _ := lines(t, e.data)
	if e.kind != "" || e.id != g+":4" || len(frames) != 2 || words(frames[0]) != "SET k1 a" || words(frames[1]) != "SET k2 c" || frames[1].Last != 3 {
		t.Fatalf("%+v", e)
	}
	// What the filter leaves out moves the cursor.
	s.set("other", "x")
	for e = next(); e.kind == "comment"; e = next() {
	}
	if e.kind != "position" || e.id != g+":5" {
		t.Fatalf("%+v", e)
	}
	// Last-Event-ID counts more than the query, as a browser repeats that.
	again := s.open("generation="+g+"&offset=5", append(sse, "Last-Event-ID", g+":0")...)
	defer again.Body.Close()
	if e = events(t, again.Body)(); e.id != g+":4" || strings.Count(e.data, "\n") != 3 {
		t.Fatalf("%+v", e)
	}
	// FLUSHALL ends a generation, and SWAPDB what can be followed.
	s.commit(0, func(tx *shard.Tx) { tx.FlushAll() })
	for e = next(); e.kind == "comment"; e = next() {
	}
	if e.id != g+":6" || !strings.Contains(e.data, "FLUSHALL") {
		t.Fatalf("%+v", e)
	}
	second := strconv.FormatUint(s.Feed().Tail(4).Generation, 10)
	for e = next(); e.kind == "comment"; e = next() {
	}
	if e.kind != "position" || e.id != second+":0" {
		t.Fatalf("%+v", e)
	}
	s.commit(0, func(tx *shard.Tx) { tx.SwapDB(0, 1) })
	for e = next(); e.kind == "comment"; e = next() {
	}
	if e.kind != "end" || e.id != "" || !strings.Contains(e.data, `"event":"end","error":"FEEDRESYNC `+second+` 1 `) || !strings.Contains(e.data, `"reason":"swapdb"`) {
		t.Fatalf("%+v", e)
	}
	if e = next(); e.kind != "EOF" {
		t.Fatalf("%+v", e)
	}
}

// TestFollowEqualsSince lets readers follow random commits with random filters
// from random cursors: each gets what SINCE answers.
func TestFollowEqualsSince(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("KEVY_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := serve(t, nil)
	const commits = 1500
	write := func(n int) {
		for range n {
			s.commit(rng.IntN(3), func(tx *shard.Tx) {
				for range 1 + rng.IntN(4) {
					value := make([]byte, rng.IntN(30))
					if rng.IntN(100) == 0 {
						value = make([]byte, 20_000)
					}
					for i := range value {
						value[i] = byte(rng.Uint32())
					}
					tx.Set(fmt.Appendf(nil, "%c%d", 'a'+rng.IntN(4), rng.IntN(100)), value, 0)
				}
			})
		}
	}
	write(commits / 2)
	type reader struct {
		query  string
		body   io.ReadCloser
		events bool
		req    feed.Request
	}
	var readers []reader
	for i := range 12 {
		r := reader{events: i%2 == 0, req: feed.Request{Stream: rng.IntN(5), Filter: &feed.Filter{DB: rng.IntN(3)}, Count: feed.MaxCount}}
		r.req.Cursor = feed.Cursor{Generation: s.Feed().Tail(r.req.Stream).Generation, Offset: rng.Uint64N(300)}
		values := url.Values{"stream": {s.Feed().StreamName(r.req.Stream)}, "follow": {"yes"}, "heartbeat": {"100"}, "count": {strconv.Itoa(1 + rng.IntN(50))},
			"generation": {strconv.FormatUint(r.req.Cursor.Generation, 10)}, "offset": {strconv.FormatUint(r.req.Cursor.Offset, 10)}, "db": {strconv.Itoa(r.req.Filter.DB)}}
		if rng.IntN(3) == 0 {
			r.req.Filter.AllDBs = true
			values.Set("db", "*")
		}
		for range rng.IntN(3) {
			p := string(rune('a' + rng.IntN(4)))
			_ = r.req.Filter.AddPrefix([]byte(p))
			values.Add("prefix", p)
		}
		header := []string{"Accept", "application/x-ndjson"}
		if r.events {
			header[1] = "text/event-stream"
		}
		r.query = values.Encode()
		response := s.open(r.query, header...)
		if response.StatusCode != 200 {
			t.Fatalf("%s: %s", r.query, response.Status)
		}
		r.body = response.Body
		defer r.body.Close()
		readers = append(readers, r)
	}
	write(commits / 2)
	for _, r := range readers {
		// What SINCE says, up to the end.
		var want []changejson.Frame
		var b feed.Batch
		for at := r.req.Cursor; ; at = r.req.Cursor {
			if err := s.Feed().Since(t.Context(), &r.req, &b); err != nil {
				t.Fatal(err)
			}
			_ = b.Each(func(f *feed.Frame) error {
				want = append(want, changejson.Frame{Offset: f.Offset, LSN: f.LSN, DB: f.DB, First: f.First, Last: f.Last})
				return nil
			})
			if r.req.Cursor = (feed.Cursor{Generation: b.Generation, Offset: b.Next}); b.Len() == 0 && r.req.Cursor == at {
				break
			}
		}
		b.Release()
		var got []changejson.Frame
		position := uint64(0)
		take := func(text string) {
			frames, last := lines(t, text)
			for _, f := range frames {
				got = append(got, changejson.Frame{Offset: f.Offset, LSN: f.LSN, DB: f.DB, First: f.First, Last: f.Last})
				// A line is a frame, an event is a commit.
				if position = f.Offset + 1; r.events {
					position = f.Last + 1
				}
			}
			if last != nil {
				position = uint64(last["offset"].(float64))
			}
		}
		next := events(t, r.body)
		scan := bufio.NewScanner(r.body)
		scan.Buffer(nil, 1<<20)
		for position < r.req.Cursor.Offset {
			if r.events {
				e := next()
				if e.kind == "comment" {
					continue
				}
				take(e.data)
				if e.data != "" && e.id != fmt.Sprintf("%d:%d", r.req.Cursor.Generation, position) {
					t.Fatalf("%s: the id is %s behind %d", r.query, e.id, position)
				}
			} else if scan.Scan() {
				take(scan.Text())
			} else {
				t.Fatalf("%s: the end, at %d of %d: %v", r.query, position, r.req.Cursor.Offset, scan.Err())
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %d frames, SINCE has %d", r.query, len(got), len(want))
		}
	}
}

// TestLargeCommit is larger than what is copied at once.
func TestLargeCommit(t *testing.T) {
	const keys = 6
	s := serve(t, nil)
	value := strings.Repeat("v", 1<<20)
	s.set("first", "x")
	s.commit(0, func(tx *shard.Tx) {
		for i := range keys {
			tx.Set(fmt.Appendf(nil, "k%d", i), []byte(value), 0)
		}
	})
	s.set("last", "x")
	at := s.Feed().Tail(4)
	_, body := s.get(fmt.Sprintf("generation=%d&offset=1&bytes=1", at.Generation))
	frames, last := lines(t, body)
	if len(frames) != keys || frames[keys-1].Last != keys || last["offset"] != keys+1.0 {
		t.Errorf("%d frames, then %v", len(frames), last)
	}
	r := s.open(fmt.Sprintf("generation=%d&offset=0", at.Generation), "Accept", "text/event-stream")
	defer r.Body.Close()
	next := events(t, r.Body)
	for i, want := range []int{1, keys, 1} {
		e := next()
		for e.kind == "comment" { // what is large may take longer than a heartbeat
			e = next()
		}
		if frames, _ := lines(t, e.data); len(frames) != want || e.id != fmt.Sprintf("%d:%d", at.Generation, []int{1, keys + 1, keys + 2}[i]) {
			t.Errorf("event %d: %d frames, id %s", i, len(frames), e.id)
		}
	}
}
