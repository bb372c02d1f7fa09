// Command search keeps an index of words over the hashes doc:…, and answers
// queries from it.
//
//	redis-cli hset doc:1 title "A red apple" body "It is sweet"
//	go run ./examples/search -addr 127.0.0.1:6379 red apple
//
// It begins with a snapshot and goes on with every change from exactly there. An
// index in memory has no cursor to store: each start takes a snapshot.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"unicode"

	"kevy/changes"
)

const prefix = "doc:"

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "host:port of the server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	x := newIndex()
	c, err := x.consumer(*addr)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		<-x.ready
		fmt.Println(x.search(strings.Join(flag.Args(), " ")))
		stop()
	}()
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// index finds documents by words.
type index struct {
	ready chan struct{} // closed when the first snapshot is complete

	mu    sync.RWMutex
	done  bool                           // ready is closed; guarded by mu
	docs  map[string]map[string]string   // fields of each document; guarded by mu
	words map[string]map[string]struct{} // documents of each word; guarded by mu
}

func newIndex() *index {
	return &index{ready: make(chan struct{}), docs: map[string]map[string]string{}, words: map[string]map[string]struct{}{}}
}

func (x *index) consumer(addr string) (*changes.Consumer, error) {
	return changes.New(changes.Options{
		Addr:     addr,
		Start:    changes.Snapshot,
		OnResync: changes.ResyncSnapshot,
		Filter:   changes.Filter{Prefixes: []string{prefix}},
	}, x)
}

// search returns the documents that hold every word of a query, sorted.
func (x *index) search(query string) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	found := map[string]int{}
	words := split(query)
	for w := range words {
		for doc := range x.words[w] {
			found[doc]++
		}
	}
	maps.DeleteFunc(found, func(_ string, n int) bool { return n < len(words) })
	return slices.Sorted(maps.Keys(found))
}

// split returns the words of a text, each once.
func split(text string) map[string]struct{} {
	words := map[string]struct{}{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		words[w] = struct{}{}
	}
	return words
}

// change changes a document: its old words go, its new ones come. mu is held.
func (x *index) change(doc string, edit func(fields map[string]string)) {
	fields := x.docs[doc]
	if fields == nil {
		fields = map[string]string{}
	}
	for _, text := range fields {
		for w := range split(text) {
			delete(x.words[w], doc)
			if len(x.words[w]) == 0 {
				delete(x.words, w)
			}
		}
	}
	edit(fields)
	if len(fields) == 0 {
		delete(x.docs, doc)
		return
	}
	x.docs[doc] = fields
	for _, text := range fields {
		for w := range split(text) {
			if x.words[w] == nil {
				x.words[w] = map[string]struct{}{}
			}
			x.words[w][doc] = struct{}{}
		}
	}
}

// apply does what an op says. mu is held.
func (x *index) apply(args [][]byte) error {
	op, err := changes.DecodeOp(args)
	if err != nil {
		return err
	}
	switch op := op.(type) {
	case changes.HSet:
		x.change(string(op.Key), func(fields map[string]string) {
			for _, f := range op.Fields {
				fields[string(f.Field)] = string(f.Value)
			}
		})
	case changes.HDel:
		x.change(string(op.Key), func(fields map[string]string) {
			for _, f := range op.Fields {
				delete(fields, string(f))
			}
		})
	case changes.Del: // expiry and eviction come as such too
		x.change(string(op.Key), func(fields map[string]string) { clear(fields) })
	case changes.Set: // it is no hash any more
		x.change(string(op.Key), func(fields map[string]string) { clear(fields) })
	case changes.FlushDB, changes.FlushAll:
		clear(x.docs)
		clear(x.words)
	}
	return nil
}

// Commit indexes a commit. Queries see all of it or nothing.
func (x *index) Commit(_ context.Context, c *changes.Commit) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range c.Frames {
		if err := x.apply(c.Frames[i].Args); err != nil {
			return err
		}
	}
	return nil
}

// SnapshotStart empties the index.
func (x *index) SnapshotStart(context.Context, string, string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.docs)
	clear(x.words)
	return nil
}

// SnapshotPart indexes a part of the state.
func (x *index) SnapshotPart(_ context.Context, p *changes.SnapshotPart) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, args := range p.Ops {
		if err := x.apply(args); err != nil {
			return err
		}
	}
	return nil
}

// SnapshotEnd says that the index is complete.
func (x *index) SnapshotEnd(context.Context, string, changes.Cursor) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.done {
		x.done = true
		close(x.ready)
	}
	return nil
}
