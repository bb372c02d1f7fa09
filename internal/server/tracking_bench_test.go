package server

import (
	"fmt"
	"io"
	"testing"

	"kevy/tests/wire"
)

// BenchmarkTracking is what tracking costs those who read and write, in pipelines of 64: while nobody tracks, while
// another one tracks other keys, or the same ones, or is told of all, and for one who tracks.
func BenchmarkTracking(b *testing.B) {
	const pipeline = 64
	for _, who := range []string{"nobody", "another", "same keys", "all keys", "itself"} {
		for _, name := range []string{"GET", "SET"} {
			b.Run(name+"/"+who, func(b *testing.B) {
				in := start(b)
				c := in.conn()
				if who != "nobody" {
					other := in.conn()
					options := ""
					if who == "all keys" {
						options = " BCAST"
					}
					if who == "itself" {
						other = c
					}
					other.expect("CLIENT TRACKING ON"+options, "+OK") // in RESP2, so that nothing is sent
					other.do("GET other")
					if who == "same keys" {
						go func() {
							for { // until the server ends
								for i := range pipeline {
									if _, err := other.Do("GET", fmt.Sprint("key:", i)); err != nil {
										return
									}
								}
							}
						}()
					}
				}
				var batch []byte
				replies := 0
				for i := range pipeline {
					args := []string{name, fmt.Sprint("key:", i), "value"}
					if name == "GET" {
						args = args[:2]
						replies += len("$5\r\nvalue\r\n")
						c.do(fmt.Sprintf("SET key:%d value", i))
					} else {
						replies += len("+OK\r\n")
					}
					batch = wire.AppendStrings(batch, args...)
				}
				buf := make([]byte, replies)
				b.ResetTimer()
				for n := 0; n < b.N; n += pipeline {
					if _, err := c.Write(batch); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(c.Reader(), buf); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
