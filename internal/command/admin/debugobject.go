package admin

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"kevy/internal/command"
	"kevy/internal/ds"
	"kevy/internal/rdb"
	"kevy/resp"
	"kevy/shard"
)

// payloadOverhead is what a payload of DUMP has besides the value: its type, the
// version and the checksum.
const payloadOverhead = 1 + 2 + 8

// debugObject describes a key in the words of Redis. Where Redis shows an
// address, which says where to look for the value, stands a number that comes of
// the key's name and so stays as long as it does. A key whose time is over is shown as
// long as it is there.
func debugObject(c *command.Ctx, srv Server) {
	key := c.Args[2]
	c.Tx.SeeOverdue(true)
	defer c.Tx.SeeOverdue(false)
	info, ok := c.Tx.Info(key)
	if !ok {
		c.W.Error(command.ErrNoSuchKey)
		return
	}
	v, _ := c.Tx.Peek(key)
	name := fnv.New64a()
	fmt.Fprintf(name, "%d:%s", c.Tx.DB(), key)
	line := fmt.Sprintf("Value at:0x%012x refcount:%d encoding:%s serializedlength:%d lru:%d lru_seconds_idle:%d",
		name.Sum64()&(1<<48-1), info.RefCount(), info.Encoding, len(rdb.AppendPayload(nil, v))-payloadOverhead,
		info.UsedSec&(1<<24-1), info.IdleSec)
	if l, ok := v.Object.(*ds.List); ok {
		line += fmt.Sprintf(" ql_nodes:%d ql_avg_node:%.2f ql_listpack_max:%d ql_compressed:0 ql_uncompressed_size:%d",
			l.Chunks(), float64(l.Len())/float64(l.Chunks()), c.Tx.Limits().ListMaxListpackSize, l.ChunkBytes())
	}
	c.W.Simple(line)
}

// debugSDSLen describes the strings of a key and its value. None has room left.
func debugSDSLen(c *command.Ctx, _ Server) {
	key := c.Args[2]
	c.Tx.SeeOverdue(true)
	defer c.Tx.SeeOverdue(false)
	info, ok := c.Tx.Info(key)
	switch {
	case !ok:
		c.W.Error(command.ErrNoSuchKey)
	case info.Kind != shard.KindString || info.Encoding == "int":
		c.W.Error(resp.Errorf("ERR", "Not an sds encoded string."))
	default:
		c.W.Simple(fmt.Sprintf("key_sds_len:%d, key_sds_avail:0, key_zmalloc: %d, val_sds_len:%d, val_sds_avail:0, val_zmalloc: %d",
			len(key), len(key), len(info.Value), info.Bytes))
	}
}

// debugListpack and debugQuicklist write to the log what Redis prints.
func debugListpack(c *command.Ctx, srv Server) {
	logShape(c, srv, "listpack", "Not a listpack encoded object.", "Listpack structure printed on stdout")
}

func debugQuicklist(c *command.Ctx, srv Server) {
	logShape(c, srv, "quicklist", "Not a quicklist encoded object.", "Quicklist structure printed on stdout")
}

func logShape(c *command.Ctx, srv Server, encoding, other, reply string) {
	key := c.Args[2]
	info, ok := c.Tx.Info(key)
	switch {
	case !ok:
		c.W.Error(command.ErrNoSuchKey)
		return
	case info.Encoding != encoding:
		c.W.Error(&resp.Error{Code: "ERR", Text: other})
		return
	}
	v, _ := c.Tx.Peek(key)
	srv.Log(fmt.Sprintf("DEBUG: key %.128q: %s of %d elements in %d bytes", key, encoding, v.Object.Len(), info.Bytes))
	c.W.Simple(reply)
}

func debugHTStats(c *command.Ctx, _ Server) {
	db, ok := command.ParseInt(c.Args[2])
	switch {
	case !ok || db < math.MinInt32 || db > math.MaxInt32:
		c.W.Error(command.ErrNotInt)
		return
	case db < 0 || db >= int64(c.Tx.DBs()):
		c.W.Error(resp.Errorf("ERR", "Out of range database"))
		return
	}
	selected := c.Tx.DB()
	c.Tx.Select(int(db))
	shape, deadlines := c.Tx.Shape()
	c.Tx.Select(selected)
	c.W.Verbatim("txt", "[Dictionary HT]\n"+tableText(shape)+
		fmt.Sprintf("[Expires HT]\n number of elements: %d, in the order of their times\n", deadlines))
}

func debugHTStatsKey(c *command.Ctx, _ Server) {
	v, ok := c.Tx.Peek(c.Args[2])
	if !ok {
		c.W.Error(command.ErrNoSuchKey)
		return
	}
	shape, ok := ds.ShapeOf(v.Object)
	if !ok {
		c.W.Error(resp.Errorf("ERR", "The value stored at the specified key is not represented using an hash table"))
		return
	}
	c.W.Verbatim("txt", tableText(shape))
}

// tableText describes a table.
func tableText(s ds.Shape) string {
	var b strings.Builder
	b.WriteString("Hash table 0 stats (main hash table):\n")
	if s.Entries == 0 {
		b.WriteString("No stats available for empty dictionaries\n")
		return b.String()
	}
	fmt.Fprintf(&b, " table size: %d\n number of elements: %d\n segments: %d\n longest chain of segments: %d\n Segments by how full they are:\n",
		s.Slots, s.Entries, s.Segments, s.Longest)
	for tenth, n := range s.Fill {
		if n > 0 {
			fmt.Fprintf(&b, "   %d%%: %d\n", 10*tenth, n)
		}
	}
	return b.String()
}
