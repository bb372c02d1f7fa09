package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kevy/internal/vfs"
)

func spoolSeed(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KEVY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("KEVY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func newSpool(t *testing.T, opt SpoolOptions) *Spool {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = "data/feed"
	}
	s, err := CreateSpool(opt, "name")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// randomParts returns parts in shard order; some shards have none.
func randomParts(rng *rand.Rand, shards int) []SpoolPart {
	var parts []SpoolPart
	for shard := range shards {
		if rng.IntN(3) == 0 {
			continue
		}
		for i := range rng.IntN(300) {
			size := rng.IntN(3000)
			switch rng.IntN(100) {
			case 0:
				size = spoolWriteBytes + rng.IntN(100)
			case 1:
				size = maxSpoolKeptBytes + rng.IntN(100)
			}
			p := SpoolPart{N: uint64(i + 1), Shard: shard, DB: rng.IntN(3), Ops: 1 + rng.IntN(5), Payload: make([]byte, size)}
			for j := range p.Payload {
				p.Payload[j] = byte(rng.Uint32())
			}
			parts = append(parts, p)
		}
	}
	return parts
}

// partsOf returns what a reader of a shard is to get behind the first after.
func partsOf(parts []SpoolPart, shard int, after uint64) (want []SpoolPart) {
	for _, p := range parts {
		if shard == AllShards || p.Shard == shard {
			p.N = uint64(len(want) + 1)
			want = append(want, p)
		}
	}
	return want[after:]
}

func sameParts(r *SpoolReader, want []SpoolPart) error {
	for i := 0; ; i++ {
		p, err := r.Next(context.Background())
		switch {
		case err != nil:
			return err
		case p == nil && i == len(want):
			return nil
		case p == nil:
			return fmt.Errorf("%d parts of %d", i, len(want))
		case i == len(want):
			return fmt.Errorf("part %d where there is none", p.N)
		}
		w := &want[i]
		if p.N != w.N || p.Shard != w.Shard || p.DB != w.DB || p.Ops != w.Ops || !bytes.Equal(p.Payload, w.Payload) {
			return fmt.Errorf("part %d of shard %d has %d ops of database %d in %d bytes, want part %d of shard %d, %d, %d, %d",
				p.N, p.Shard, p.Ops, p.DB, len(p.Payload), w.N, w.Shard, w.Ops, w.DB, len(w.Payload))
		}
	}
}

// TestSpoolReaders reads a spool from every place while it is written, and
// afterwards.
func TestSpoolReaders(t *testing.T) {
	rng := spoolSeed(t)
	for range 8 {
		const shards = 6
		parts := randomParts(rng, shards)
		mem := vfs.NewMem()
		s := newSpool(t, SpoolOptions{FS: mem})
		var readers sync.WaitGroup
		start := func(shard int) {
			want := partsOf(parts, shard, 0)
			after := uint64(rng.IntN(len(want) + 1))
			readers.Go(func() {
				if err := sameParts(s.NewReader(shard, after), want[after:]); err != nil {
					t.Errorf("shard %d behind %d of %d: %v", shard, after, len(want), err)
				}
			})
		}
		for shard := AllShards; shard < shards; shard++ {
			start(shard)
		}
		for _, p := range parts {
			payload := bytes.Clone(p.Payload)
			if err := s.Add(p.Shard, p.DB, p.Ops, payload); err != nil {
				t.Fatal(err)
			}
			clear(payload) // it is the caller's again
		}
		if err := s.End(); err != nil {
			t.Fatal(err)
		}
		for shard := AllShards; shard < shards; shard++ {
			start(shard)
			start(shard)
			n := uint64(len(partsOf(parts, shard, 0)))
			if got := s.Parts(shard); got != n {
				t.Errorf("shard %d has %d parts of %d", shard, got, n)
			}
			for _, after := range []uint64{n + 1, n + 64, n + 65, 1<<64 - 1} {
				if p, err := s.NewReader(shard, after).Next(context.Background()); !errors.Is(err, ErrNoPart) {
					t.Errorf("behind part %d of %d: a part %v, and error %v", after, n, p != nil, err)
				}
			}
		}
		readers.Wait()
		if err := s.Close(errors.New("over")); err != nil {
			t.Fatal(err)
		}
		if infos, err := mem.List("data/feed"); err != nil || len(infos) > 0 || len(mem.OpenFiles()) > 0 {
			t.Fatalf("after Close there are %v, open are %v: %v", infos, mem.OpenFiles(), err)
		}
	}
}

// TestSpoolPeek sees each part twice.
func TestSpoolPeek(t *testing.T) {
	s := newSpool(t, SpoolOptions{FS: vfs.NewMem()})
	ctx, cancel := context.WithCancel(context.Background())
	r := s.NewReader(AllShards, 0)
	cancel()
	if p, err := r.Peek(ctx); p != nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("of an empty spool: %v %v", p, err)
	}
	for i := range 3 {
		if err := s.Add(0, i, 1, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for range 2 {
			if p, err := r.Peek(ctx); err != nil || p.DB != i || string(p.Payload) != "x" {
				t.Fatalf("part %d: %v %v", i, p, err)
			}
		}
		if p, err := r.Next(ctx); err != nil || p.DB != i {
			t.Fatalf("part %d: %v %v", i, p, err)
		}
	}
	if p, err := r.Peek(ctx); p != nil || err != nil {
		t.Fatalf("behind the last: %v %v", p, err)
	}
	if err := s.Close(nil); err != nil {
		t.Fatal(err)
	}
}

// TestSpoolChecksWhatItReads flips each byte of a small spool in turn.
func TestSpoolChecksWhatItReads(t *testing.T) {
	mem := vfs.NewMem()
	s := newSpool(t, SpoolOptions{FS: mem})
	want := []SpoolPart{{N: 1, Ops: 1, Payload: []byte("first")}, {N: 2, Shard: 1, DB: 2, Ops: 3, Payload: []byte("second")}}
	for _, p := range want {
		if err := s.Add(p.Shard, p.DB, p.Ops, p.Payload); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if err := sameParts(s.NewReader(AllShards, 0), want); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, s.Bytes())
	if _, err := s.file.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	head := bytes.IndexByte(data, '\n') + 1
	for i := head; i < len(data); i++ {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		if err := s.file.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.file.Write(bad); err != nil {
			t.Fatal(err)
		}
		if err := sameParts(s.NewReader(AllShards, 0), want); err == nil || !strings.Contains(err.Error(), "is not what was written") {
			t.Fatalf("with byte %d of %d changed: %v", i, len(data), err)
		}
	}
	if err := s.file.Truncate(int64(head)); err != nil {
		t.Fatal(err)
	}
	if err := sameParts(s.NewReader(AllShards, 0), want); err == nil {
		t.Fatal("a spool that lost its end was read")
	}
	if err := s.Close(nil); err != nil {
		t.Fatal(err)
	}
}

// TestSpoolFormat pins what is in the file.
func TestSpoolFormat(t *testing.T) {
	mem := vfs.NewMem()
	s := newSpool(t, SpoolOptions{FS: mem})
	s.random = 0x01020304
	s.buf = []byte("#kevy-spool 1 01020304\r\n")
	if err := s.Add(3, 1, 1, []byte("*1\r\n$8\r\nFLUSHALL\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, s.Bytes())
	if _, err := s.file.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	const want = "#kevy-spool 1 01020304\r\n#kevy-part 1 3 1 1 18 19954834\r\n*1\r\n$8\r\nFLUSHALL\r\n"
	if string(data) != want {
		t.Errorf("the file holds %q, want %q", data, want)
	}
	if err := s.Close(nil); err != nil {
		t.Fatal(err)
	}
}

// fill adds parts until that fails.
func fill(s *Spool) error {
	payload := make([]byte, 10_000)
	for {
		if err := s.Add(0, 0, 1, payload); err != nil {
			return err
		}
	}
}

func TestSpoolLeavesRoom(t *testing.T) {
	mem := vfs.NewMem()
	s := newSpool(t, SpoolOptions{FS: mem, MaxBytes: 1 << 20})
	if err := fill(s); !errors.Is(err, ErrSpoolFull) || mem.Used() > 2<<20 {
		t.Errorf("beyond its own limit: %v, with %d bytes", err, mem.Used())
	}
	if err := s.Close(nil); err != nil || mem.Used() != 0 {
		t.Errorf("%v, and %d bytes stay", err, mem.Used())
	}

	mem.SetQuota(SpoolReserveBytes + 2<<20)
	s = newSpool(t, SpoolOptions{FS: mem})
	if err := fill(s); !errors.Is(err, ErrSpoolFull) || mem.Used() > 2<<20 || mem.Used() < 1<<20 {
		t.Errorf("on a disk that fills: %v, with %d bytes", err, mem.Used())
	}
	if err := s.Close(nil); err != nil || mem.Used() != 0 {
		t.Errorf("%v, and %d bytes stay", err, mem.Used())
	}
	mem.SetQuota(SpoolReserveBytes - 1)
	if _, err := CreateSpool(SpoolOptions{FS: mem, Dir: "data/feed"}, "x"); !errors.Is(err, ErrSpoolFull) {
		t.Errorf("on a full disk: %v", err)
	}
	if infos, err := mem.List("data/feed"); err != nil || len(infos) != 0 {
		t.Errorf("there are %v %v", infos, err)
	}
}

func TestSpoolFaults(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync, vfs.OpCreate} {
		mem := vfs.NewMem()
		mem.Inject(vfs.Fault{Op: op, Glob: "*.spool", Err: syscall.ENOSPC, Bytes: 5})
		s, err := CreateSpool(SpoolOptions{FS: mem, Dir: "data/feed"}, "x")
		if op == vfs.OpCreate {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%v: %v", op, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := fill(s); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v: %v", op, err)
		}
		over := errors.New("over")
		if err := s.Close(over); err != nil {
			t.Error(err)
		}
		if _, err := s.NewReader(AllShards, 0).Next(context.Background()); err != over {
			t.Errorf("a reader of a closed spool gets %v", err)
		}
		if err := fill(s); err != over {
			t.Errorf("who fills a closed spool gets %v", err)
		}
	}
	mem := vfs.NewMem()
	s := newSpool(t, SpoolOptions{FS: mem})
	if err := s.Add(0, 0, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	mem.Inject(vfs.Fault{Op: vfs.OpRead})
	if _, err := s.NewReader(AllShards, 0).Next(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Errorf("a read that fails: %v", err)
	}
	if err := s.Close(nil); err != nil {
		t.Fatal(err)
	}
}

// TestSpoolName says when the file has a name.
func TestSpoolName(t *testing.T) {
	mem := vfs.NewMem()
	s := newSpool(t, SpoolOptions{FS: mem})
	hidden := newSpool(t, SpoolOptions{FS: mem, Dir: "tmp", Unnamed: true})
	for dir, want := range map[string]int{"data/feed": 1, "tmp": 0} {
		if infos, err := mem.List(dir); err != nil || len(infos) != want {
			t.Errorf("in %s there are %v %v", dir, infos, err)
		}
	}
	if err := hidden.Add(0, 0, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := hidden.End(); err != nil {
		t.Fatal(err)
	}
	if p, err := hidden.NewReader(AllShards, 0).Next(context.Background()); err != nil || string(p.Payload) != "x" {
		t.Errorf("without a name: %v %v", p, err)
	}
	if err := hidden.Close(nil); err != nil {
		t.Error(err)
	}
	_ = s.file.Close() // as a crash would
	other, err := mem.Create("data/feed/1.aof")
	if err != nil {
		t.Fatal(err)
	}
	_ = other.Close()
	if removed, err := RemoveSpools(mem, "data/feed"); err != nil || len(removed) != 1 || removed[0] != "data/feed/name.spool" {
		t.Errorf("removed were %v %v", removed, err)
	}
	if infos, err := mem.List("data/feed"); err != nil || len(infos) != 1 {
		t.Errorf("there are %v %v", infos, err)
	}
	if removed, err := RemoveSpools(mem, "nosuch"); err != nil || len(removed) != 0 {
		t.Errorf("of no directory: %v %v", removed, err)
	}
}
