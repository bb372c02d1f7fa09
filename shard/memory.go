package shard

// The memory of the keyspace is counted, not measured: each table knows what its
// entries and their values occupy, in constant time, and a Tx adds what a database has
// grown or shrunk by to the set's figure when its commit is in the log. So the
// figure is exact behind each commit, the same for the same history, and falls at
// once when keys go, whenever the garbage collector comes.

// Bytes returns what the keyspace occupies, in bytes: keys, values, their places in
// tables, and deadlines, as Info.Bytes counts them for each key. What snapshots keep
// alone is not in it. Any goroutine may ask.
func (s *Set) Bytes() int64 { return s.bytes.Load() }

// memBytes returns what the database's part of the shard occupies; 0 if it is empty.
func (d *database) memBytes() int64 {
	if d.keys.Len() == 0 {
		return 0
	}
	n := d.keys.MemBytes() + d.deadlines.MemBytes()
	if d.fields != nil {
		n += d.fields.MemBytes()
	}
	return int64(n)
}

// overheadBytes is what of memBytes is neither a key nor a value.
func (d *database) overheadBytes() int64 {
	if d.keys.Len() == 0 {
		return 0
	}
	n := d.keys.OverheadBytes() + d.deadlines.MemBytes()
	if d.fields != nil {
		n += d.fields.MemBytes()
	}
	return int64(n)
}

// figure is what the set's figure has for one database of a shard.
type figure struct {
	bytes int64
	noted bool // it is among those that a Tx is going to count again
}

// grown is a database of a shard that has changed since it was counted.
type grown struct {
	sh *Shard
	db int
}

// grow notes that a database of a shard changes, for publish.
func (tx *Tx) grow(sh *Shard, db int) {
	if sh.figures[db].noted || tx.replay {
		return
	}
	sh.figures[db].noted = true
	if tx.grown.sh == nil {
		tx.grown = grown{sh, db}
	} else {
		tx.alsoGrown = append(tx.alsoGrown, grown{sh, db})
	}
}

// publish counts the databases that have changed.
func (tx *Tx) publish() {
	if tx.grown.sh == nil {
		return
	}
	n := tx.grown.count()
	tx.grown.sh = nil
	for _, g := range tx.alsoGrown {
		n += g.count()
	}
	tx.alsoGrown = tx.alsoGrown[:0]
	if n != 0 {
		tx.set.bytes.Add(n)
	}
}

// recount is for what changes memory without being an op: no commit publishes it.
func (tx *Tx) recount(sh *Shard) {
	tx.grow(sh, tx.db)
	tx.publish()
}

// count returns by how much the database has grown since it was counted.
func (g grown) count() int64 {
	now, f := g.sh.dbs[g.db].memBytes(), &g.sh.figures[g.db]
	n := now - f.bytes
	f.bytes, f.noted = now, false
	return n
}

// CountAll counts the whole keyspace: after a replay, which publishes nothing. Every
// shard must be locked, or not yet be in use.
func (s *Set) CountAll() {
	var n int64
	for _, sh := range s.shards {
		for db := range sh.dbs {
			grown{sh, db}.count()
			n += sh.figures[db].bytes
		}
	}
	s.bytes.Store(n)
}

// Recount returns what Bytes should be, by a walk over the whole keyspace: both are the
// same whenever every shard is locked, which the caller sees to, and no Tx is under way.
func (s *Set) Recount() (n int64) {
	for _, sh := range s.shards {
		for i := range sh.dbs {
			d := &sh.dbs[i]
			if d.keys.Len() == 0 {
				continue
			}
			n += int64(d.keys.Recount() + d.deadlines.Recount())
			if d.fields != nil {
				n += int64(d.fields.Recount())
			}
		}
	}
	return n
}
