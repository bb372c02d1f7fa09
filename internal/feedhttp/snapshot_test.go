package feedhttp

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strings"
	"testing"
)

// mirror is a copy of a store of strings, made of what comes over HTTP.
type mirror struct {
	t    testing.TB
	keys map[string]string
	// id is what the last event is called, kinds which kinds there were.
	id    string
	kinds map[string]int
}

// take applies an event: the state, or a commit.
func (m *mirror) take(e event) {
	m.t.Helper()
	m.kinds[e.kind]++
	if e.id != "" {
		m.id = e.id
	}
	if e.kind != "snapshot" && e.kind != "" {
		return
	}
	for line := range strings.Lines(e.data) {
		var l struct{ Args []string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			m.t.Fatalf("%q: %v", line, err)
		}
		switch l.Args[0] {
		case "SET":
			m.keys[l.Args[1]] = l.Args[2]
		case "DEL":
			delete(m.keys, l.Args[1])
		default:
			m.t.Fatalf("the op %q", l.Args)
		}
	}
}

// TestSnapshot begins with the state, is cut off in the middle of it several
// times, goes on by Last-Event-ID, and follows.
func TestSnapshot(t *testing.T) {
	s := serve(t, nil)
	want := map[string]string{}
	set := func(n int, value string) {
		key := fmt.Sprintf("k%d", n)
		want[key] = value
		s.set(key, value, "other:"+key, "x")
	}
	for i := range 3000 {
		set(i, strings.Repeat("v", 100+i%100))
	}
	m := &mirror{t: t, keys: map[string]string{}, kinds: map[string]int{}}
	header := func() []string {
		h := []string{"Accept", "text/event-stream"}
		if m.id != "" {
			h = append(h, "Last-Event-ID", m.id)
		}
		return h
	}
	const cuts = 4
	for cut := range cuts + 1 {
		r := s.open("start=snapshot&prefix=k&heartbeat=1000", header()...)
		if r.StatusCode != 200 {
			text, _ := io.ReadAll(r.Body)
			t.Fatalf("%s: %s", r.Status, text)
		}
		next := events(t, r.Body)
		if e := next(); e.kind != "snapshot-start" {
			t.Fatalf("%+v", e)
		}
		for range 2 {
			m.take(next())
		}
		set(cut, "written meanwhile")
		if cut == cuts {
			for m.kinds["snapshot-end"] == 0 || !maps.Equal(m.keys, want) {
				m.take(next())
				if m.kinds["EOF"] > 0 {
					t.Fatal("the answer ends")
				}
			}
		}
		_ = r.Body.Close()
	}
	// The frames follow from the cut: all that was written behind it came.
	if m.kinds["snapshot-end"] != 1 || m.kinds["snapshot"] < 2*cuts || m.kinds[""] < cuts {
		t.Errorf("the events %v", m.kinds)
	}
	s.set("k1", "while away")
	want["k1"] = "while away"
	r := s.open("start=snapshot&prefix=k", header()...)
	defer r.Body.Close()
	next := events(t, r.Body)
	for !maps.Equal(m.keys, want) {
		m.take(next())
	}
	if m.kinds["snapshot-end"] != 1 {
		t.Errorf("it begins anew: %v", m.kinds)
	}
}

func TestSnapshotLines(t *testing.T) {
	s := serve(t, nil)
	at := s.Feed().Tail(4)
	// Nothing is a state too.
	r := s.open("start=snapshot&follow")
	lines := make([]byte, 4096)
	text := ""
	for !strings.Contains(text, "snapshot-end") {
		n, err := r.Body.Read(lines)
		if text += string(lines[:n]); err != nil {
			t.Fatal(err, text)
		}
	}
	_ = r.Body.Close()
	if !strings.Contains(text, `"event":"snapshot-start","token":"`) || !strings.Contains(text, fmt.Sprintf(`"generation":%d,"offset":0}`, at.Generation)) {
		t.Errorf("%s", text)
	}
	s.set("a", "1", "b", "2")
	r = s.open("start=snapshot&follow=yes")
	text = ""
	for !strings.Contains(text, "snapshot-end") {
		n, err := r.Body.Read(lines)
		if text += string(lines[:n]); err != nil {
			t.Fatal(err, text)
		}
	}
	_ = r.Body.Close()
	if strings.Count(text, `,"db":0,"args":["SET",`) != 2 {
		t.Errorf("%s", text)
	}
	_, token, _ := strings.Cut(text, `"token":"`)
	token, _, _ = strings.Cut(token, `"`)
	// Behind all messages there is the end again; with other filters it is another one.
	q := url.Values{"start": {"snapshot"}, "follow": {"yes"}, "token": {token}, "after": {"2"}}
	r = s.open(q.Encode())
	text = ""
	for !strings.Contains(text, "snapshot-end") {
		n, err := r.Body.Read(lines)
		if text += string(lines[:n]); err != nil {
			t.Fatal(err, text)
		}
	}
	_ = r.Body.Close()
	if strings.Contains(text, "SET") {
		t.Errorf("%s", text)
	}
	q.Set("prefix", "a")
	if status, body := s.get(q.Encode()); status != 400 || !strings.Contains(body, "other key filters") {
		t.Errorf("%d %s", status, body)
	}
	q.Del("prefix")
	q.Set("after", "99")
	if r := s.open(q.Encode()); r.StatusCode == 200 {
		text, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(text), `"event":"end","error":"the snapshot has sent no message 99"`) {
			t.Errorf("%s", text)
		}
		_ = r.Body.Close()
	} else {
		_ = r.Body.Close()
		if r.StatusCode != 400 {
			t.Errorf("%s", r.Status)
		}
	}
}
