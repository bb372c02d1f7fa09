package server

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"syscall"

	peer "kevy/internal/client"
	"kevy/internal/command"
	"kevy/internal/command/admin"
	"kevy/internal/exec"
	"kevy/internal/rdb"
	"kevy/resp"
	"kevy/shard"
)

// migrating is a key on its way.
type migrating struct {
	key     []byte
	payload []byte
	ttlMs   int64
	watch   *shard.Watch // tells whether it was changed since
	taken   bool         // the other server has it
}

var (
	errMigrateConnect = &resp.Error{Code: "IOERR", Text: "error or timeout connecting to the client"}
	errMigrateWrite   = &resp.Error{Code: "IOERR", Text: "error or timeout writing to target instance"}
	errMigrateRead    = &resp.Error{Code: "IOERR", Text: "error or timeout reading to target instance"}
	errMigrateChanged = &resp.Error{Code: "ERR", Text: "a key was changed while it was on its way: it is here as it is now, and on the target instance as it was"}
)

// Migrate implements admin.Server: the values are read under the locks of their shards,
// sent without any, and deleted under them again if nobody has changed them since.
func (s *Server) Migrate(c *command.Ctx, m admin.Migration) {
	keys, err := s.readMigrating(c, m)
	if err != nil {
		c.W.Error(err)
		return
	}
	if len(keys) == 0 {
		c.W.Simple("NOKEY")
		return
	}
	defer func() {
		for i := range keys {
			keys[i].watch.Clear()
		}
	}()
	failed := s.sendMigrating(m, keys)
	if !m.Copy {
		if err := dropMigrated(c, keys); failed == nil {
			failed = err
		}
	}
	if failed != nil {
		c.W.Error(failed)
		return
	}
	c.W.OK()
}

// readMigrating reads the keys that are there.
func (s *Server) readMigrating(c *command.Ctx, m admin.Migration) (keys []migrating, err *resp.Error) {
	err = exec.Locked(c, m.Keys, func(tx *shard.Tx) {
		now := s.store.NowMs()
		for _, key := range m.Keys {
			v, ok := tx.Peek(key)
			if !ok {
				continue
			}
			k := migrating{key: slices.Clone(key), payload: rdb.AppendPayload(nil, v), watch: s.store.Set().NewWatch()}
			if at, _ := tx.Deadline(key); at != 0 {
				k.ttlMs = max(1, at-now)
			}
			tx.Watch(k.watch, key)
			keys = append(keys, k)
		}
	})
	return keys, err
}

// sendMigrating sends them, and marks those that the other server has taken. Its first
// refusal is the error, which the others go on behind.
func (s *Server) sendMigrating(m admin.Migration, keys []migrating) *resp.Error {
	conn, err := peer.Dial(s.ends, peer.Options{Addr: net.JoinHostPort(m.Host, m.Port), DialTimeout: m.Timeout, Timeout: m.Timeout})
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errMigrateWrite // Redis finds out when it writes
	}
	if err != nil {
		return errMigrateConnect
	}
	defer conn.Close()
	before := 1 // replies ahead of those of the keys
	switch {
	case m.Username != nil:
		conn.AppendBytes([]byte("AUTH"), m.Username, m.Password)
		before++
	case m.Password != nil:
		conn.AppendBytes([]byte("AUTH"), m.Password)
		before++
	}
	conn.AppendBytes([]byte("SELECT"), appendInt(m.DB))
	for i := range keys {
		args := [][]byte{[]byte("RESTORE"), keys[i].key, appendInt(keys[i].ttlMs), keys[i].payload}
		if m.Replace {
			args = append(args, []byte("REPLACE"))
		}
		conn.AppendBytes(args...)
	}
	if err := conn.Flush(); err != nil {
		return errMigrateWrite
	}
	var refused *resp.Error
	ready := true // logged in, and in the right database
	for i := range before + len(keys) {
		reply, err := conn.Receive()
		if err != nil {
			return errMigrateRead
		}
		failed := reply.Err()
		if failed != nil && refused == nil {
			refused = resp.Errorf("ERR", "Target instance replied with error: %v", failed)
		}
		if i < before {
			ready = ready && failed == nil
		} else {
			keys[i-before].taken = ready && failed == nil
		}
	}
	return refused
}

func appendInt(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// dropMigrated deletes the keys that were taken and are as they were.
func dropMigrated(c *command.Ctx, keys []migrating) *resp.Error {
	var names [][]byte
	for i := range keys {
		if keys[i].taken {
			names = append(names, keys[i].key)
		}
	}
	if len(names) == 0 {
		return nil
	}
	changed := false
	err := exec.Locked(c, names, func(tx *shard.Tx) {
		for i := range keys {
			// All are asked before one goes, which the watch of a repetition would tell of.
			if k := &keys[i]; k.taken && k.watch.Touched() {
				changed, k.taken = true, false
			}
		}
		for i := range keys {
			if k := &keys[i]; k.taken && tx.Del(k.key) {
				tx.Notify(shard.OfGeneric, "del", k.key)
			}
		}
	})
	if err == nil && changed {
		err = errMigrateChanged
	}
	return err
}
