package feedhttp

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"kevy/feed"
	"kevy/internal/command"
	"kevy/internal/command/changes"
	"kevy/resp"
)

// Bounds of the parameter heartbeat, and what it is without one.
const (
	minHeartbeat     = 100 * time.Millisecond
	maxHeartbeat     = feed.MaxBlock
	defaultHeartbeat = 15 * time.Second
)

// query is what a request asks for.
type query struct {
	events bool // server-sent ones
	follow bool
	stream int
	at     feed.Cursor
	// snapshot says that the answer begins with the state rather than at a cursor.
	snapshot *snapshotStart
	options  *changes.Options
	// block is how long an answer that does not follow waits for a frame.
	block     time.Duration
	heartbeat time.Duration
}

// badRequest is an error of the caller.
type badRequest struct{ text string }

func (e *badRequest) Error() string { return e.text }

func bad(format string, a ...any) error { return &badRequest{fmt.Sprintf(format, a...)} }

// parse reads a request. The errors are *badRequest, and those of the feed.
func (s *Server) parse(r *http.Request) (*query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, bad("the query cannot be read: %s", err)
	}
	q := &query{events: wantsEvents(r.Header.Values("Accept")), heartbeat: defaultHeartbeat}
	q.follow = q.events
	name := "ALL"
	if err := errors.Join(one(values, "stream", &name), q.parseFollow(values)); err != nil {
		return nil, err
	}
	if q.stream, err = s.opt.Source.Stream([]byte(name)); err != nil {
		return nil, err
	}
	if q.at, q.snapshot, err = s.begin(q, r, values); err != nil {
		return nil, err
	}
	if q.snapshot != nil && !q.follow {
		return nil, bad("a snapshot is for an answer that follows: add follow=yes")
	}
	q.options, err = s.parseOptions(values)
	return q, err
}

// own are the parameters that are no options of SINCE.
var own = []string{"stream", "generation", "offset", "start", "token", "after", "follow", "block", "heartbeat"}

// one takes a parameter that may be there once.
func one(values url.Values, name string, to *string) error {
	switch v := values[name]; len(v) {
	case 0:
	case 1:
		*to = v[0]
	default:
		return bad("%s is given %d times", name, len(v))
	}
	return nil
}

func (q *query) parseFollow(values url.Values) error {
	var block, heartbeat string
	if err := errors.Join(flag(values, "follow", &q.follow), one(values, "block", &block), one(values, "heartbeat", &heartbeat)); err != nil {
		return err
	}
	switch {
	case q.events && !q.follow:
		return bad("server-sent events always follow")
	case q.follow && block != "":
		return bad("block is for an answer that ends: leave out follow, or block")
	case !q.follow && heartbeat != "":
		return bad("heartbeat is for an answer that does not end: add follow=yes")
	}
	if block != "" {
		ms, err := parseNumber("block", block)
		if err != nil {
			return err
		}
		q.block = feed.MaxBlock
		if ms > 0 && ms < uint64(feed.MaxBlock.Milliseconds()) {
			q.block = time.Duration(ms) * time.Millisecond
		}
	}
	if heartbeat != "" {
		ms, err := parseNumber("heartbeat", heartbeat)
		if err != nil {
			return err
		}
		q.heartbeat = max(minHeartbeat, time.Duration(min(ms, uint64(maxHeartbeat.Milliseconds())))*time.Millisecond)
	}
	return nil
}

// flag takes a parameter that is yes or no.
func flag(values url.Values, name string, to *bool) error {
	text := "no"
	if *to {
		text = "yes"
	}
	if err := one(values, name, &text); err != nil {
		return err
	}
	switch strings.ToLower(text) {
	case "", "yes", "true", "1":
		*to = true
	case "no", "false", "0":
		*to = false
	default:
		return bad("%s is yes or no, not %.100q", name, text)
	}
	return nil
}

// parseNumber reads a number that is not negative and that JavaScript holds.
func parseNumber(name, text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil {
		return 0, bad("%s is no number from 0 to 2^53: %.100q", name, text)
	}
	return n, nil
}

// begin returns what the answer begins with: behind the last event that a client
// got before it was cut off, or what the query says. That is a cursor or a
// snapshot.
func (s *Server) begin(q *query, r *http.Request, values url.Values) (at feed.Cursor, snap *snapshotStart, err error) {
	if id := r.Header.Get("Last-Event-ID"); q.events && id != "" {
		if snap, err = snapshotOfID(id); snap != nil || err != nil {
			return at, snap, err
		}
		generation, offset, ok := strings.Cut(id, ":")
		if !ok {
			return at, nil, bad("Last-Event-ID is generation:offset, not %.100q", id)
		}
		at, err = parseCursor(generation, offset)
		return at, nil, err
	}
	var generation, offset, start, token, after string
	err = errors.Join(one(values, "generation", &generation), one(values, "offset", &offset), one(values, "start", &start),
		one(values, "token", &token), one(values, "after", &after))
	start = strings.ToLower(start)
	switch {
	case err != nil:
	case (generation == "") != (offset == ""):
		err = bad("a cursor is generation and offset: both are needed")
	case generation != "" && start != "":
		err = bad("an answer begins at generation and offset, or at start: not both")
	case (token == "") != (after == "") || token != "" && start != "snapshot":
		err = bad("a snapshot is resumed with start=snapshot, token and after: all are needed")
	case generation != "":
		at, err = parseCursor(generation, offset)
	case start == "" || start == "tail":
		at = s.opt.Source.Tail(q.stream)
	case start == "oldest":
		at, err = s.opt.Source.Oldest(q.stream)
	case start == "snapshot":
		snap = &snapshotStart{token: token}
		if after != "" {
			snap.after, err = parseNumber("after", after)
		}
	default:
		err = bad("start is tail, oldest or snapshot, not %.100q", start)
	}
	return at, snap, err
}

func parseCursor(generation, offset string) (at feed.Cursor, err error) {
	g, err1 := parseNumber("generation", generation)
	o, err2 := parseNumber("offset", offset)
	return feed.Cursor{Generation: g, Offset: o}, errors.Join(err1, err2)
}

// parseOptions hands the options and filters of SINCE, as which they are spelt
// here, to the parser that SINCE has.
func (s *Server) parseOptions(values url.Values) (*changes.Options, error) {
	words := [][]byte{[]byte("META")} // each frame has all its facts
	add := func(w ...string) {
		for _, word := range w {
			words = append(words, []byte(word))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for i, v := range values[name] {
			switch name {
			case "count", "bytes", "db":
				var text string
				if err := one(values, name, &text); err != nil {
					return nil, err
				}
				if v != "*" || name != "db" {
					if _, err := parseNumber(name, v); err != nil {
						return nil, err
					}
				}
				add(name, v)
			case "durable", "bytemode":
				var on bool
				if err := flag(values, name, &on); err != nil {
					return nil, err
				}
				if on {
					add(name)
				}
			case "prefix", "match":
				add(name, v)
			case "regex":
				prefix := ""
				if prefixes := values["regex-prefix"]; len(prefixes) > 0 {
					if len(prefixes) != len(values["regex"]) {
						return nil, bad("there are %d of regex-prefix and %d of regex: give each regex its prefix, or none", len(prefixes), len(values["regex"]))
					}
					prefix = prefixes[i]
				}
				add("REGEX", prefix, v)
			case "regex-prefix":
				if len(values["regex"]) == 0 {
					return nil, bad("regex-prefix without regex")
				}
			case "value-exact", "value-prefix", "value-regex":
				add("VALUE", strings.TrimPrefix(name, "value-"), v)
			default:
				if !slices.Contains(own, name) {
					// A filter that is misspelt must not let everything pass.
					return nil, bad("there is no parameter %.100q", name)
				}
			}
		}
	}
	o := changes.NewOptions(0, s.opt.DBs)
	a := command.ArgsOf(words)
	if err := o.Parse(&a, nil); err != nil {
		return nil, bad("%s", textOf(err))
	}
	return o, nil
}

// textOf returns an error as a client reads it, without the code ERR.
func textOf(err *resp.Error) string {
	if err.Code == "" || err.Code == "ERR" {
		return err.Text
	}
	return err.Code + " " + err.Text
}

// wantsEvents reports whether one of the media types of Accept is that of
// server-sent events.
func wantsEvents(accept []string) bool {
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			media, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(media), "text/event-stream") {
				return true
			}
		}
	}
	return false
}

// namesThisMachine reports whether a Host header is an address, or localhost. A
// page of a foreign site can make a browser connect to this machine under a name
// of its own, and would read the answer as that of its site.
func namesThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil
}
