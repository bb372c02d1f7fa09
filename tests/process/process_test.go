package process

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kevy/tests/wire"
)

// TestCloseOfReplica closes a replica that writes its first log, which forgets the first signal.
func TestCloseOfReplica(t *testing.T) {
	redis := Oracle(t)
	master := Start(t, redis, Config{Args: []string{"--repl-diskless-sync-delay", "0"}})
	keys := []string{"MSET"}
	for i := range 200 {
		keys = append(keys, fmt.Sprint("key", i), "value")
	}
	if r, err := master.Conn(t).Do(keys...); err != nil || r.Kind != wire.Simple {
		t.Fatalf("MSET: %v, %v", r, err)
	}
	// Each key delays the log by five milliseconds.
	replica := Start(t, redis, Config{Args: []string{"--replicaof", fmt.Sprint("127.0.0.1 ", master.Port), "--rdb-key-save-delay", "5000"}})
	c := replica.Conn(t)
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(5 * time.Millisecond) {
		r, err := c.Do("INFO")
		if err != nil {
			t.Fatal(err)
		}
		if text := string(r.Text); strings.Contains(text, "master_link_status:up") && strings.Contains(text, "aof_rewrite_in_progress:1") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the replica does not write a log:\n%s", replica.Log())
		}
	}
	if err := replica.Close(stopTimeout); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(replica.Log(), "can't exit") {
		t.Errorf("no signal was forgotten:\n%s", replica.Log())
	}
	master.Stop(t)
}
