package exec

import (
	"strings"
	"testing"

	"kevy/aof"
)

// TestReach holds that a command locks the shards of what it may look into, and
// no others unless it must.
func TestReach(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	set := r.store.Set()
	shardOf := func(key string) int { return set.ShardOf([]byte(key)) }
	for _, tc := range []struct {
		line string
		want []int
	}{
		{"SORT l", []int{shardOf("l")}},
		{"SORT l BY nosort GET #", []int{shardOf("l")}},
		{"SORT l STORE d", []int{shardOf("l"), shardOf("d")}},
		{"SORT l STORE a STORE b", []int{shardOf("l"), shardOf("a"), shardOf("b")}},
		{"SORT l BY {t}w_*->f GET {t}o_*", []int{shardOf("l"), shardOf("t")}},
		{"SORT l BY w_*", r.x.all},
		{"SORT l GET o_*", r.x.all},
		{"SORT l BY {*}", r.x.all},
		{"SORT_RO l GET # GET {}o_*", r.x.all},
	} {
		var args [][]byte
		for _, a := range strings.Fields(tc.line) {
			args = append(args, []byte(a))
		}
		want := []int{}
		for _, i := range tc.want {
			want = insertSorted(want, i)
		}
		got := r.x.shardsOf(c.es, r.x.table.Lookup(args), args)
		if len(got) != len(want) {
			t.Errorf("%s: locks %v, want %v", tc.line, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: locks %v, want %v", tc.line, got, want)
				break
			}
		}
	}
}

// TestReachInTransaction runs a SORT that may look anywhere inside EXEC.
func TestReachInTransaction(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	for _, line := range []string{"RPUSH l 1 2 3", "MSET w_1 30 w_2 20 w_3 10 o_1 one", "MULTI", "GET l2", "SORT l BY w_* GET o_* STORE d", "LRANGE d 0 -1"} {
		c.do(line)
	}
	c.expect("EXEC", "*3 $-1 :3 *3 $0  $0  $3 one")
	r.checkLog()
}
