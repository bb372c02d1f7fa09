package transfer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"kevy/internal/ds"
	"kevy/internal/rdb"
	"kevy/internal/vfs"
	"kevy/shard"
)

// BenchmarkImport imports a file of 50,000 small keys of each kind.
func BenchmarkImport(b *testing.B) {
	dir := b.TempDir()
	name := filepath.Join(dir, "dump.rdb")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	limits := ds.DefaultLimits()
	text := func() []byte { return strconv.AppendUint([]byte("element "), rng.Uint64(), 10) }
	w := rdb.NewWriter(f, 10)
	for i := range 50_000 {
		var v shard.Value
		switch i % 5 {
		case 0:
			v.Text = text()
		case 1:
			l := ds.NewList()
			for range 5 {
				l.PushBack(text())
			}
			v.Object = l
		case 2:
			s := ds.NewSet()
			for range 5 {
				s.Add(text(), &limits)
			}
			v.Object = s
		case 3:
			z := ds.NewZSet()
			for range 5 {
				z.Set(text(), rng.NormFloat64(), &limits)
			}
			v.Object = z
		default:
			h := ds.NewHash()
			for range 5 {
				h.Set(text(), text(), &limits)
			}
			v.Object = h
		}
		if err := w.Put(0, fmt.Appendf(nil, "key:%d", i), v, 0); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(w.Written())
	for i := 0; b.Loop(); i++ {
		store := filepath.Join(dir, strconv.Itoa(i))
		if _, err := Import(ImportOptions{Store: options(vfs.OS(), store), File: name, DB: EveryDB}); err != nil {
			b.Fatal(err)
		}
	}
}
