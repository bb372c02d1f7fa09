package op

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pieces is an Input that gives no more than what is asked for, or a little more,
// and spoils what it gave before.
type pieces struct {
	payload string
	more    func() int64
	buf     []byte
	most    int64 // asked for
}

func (p *pieces) Size() int64 { return int64(len(p.payload)) }

func (p *pieces) Ahead(at, n int64) ([]byte, error) {
	p.most = max(p.most, n)
	clear(p.buf)
	n = min(n+p.more(), p.Size()-at)
	p.buf = append(p.buf[:0], p.payload[at:at+n]...)
	return p.buf, nil
}

// scanned lists what a scanner gives up to its end or its error.
func scanned(s *Scanner) (ops []string) {
	for {
		rest := s.Rest()
		f, err := s.Next()
		if err != nil {
			return append(ops, err.Error())
		}
		if f == nil {
			return append(ops, fmt.Sprint("end with ", s.Rest()))
		}
		ops = append(ops, fmt.Sprintf("%d %d %d %v %v %x %d", rest, f.DB, f.Cause, f.First, f.Last, crc32.ChecksumIEEE(f.Raw), len(f.Args)))
	}
}

// TestScannerOfInput: a payload in pieces is read as one in memory is, whole, cut
// short or damaged, and from any op on again.
func TestScannerOfInput(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("KEVY_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("KEVY_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 8))
	for range 50 {
		var pos LogPosition
		var payload []byte
		largest := 0
		for k := range 1 + rng.IntN(4) {
			var c Commit
			c.Bind(&pos)
			for range 1 + rng.IntN(5) {
				args := 1 + rng.IntN(3)
				if rng.IntN(4) == 0 {
					args += rng.IntN(500)
				}
				c.Begin(RPush, rng.IntN(3), 0, Cause(rng.IntN(3)), 2+args)
				c.Arg([]byte("k"))
				size := 0
				for range args {
					val := strings.Repeat("\r\n*1#"[rng.IntN(5):], rng.IntN(1+rng.IntN(400)))
					size += len(val) + 20
					c.Arg([]byte(val))
				}
				largest = max(largest, size+100)
				c.End()
			}
			payload = c.AppendTo(payload, k == 0)
		}
		for range 10 {
			text := string(payload)
			whole := rng.IntN(3) == 0
			if at := rng.IntN(len(text)); !whole {
				text = text[:at] + string("\r\n*$#9a"[rng.IntN(7)]) + text[at+rng.IntN(2):]
				text = text[:max(at, rng.IntN(len(text)+1))]
			}
			in := &pieces{payload: text, more: func() int64 { return int64(rng.IntN(1 + rng.IntN(3000))) }}
			var mem, s Scanner
			mem.Reset([]byte(text), 0)
			s.ResetInput(in, 0)
			back := rng.IntN(4)
			var copied Scanner
			for n := 0; n < back; n++ {
				_, err := mem.Next()
				if _, got := s.Next(); fmt.Sprint(got) != fmt.Sprint(err) {
					t.Fatalf("in pieces: %v, in memory: %v", got, err)
				}
			}
			copied = s
			want := scanned(&mem)
			for _, from := range []*Scanner{&s, &copied} {
				got := scanned(from)
				if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
					t.Fatalf("in pieces:\n%s\nin memory:\n%s", g, w)
				}
			}
			if whole && in.most > int64(largest)+lookBytes+64 {
				t.Fatalf("%d bytes were asked for, and the largest op has about %d", in.most, largest)
			}
		}
	}
}
