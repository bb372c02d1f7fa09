package server

import (
	"fmt"
	"testing"
)

// TestSubscribeTailDurable: it begins where all before is fsynced, so that no crash
// can take its cursor, and gets what is fsynced later.
func TestSubscribeTailDurable(t *testing.T) {
	in := start(t, "--appendfsync", "no")
	w, c := in.conn(), in.conn().proto("3")
	for i := range 5 {
		w.do(fmt.Sprintf("SET k%d v", i))
	}
	gen := string(w.do("CHANGES TAIL ALL").Elems[0].Text)
	c.expect("CHANGES SUBSCRIBE ALL TAIL DURABLE HEARTBEAT 60000", fmt.Sprintf(`push["changes-subscribe", "ALL", :%s, :0]`, gen))
	c.expect("CHANGES UNSUBSCRIBE ALL", `push["changes-unsubscribe", "ALL"]`)
	c.expect("CHANGES SUBSCRIBE ALL TAIL HEARTBEAT 60000", fmt.Sprintf(`push["changes-subscribe", "ALL", :%s, :5]`, gen))
	w.do("CONFIG SET appendfsync always")
	w.do("SET k v")
	c = in.conn().proto("3")
	c.expect("CHANGES SUBSCRIBE ALL TAIL DURABLE HEARTBEAT 60000", fmt.Sprintf(`push["changes-subscribe", "ALL", :%s, :6]`, gen))
}
