package persist

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

func someHolds() Holds {
	return Holds{DurableLSN: 7, Holds: []Hold{
		{Name: "a", Stream: 0, Generation: 1 << 40, Offset: 3, LSN: 5, CRC: 0xab, Epoch: 2, MovedMs: 1_700_000_000_000},
		{Name: "a", Stream: 4, Generation: 1<<40 + 4, Offset: 9, LSN: 8, Epoch: 2, MovedMs: 1, Broken: BrokenSize},
		{Name: "search:eu/1", Stream: 4, Generation: 1<<40 + 4, LSN: 1, Broken: BrokenLost},
	}}
}

// The texts are on disk: they must not change.
func TestHoldsOnDisk(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	if h, err := ReadHolds(fs, "data", 4); err != nil || len(h.Holds) != 0 {
		t.Fatal(h, err)
	}
	want := someHolds()
	if err := WriteHolds(fs, "data", 4, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadHolds(fs, "data", 4)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v %v", got, err)
	}
	data, err := readFactFile(fs, HoldsFile("data"))
	if err != nil {
		t.Fatal(err)
	}
	const text = `kevy-feed-holds 1
durable-lsn 7
hold a 0 1099511627776 3 5 000000ab 2 1700000000000 holding
hold a all 1099511627780 9 8 00000000 2 1 max-bytes
hold search:eu/1 all 1099511627780 0 1 00000000 0 0 lost
crc32c d453d58a
`
	if string(data) != text {
		t.Fatalf("%s", data)
	}
	// What is damaged in any byte is told from what was written.
	for i := range data {
		bad := append([]byte(nil), data...)
		bad[i] ^= 1
		if _, err := parseHolds("feed-holds", bad, 4); err == nil {
			t.Fatalf("byte %d may be %q", i, bad[i])
		}
	}
	for i := range data {
		if _, err := parseHolds("feed-holds", data[:i], 4); err == nil {
			t.Fatalf("it may end after %d bytes", i)
		}
	}
}

func TestHoldsAreChecked(t *testing.T) {
	for what, change := range map[string]func(h *Holds){
		"a blank in a name":  func(h *Holds) { h.Holds[0].Name = "a b" },
		"no name":            func(h *Holds) { h.Holds[0].Name = "" },
		"a long name":        func(h *Holds) { h.Holds[0].Name = strings.Repeat("n", MaxHoldNameBytes+1) },
		"a stream too many":  func(h *Holds) { h.Holds[0].Stream = 5 },
		"LSN 0":              func(h *Holds) { h.Holds[0].LSN = 0 },
		"a large generation": func(h *Holds) { h.Holds[0].Generation = MaxGeneration + 1 },
		"twice":              func(h *Holds) { h.Holds[0].Stream = 4 },
		"two epochs":         func(h *Holds) { h.Holds[0].Epoch = 3 },
		"an epoch too high":  func(h *Holds) { h.Holds[2].Epoch = MaxEpoch + 1 },
		"no reason":          func(h *Holds) { h.Holds[1].Broken = "why not" },
		"a time before 1970": func(h *Holds) { h.Holds[1].MovedMs = -1 },
		"more than there may be": func(h *Holds) {
			for i := range MaxHolds {
				h.Holds = append(h.Holds, Hold{Name: fmt.Sprint("n", i), Stream: 1, LSN: 1})
			}
		},
	} {
		fs := vfs.NewMem()
		if err := fs.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		h := someHolds()
		change(&h)
		var bad *FileError
		if err := WriteHolds(fs, "data", 4, h); !errors.As(err, &bad) {
			t.Errorf("%s: %v", what, err)
		}
		if infos, _ := fs.List("data"); len(infos) != 0 {
			t.Errorf("%s: it was written", what)
		}
	}
	if _, err := parseHolds("feed-holds", []byte("kevy-feed-holds 2\nsomething\ncrc32c 00000000\n"), 4); !errors.As(err, new(*FormatError)) {
		t.Errorf("a newer format: %v", err)
	}
}

// The largest file that may be written can be read.
func TestMostHolds(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	h := Holds{DurableLSN: 1<<64 - 1}
	for i := range MaxHolds {
		h.Holds = append(h.Holds, Hold{
			Name: fmt.Sprintf("%0*d", MaxHoldNameBytes, i), Stream: 16383, Generation: MaxGeneration, Offset: 1<<64 - 1, LSN: 1<<64 - 1, CRC: 1<<32 - 1,
			Epoch: MaxEpoch, MovedMs: 1<<63 - 1, Broken: BrokenGeneration,
		})
	}
	if err := WriteHolds(fs, "data", 16384, h); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadHolds(fs, "data", 16384); err != nil || !reflect.DeepEqual(got, h) {
		t.Fatal(err)
	}
}

// A crash at any step of a write leaves the old file or the new one, and once the
// write has returned the new one.
func TestHoldsOverCrashes(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("KEVY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	read := func(fs *vfs.Mem) uint64 {
		h, err := ReadHolds(fs, "data", 4)
		if err != nil {
			t.Fatal(err)
		}
		return h.DurableLSN
	}
	crashes := 0
	for step := range 200 {
		fs := vfs.NewMem()
		if err := fs.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		h := someHolds()
		written := uint64(0)
		dies := fs.Steps() + step%60
		fs.DieAfter(step%60, rng.IntN(200))
		for h.DurableLSN = 1; h.DurableLSN < 12; h.DurableLSN++ {
			if err := WriteHolds(fs, "data", 4, h); err != nil {
				break
			}
			written = h.DurableLSN
		}
		if written == 11 {
			continue
		}
		crashes++
		if got := read(fs.PowerCut(rng)); got != written && got != written+1 {
			t.Fatalf("after a power cut at step %d the file is that of write %d, and write %d had returned", dies, got, written)
		}
	}
	if crashes < 100 {
		t.Fatalf("only %d crashes", crashes)
	}
}
