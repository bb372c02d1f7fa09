package changes_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"kevy/changes"
	"kevy/tests/inprocess"
	"kevy/tests/wire"
)

// BenchmarkFollow reads a history of small SETs from a server in this process:
// with a Reader, and with a Consumer.
func BenchmarkFollow(b *testing.B) {
	const frames = 1 << 20
	s := inprocess.Start(b, "--feed-backlog-bytes", "1gb", "--appendfsync", "no")
	c := s.Conn()
	generation := inprocess.Do(b, c, "CHANGES TAIL ALL").Strings()[0]
	for i := 0; i < frames; i += 1024 {
		var buf []byte
		for j := range 1024 {
			buf = wire.AppendStrings(buf, "SET", fmt.Sprint("key:", i+j), "value-16-bytes..")
		}
		if _, err := c.Write(buf); err != nil {
			b.Fatal(err)
		}
		for range 1024 {
			if _, err := c.ReadReply(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("reader", func(b *testing.B) {
		for b.Loop() {
			nc, err := net.Dial("tcp", s.Addr())
			if err != nil {
				b.Fatal(err)
			}
			hello := wire.AppendStrings(nil, "HELLO", "3")
			if _, err := nc.Write(wire.AppendStrings(hello, "CHANGES", "SUBSCRIBE", "ALL", generation, "0", "META", "COUNT", "65536")); err != nil {
				b.Fatal(err)
			}
			r := changes.NewReader(nc)
			for n := 0; n < frames; {
				m, err := r.Next()
				if err != nil {
					b.Fatal(err)
				}
				for i := range m.Commits {
					n += len(m.Commits[i].Frames)
				}
			}
			nc.Close()
		}
		b.ReportMetric(float64(frames*b.N)/b.Elapsed().Seconds(), "frames/s")
	})
	for _, poll := range []bool{false, true} {
		b.Run(fmt.Sprintf("consumer/poll=%v", poll), func(b *testing.B) {
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				n := 0
				c, err := changes.New(changes.Options{Addr: s.Addr(), Start: changes.Oldest, Poll: poll}, changes.HandlerFunc(func(_ context.Context, c *changes.Commit) error {
					if n += len(c.Frames); n == frames {
						cancel()
					}
					return nil
				}))
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Run(ctx); err != nil || n < frames {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(frames*b.N)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}
