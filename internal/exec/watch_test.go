package exec

import (
	"strings"
	"testing"

	"kevy/aof"
)

// TestWatch: what makes EXEC answer null. Each case is the commands before
// WATCH, those between WATCH and EXEC, and whether EXEC runs. A line that begins
// with "2 " comes from another connection, "+n" lets n milliseconds pass.
func TestWatch(t *testing.T) {
	for _, test := range []struct {
		name           string
		before, within string
		runs           bool
	}{
		{"nothing happens", "SET k v", "", true},
		{"another reads", "SET k v", "2 GET k", true},
		{"another writes", "SET k v", "2 SET k w", false},
		{"another writes the same", "SET k v", "2 SET k v", false},
		{"another writes elsewhere", "SET k v", "2 SET j w", true},
		{"another writes in another database", "", "2 SELECT 1; 2 SET k w", true},
		{"this connection writes", "SET k v", "SET k w", false},
		{"the key comes", "", "2 SET k v", false},
		{"the key goes", "SET k v", "2 DEL k", false},
		{"the key goes and comes back", "SET k v", "2 DEL k; 2 SET k v", false},
		{"nothing to delete", "", "2 DEL k", true},
		{"a failed command", "SET k v", "2 LPUSH k v", true},
		{"nothing added", "SADD k a", "2 SADD k a", true},
		{"the last element goes", "SADD k a", "2 SREM k a", false},
		{"an expiry is set", "SET k v", "2 EXPIRE k 100", false},
		{"an expiry that is none", "SET k v", "2 PERSIST k", true},
		{"renamed from", "SET k v", "2 RENAME k j", false},
		{"renamed to", "SET j v", "2 RENAME j k", false},
		{"copied to", "SET j v", "2 COPY j k", false},
		{"the key's time comes", "SET k v PX 50", "+60", false},
		{"the key's time comes, and another looks", "SET k v PX 50", "+60; 2 GET k", false},
		{"the key's time had come", "SET k v PX 50; +60", "", true},
		{"the key's time had come, and another looks", "SET k v PX 50; +60", "2 GET k", true},
		{"the key's time had come, and it is written", "SET k v PX 50; +60", "2 SET k v", false},
		{"FLUSHALL", "SET k v", "2 FLUSHALL", false},
		{"FLUSHALL without the key", "SET j v", "2 FLUSHALL", true},
		{"FLUSHDB", "SET k v", "2 FLUSHDB", false},
		{"FLUSHDB elsewhere", "SET k v", "2 SELECT 1; 2 FLUSHDB", true},
		{"SWAPDB with the key here", "SET k v", "2 SWAPDB 0 1", false},
		{"SWAPDB with the key there", "2 SELECT 1; 2 SET k v", "2 SWAPDB 0 1", false},
		{"SWAPDB without the key", "", "2 SWAPDB 0 1", true},
		{"SWAPDB with a key whose time had come here", "SET k v PX 50; +60", "2 SWAPDB 0 1", true},
		{"SWAPDB with a key whose time had come there", "2 SELECT 1; 2 SET k v PX 50; +60", "2 SWAPDB 0 1", true},
		{"SWAPDB with a key whose time had come here and there", "SET k v PX 50; 2 SELECT 1; 2 SET k v PX 50; +60", "2 SWAPDB 0 1", true},
		{"SWAPDB with a key whose time comes here", "SET k v PX 50", "+60; 2 SWAPDB 0 1", false},
		{"SWAPDB with a key whose time had come there, and it is looked for", "2 SELECT 1; 2 SET k v PX 50; +60", "2 SWAPDB 0 1; 2 SELECT 0; 2 GET k", true},
		{"SWAPDB with a key whose time had come there, and it is written", "2 SELECT 1; 2 SET k v PX 50; +60", "2 SWAPDB 0 1; 2 SELECT 0; 2 SET k v", false},
		{"SWAPDB with a key whose time had come there, and FLUSHDB", "2 SELECT 1; 2 SET k v PX 50; +60", "2 SWAPDB 0 1; 2 SELECT 0; 2 FLUSHDB", true},
		{"SWAPDB with a key whose time had come there, and back", "2 SELECT 1; 2 SET k v PX 50; +60", "2 SWAPDB 0 1; 2 SWAPDB 0 1", true},
		{"SWAPDB with a key whose time had come there, and with one that is there", "2 SELECT 1; 2 SET k v PX 50; +60; 2 SELECT 2; 2 SET k v", "2 SWAPDB 0 1; 2 SWAPDB 0 2", false},
		{"SWAPDB of others", "SET k v", "2 SWAPDB 1 2", true},
		{"MOVE away", "SET k v", "2 MOVE k 1", false},
		{"UNWATCH", "SET k v", "2 SET k w; UNWATCH", true},
		{"DISCARD", "SET k v", "2 SET k w; MULTI; DISCARD", true},
		{"EXEC forgets", "SET k v", "2 SET k w; MULTI; EXEC", true},
		{"watched twice", "SET k v", "WATCH k; 2 SET k w", false},
		{"watched again after the change", "SET k v", "2 SET k w; WATCH k", false},
		{"a second key", "SET k v", "WATCH j; 2 SET j w", false},
		{"another transaction writes", "SET k v", "2 MULTI; 2 SET k w; 2 EXEC", false},
		{"another transaction is discarded", "SET k v", "2 MULTI; 2 SET k w; 2 DISCARD", true},
		{"after MULTI", "SET k v", "MULTI; 2 SET k w", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, aof.PolicyEverySec)
			me, other := r.conn(), r.conn()
			run := func(lines string) {
				for line := range strings.SplitSeq(lines, "; ") {
					switch {
					case line == "":
					case strings.HasPrefix(line, "+"):
						r.nowMs += 60
					case strings.HasPrefix(line, "2 SELECT "):
						other.es.Select(int(line[len(line)-1] - '0'))
					case strings.HasPrefix(line, "2 "):
						other.do(line[2:])
					default:
						me.do(line)
					}
				}
			}
			run(test.before)
			me.expect("WATCH k", "+OK")
			run(test.within)
			if me.es.QueuedCommands() < 0 {
				me.expect("MULTI", "+OK")
			}
			me.expect("SET result 1", "+QUEUED")
			want := "*-1"
			if test.runs {
				want = "*1 +OK"
			}
			me.expect("EXEC", want)
			if me.es.WatchedKeys() != 0 || me.es.WatchTouched() || me.es.InMulti() {
				t.Error("the transaction is not over")
			}
			me.expect("MULTI", "+OK")
			me.expect("EXEC", "*0")
			r.checkLog()
		})
	}
}

func TestTransactionState(t *testing.T) {
	r := newRig(t, aof.PolicyEverySec)
	c := r.conn()
	for _, step := range []struct {
		line, want string
		queued     int
	}{
		{"DISCARD", "-ERR DISCARD without MULTI", -1},
		{"EXEC", "-ERR EXEC without MULTI", -1},
		{"MULTI", "+OK", 0},
		{"MULTI", "-ERR MULTI calls can not be nested", 0},
		{"WATCH k", "-ERR WATCH inside MULTI is not allowed", 0},
		{"SET k v", "+QUEUED", 1},
		{"UNWATCH", "+QUEUED", 2},
		{"EXEC", "*2 +OK +OK", -1},
		{"MULTI", "+OK", 0},
		{"SET k v", "+QUEUED", 1},
		{"SET k", "-ERR wrong number of arguments for 'set' command", 1},
		{"SET k w", "+QUEUED", 1}, // it is not kept: EXEC fails anyway
		{"EXEC", "-EXECABORT Transaction discarded because of previous errors.", -1},
		{"MULTI", "+OK", 0},
		{"nosuch", "-ERR unknown command 'nosuch', with args beginning with: ", 0},
		{"DISCARD", "+OK", -1},
		{"MULTI", "+OK", 0},
		{"EXEC", "*0", -1},
	} {
		c.expect(step.line, step.want)
		if n := c.es.QueuedCommands(); n != step.queued {
			t.Errorf("after %s %d commands are queued, want %d", step.line, n, step.queued)
		}
	}
	c.do("MULTI")
	c.do("SET key value")
	if n, want := c.es.QueuedBytes(), len("SETkeyvalue")+3*pointerBytes; n != want {
		t.Errorf("%d bytes are queued, want %d", n, want)
	}
	c.es.Reset()
	c.expect("EXEC", "-ERR EXEC without MULTI")
	c.expect("GET key", "$-1")
}
