package changes_test

import (
	"fmt"
	"iter"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kevy/changes"
)

func bytesOf(texts ...string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, t := range texts {
			if !yield([]byte(t)) {
				return
			}
		}
	}
}

const deadlineMs = 33177117420000

// publishedKeys are the keys of the table in docs/feed.md.
func publishedKeys() []changes.KeyDigest {
	return []changes.KeyDigest{
		changes.StringDigest([]byte("greeting"), []byte("hello"), 0),
		changes.StringDigest([]byte("greeting"), []byte("hello"), deadlineMs),
		changes.ListDigest([]byte("list"), bytesOf("a", "b", ""), 0),
		changes.SetDigest([]byte("set"), bytesOf("b", "a"), 0),
		changes.SortedSetDigest([]byte("zset"), func(yield func([]byte, float64) bool) {
			_ = yield([]byte("c"), math.Inf(1)) && yield([]byte("a"), math.Copysign(0, -1)) && yield([]byte("b"), 1.5)
		}, 0),
		changes.HashDigest([]byte("hash"), slices.Values([]changes.HashField{
			{Name: []byte("g"), Value: []byte("w"), ExpireMs: deadlineMs}, {Name: []byte("f"), Value: []byte("v")},
		}), 0),
		changes.StreamDigest([]byte("stream"), &changes.Stream{
			LastID: changes.StreamID{Ms: 5, Seq: 1}, EntriesAdded: 1,
			Groups:  []changes.StreamGroup{{Name: "g", LastID: changes.StreamID{Ms: 5, Seq: 1}, EntriesRead: 1}},
			Entries: slices.Values([]changes.StreamEntry{{ID: changes.StreamID{Ms: 5, Seq: 1}, Fields: [][]byte{[]byte("f"), []byte("v")}}}),
		}, 0),
	}
}

// A mirror that keeps its digest up to date: for each frame it takes back what
// the key was, and adds what it is.
func ExampleDigest() {
	values := map[string]string{}
	var digest changes.Digest
	set := func(key, value string) { // SET key value
		if old, ok := values[key]; ok {
			digest.Remove(changes.StringDigest([]byte(key), []byte(old), 0))
		}
		values[key] = value
		digest.Add(changes.StringDigest([]byte(key), []byte(value), 0))
	}
	set("greeting", "hi")
	set("greeting", "hello")
	// What CHANGES DIGEST answers at the cursor at which the mirror stands:
	const keys, answer = 1, "35fde448155c5bbd064230b0ff18afefad43b13ec64295fcea075221bda8a60e"
	fmt.Println(digest.Keys() == keys && digest.String() == answer)
	// Output:
	// true
}

// TestPublishedDigests holds the table of docs/feed.md to what is computed.
func TestPublishedDigests(t *testing.T) {
	page, err := os.ReadFile("../docs/feed.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (.*) \\| `(.{64})` \\|$").FindAllStringSubmatch(string(page), -1)
	keys := publishedKeys()
	if len(rows) != len(keys)+1 {
		t.Fatalf("docs/feed.md has %d digests of %d", len(rows), len(keys)+1)
	}
	var all changes.Digest
	for i, k := range keys {
		var d changes.Digest
		if d.Add(k); d.String() != rows[i][2] {
			t.Errorf("%s: %s", rows[i][1], &d)
		}
		all.Add(k)
	}
	all.Remove(keys[0])
	if all.String() != rows[len(keys)][2] || all.Keys() != uint64(len(keys)-1) {
		t.Errorf("%s: %s, %d keys", rows[len(keys)][1], &all, all.Keys())
	}
	for _, k := range keys[1:] {
		all.Remove(k)
	}
	if all.String() != strings.Repeat("0", 64) || all.Keys() != 0 {
		t.Errorf("of nothing: %s, %d keys", &all, all.Keys())
	}
}

// TestDigestTellsApart: nothing but what is kept where order does not count is
// the same.
func TestDigestTellsApart(t *testing.T) {
	k := []byte("k")
	stream := func(change func(s *changes.Stream)) changes.KeyDigest {
		s := &changes.Stream{
			LastID: changes.StreamID{Ms: 2}, EntriesAdded: 2,
			Groups: []changes.StreamGroup{
				{
					Name: "a", Consumers: []string{"x", "y"},
					Pending: []changes.StreamPending{{ID: changes.StreamID{Ms: 1}, Consumer: "x", DeliveredMs: 1, Deliveries: 1}, {ID: changes.StreamID{Ms: 2}, Consumer: "y"}},
				},
				{Name: "b", EntriesRead: -1},
			},
			Entries: slices.Values([]changes.StreamEntry{
				{ID: changes.StreamID{Ms: 1}, Fields: [][]byte{k, k}}, {ID: changes.StreamID{Ms: 2}, Fields: [][]byte{k, k, k, k}},
			}),
		}
		change(s)
		return changes.StreamDigest(k, s, 0)
	}
	seen := map[changes.KeyDigest]int{}
	different := []changes.KeyDigest{
		changes.StringDigest(k, nil, 0), changes.StringDigest(k, k, 0), changes.StringDigest(k, k, 1), changes.StringDigest([]byte("kk"), nil, 0),
		changes.ListDigest(k, bytesOf("k"), 0), changes.ListDigest(k, bytesOf("k", ""), 0), changes.ListDigest(k, bytesOf("", "k"), 0), changes.ListDigest(k, bytesOf("k"), 1),
		changes.SetDigest(k, bytesOf("k"), 0), changes.SetDigest(k, bytesOf("k", ""), 0), changes.SetDigest(k, bytesOf("ab", "c"), 0), changes.SetDigest(k, bytesOf("a", "bc"), 0),
		changes.HashDigest(k, slices.Values([]changes.HashField{{Name: k, Value: k}}), 0), changes.HashDigest(k, slices.Values([]changes.HashField{{Name: k, Value: k, ExpireMs: 1}}), 0),
		changes.SortedSetDigest(k, func(yield func([]byte, float64) bool) { yield(k, 0) }, 0), changes.SortedSetDigest(k, func(yield func([]byte, float64) bool) { yield(k, 1) }, 0),
		stream(func(*changes.Stream) {}),
		stream(func(s *changes.Stream) { s.LastID.Seq++ }),
		stream(func(s *changes.Stream) { s.MaxDeletedID.Seq++ }),
		stream(func(s *changes.Stream) { s.EntriesAdded++ }),
		stream(func(s *changes.Stream) { s.Entries = nil }),
		stream(func(s *changes.Stream) { s.Groups[0].Name = "c" }),
		stream(func(s *changes.Stream) { s.Groups[0].EntriesRead++ }),
		stream(func(s *changes.Stream) { s.Groups[0].LastID.Ms++ }),
		stream(func(s *changes.Stream) { s.Groups[0].Consumers = append(s.Groups[0].Consumers, "z") }),
		stream(func(s *changes.Stream) { s.Groups[0].Pending[0].Consumer = "y" }),
		stream(func(s *changes.Stream) { s.Groups[0].Pending[0].DeliveredMs++ }),
		stream(func(s *changes.Stream) { s.Groups[0].Pending[0].Deliveries++ }),
		stream(func(s *changes.Stream) { s.Groups = s.Groups[:1] }),
	}
	for i, d := range different {
		if j, ok := seen[d]; ok {
			t.Errorf("number %d is number %d", i, j)
		}
		seen[d] = i
	}
	reversed := stream(func(s *changes.Stream) {
		slices.Reverse(s.Groups)
		slices.Reverse(s.Groups[1].Consumers)
		slices.Reverse(s.Groups[1].Pending)
	})
	if reversed != stream(func(*changes.Stream) {}) {
		t.Error("the order of groups, consumers and pending entries matters")
	}
}
