package server

import (
	"fmt"
	"strings"
	"testing"
)

// The largest client goes when all together have too much: by what it sends, queues,
// watches or subscribes to.
func TestMaxMemoryClients(t *testing.T) {
	for name, grow := range map[string]func(i int) []string{
		"transaction": func(i int) []string { return []string{"SET", "k", strings.Repeat("v", 20_000)} },
		"watches":     func(i int) []string { return []string{"WATCH", fmt.Sprint("a key of some length:", i)} },
		"channels":    func(i int) []string { return []string{"SUBSCRIBE", fmt.Sprint("channel:", i)} },
	} {
		t.Run(name, func(t *testing.T) {
			in := start(t)
			control, c := in.conn(), in.conn()
			control.expect("CONFIG SET maxmemory-clients 300kb", "+OK")
			if name == "transaction" {
				c.expect("MULTI", "+OK")
			}
			gone := false
			for i := 0; i < 20_000 && !gone; i++ {
				_, err := c.Do(grow(i)...)
				gone = err != nil
			}
			if !gone {
				t.Fatal("it is still there")
			}
			eventually(t, "it is counted", func() bool { return control.infoInt("stats", "evicted_clients") == 1 })
			eventually(t, "its memory is not counted any more", func() bool { return control.infoInt("memory", "mem_clients_normal") < 100<<10 })
			control.expect("CONFIG SET maxmemory-clients 0", "+OK")
		})
	}
}

// A percentage is one of maxmemory.
func TestMaxMemoryClientsAsPercentage(t *testing.T) {
	in := start(t, "--maxmemory", "10mb", "--maxmemory-clients", "3%")
	control, c := in.conn(), in.conn()
	control.expect("SET small 1", "+OK")
	if _, err := c.Do("SET", "k", strings.Repeat("v", 100_000)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do("SET", "k", strings.Repeat("v", 1_000_000)); err == nil {
		t.Error("a client with a tenth of maxmemory goes on")
	}
}

// used_memory is what is compared with maxmemory: what a key takes is there at once, and
// gone at once.
func TestUsedMemoryIsExact(t *testing.T) {
	in := start(t)
	c := in.conn()
	c.expect("SET warm up", "+OK")
	used := func() int64 { return int64(c.infoInt("memory", "used_memory")) }
	used() // the reply makes the connection's buffer as large as it gets
	before := used()
	const n = 300
	for i := range n {
		if _, err := c.Do("SET", fmt.Sprint("key:", i), strings.Repeat("v", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	grown := used() - before
	if grown < n*1000 || grown > n*1300 {
		t.Errorf("%d keys of 1,000 bytes count %d", n, grown)
	}
	dataset := int64(c.infoInt("memory", "used_memory_dataset"))
	if dataset < n*1000 || dataset > grown {
		t.Errorf("used_memory_dataset is %d", dataset)
	}
	c.expect("FLUSHALL", "+OK")
	c.expect("SET warm up", "+OK")
	if left := used() - before; left < -20_000 || left > 20_000 {
		t.Errorf("%d bytes are left of them", left)
	}
}

// A client whose reply is over its own limit goes, and no other one in its place.
func TestOutputLimitComesBeforeClientEviction(t *testing.T) {
	in := start(t, "--maxmemory-clients", "6mb", "--client-output-buffer-limit", "normal 2mb 0 0")
	control, large, c := in.conn(), in.conn(), in.conn()
	control.expect("SETRANGE k 3000000 x", ":3000001")
	id := large.do("CLIENT ID")
	if _, err := large.Write([]byte("*2\r\n$4\r\nECHO\r\n$5000000\r\n" + strings.Repeat("x", 4_900_000))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its input is there", func() bool { return strings.Contains(string(control.do("CLIENT LIST").Text), " qbuf=4900000 ") })
	if _, err := c.Do("GET", "k"); err == nil {
		t.Error("a reply over the limit came")
	}
	if n := control.infoInt("stats", "evicted_clients"); n != 0 {
		t.Errorf("%d clients were evicted", n)
	}
	n, _ := id.Int()
	if list := string(control.do(fmt.Sprint("CLIENT LIST ID ", n)).Text); list == "" {
		t.Error("the client with much input is gone")
	}
}
