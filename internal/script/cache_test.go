package script

import (
	"crypto/sha1"
	"fmt"
	"runtime"
	"testing"

	"kevy/internal/script/lualib"
)

func scriptNo(i, bytes int) *cached {
	return &cached{digest: sha1.Sum(fmt.Append(nil, i)), bytes: bytes}
}

// TestCacheIsBounded: by the number of scripts and by what they take, the oldest goes
// for a new one; and a script that is larger than all of it has its turn.
func TestCacheIsBounded(t *testing.T) {
	c := newCache()
	for i := range maxScripts {
		c.add(scriptNo(i, 10))
		c.add(scriptNo(i, 10)) // is there
	}
	if n, bytes := c.size(); n != maxScripts || bytes != maxScripts*10 || bytes > maxScriptsBytes {
		t.Fatalf("%d scripts of %d bytes", n, bytes)
	}
	c.add(scriptNo(maxScripts, 10))
	if n, _ := c.size(); n != maxScripts || c.get(scriptNo(0, 0).digest) != nil || c.get(scriptNo(1, 0).digest) == nil || c.get(scriptNo(maxScripts, 0).digest) == nil {
		t.Errorf("one more than there may be: %d scripts", n)
	}
	const large = maxScriptsBytes/8 + 1
	for i := range 100 {
		c.add(scriptNo(-1-i, large))
		if n, bytes := c.size(); bytes > maxScriptsBytes || n != len(c.oldest) {
			t.Fatalf("%d scripts, %d in their order, of %d bytes", n, len(c.oldest), bytes)
		}
	}
	if n, _ := c.size(); n != 7 || c.get(scriptNo(maxScripts, 0).digest) != nil || c.get(scriptNo(-100, 0).digest) == nil {
		t.Errorf("%d large scripts", n)
	}
	c.add(scriptNo(-1000, maxScriptsBytes))
	c.add(scriptNo(-1001, maxScriptsBytes))
	if n, _ := c.size(); n != 1 || c.get(scriptNo(-1001, 0).digest) == nil {
		t.Errorf("%d scripts, each larger than all may be", n)
	}
	c.flush()
	c.add(scriptNo(1, 10))
	if n, bytes := c.size(); n != 1 || bytes != 10 {
		t.Errorf("after a flush %d scripts of %d bytes", n, bytes)
	}
}

// TestCacheKeeps: what runs again and again stays, and what SCRIPT LOAD has made known,
// whatever else comes and goes; where there is nothing else, that goes too.
func TestCacheKeeps(t *testing.T) {
	c := newCache()
	hot, loaded := scriptNo(-1, 10), scriptNo(-2, 10)
	loaded.loaded.Store(true)
	c.add(hot)
	c.add(loaded)
	for i := range 3 * maxScripts {
		c.add(scriptNo(i, 10))
		if i%1000 == 0 && c.get(hot.digest) == nil {
			t.Fatalf("a script that runs often is gone after %d others", i)
		}
	}
	if n, bytes := c.size(); n != maxScripts || bytes != 10*maxScripts {
		t.Errorf("%d scripts of %d bytes", n, bytes)
	}
	if c.get(loaded.digest) == nil {
		t.Error("a script of SCRIPT LOAD is gone")
	}
	for i := range maxScripts {
		s := scriptNo(-10-i, 10)
		s.loaded.Store(true)
		c.add(s)
	}
	if n, _ := c.size(); n != maxScripts {
		t.Errorf("%d scripts", n)
	}
	c.flush()
	if n, bytes := c.size(); n != 0 || bytes != 0 || c.oldest != nil || c.kept != nil {
		t.Errorf("%d scripts of %d bytes after a flush", n, bytes)
	}
}

// TestScriptsAreCountedAsTheyWeigh: what the bound counts is about what the compiled
// scripts take, small ones and large ones.
func TestScriptsAreCountedAsTheyWeigh(t *testing.T) {
	for _, body := range []string{"return 1", "local n = redis.call('incr', KEYS[1]) if n == 1 then redis.call('expire', KEYS[1], ARGV[1]) end return n\n"} {
		for _, times := range []int{1, 20} {
			const scripts = 500
			var before, after runtime.MemStats
			c := newCache()
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range scripts {
				source := fmt.Appendf(nil, "-- %d\n", i)
				for range times - 1 {
					source = append(source, "do "+body+" end\n"...)
				}
				source = append(source, body...)
				program, err := lualib.Compile("user_script", source)
				if err != nil {
					t.Fatal(err)
				}
				c.add(&cached{digest: sha1.Sum(source), name: fmt.Sprintf("%040d", i), program: program, bytes: scriptBytes + program.Bytes()})
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			n, counted := c.size()
			taken := int64(after.HeapAlloc) - int64(before.HeapAlloc)
			t.Logf("%d scripts of %d bytes take %d, and count %d", n, len(body)*times, taken/scripts, counted/scripts)
			if n != scripts || taken > 2*int64(counted) || int64(counted) > 2*taken {
				t.Errorf("%d scripts take %d bytes, and count %d", n, taken, counted)
			}
		}
	}
}
