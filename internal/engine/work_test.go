package engine

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"kevy/aof"
	"kevy/internal/vfs"
	"kevy/shard"
)

// TestTellsWork: who asks is told of each kind of work that the engine does beside the
// commands, and of an fsync only where replies wait for it.
func TestTellsWork(t *testing.T) {
	for _, policy := range []aof.Policy{aof.PolicyAlways, aof.PolicyEverySec} {
		t.Run(policy.String(), func(t *testing.T) {
			opt := small(vfs.NewMem())
			opt.Fsync = policy
			e := mustOpen(t, opt)
			var mu sync.Mutex
			var told []string
			e.TellWork(func(event string, took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				if took < 0 {
					t.Errorf("%s took %v", event, took)
				}
				if !slices.Contains(told, event) {
					told = append(told, event)
				}
			})
			commit(t, e, func(tx *shard.Tx) {
				for i := range 100 {
					tx.Set(strconv.AppendInt(nil, int64(i), 10), make([]byte, 100), 0)
				}
			})
			e.SetMaxMemory(MaxMemory{Bytes: e.CountedBytes() / 2, Evict: true, By: shard.EvictByIdle, Tenacity: 100})
			if !e.MakeRoom() {
				t.Fatal("no room was made")
			}
			want := []string{"aof-write", "eviction-cycle", "expire-cycle"}
			if policy == aof.PolicyAlways {
				want = append([]string{"aof-fsync-always"}, want...)
			}
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
				mu.Lock()
				slices.Sort(told)
				same := slices.Equal(told, want)
				mu.Unlock()
				if same {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("told of %q, want %q", told, want)
				}
			}
		})
	}
}
