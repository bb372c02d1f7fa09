package changes

import (
	"kevy/feed"
	"kevy/internal/command"
	"kevy/resp"
)

func (f *family) info(c *command.Ctx) {
	stream := f.source.All()
	switch len(c.Args) {
	case 2:
	case 3:
		var ok bool
		if stream, ok = f.stream(c, c.Args[2]); !ok {
			return
		}
	default:
		c.W.Error(c.Spec.ArityError())
		return
	}
	info, err := f.source.Info(stream)
	if err != nil {
		c.W.Error(feed.ReplyError(err))
		return
	}
	w := c.W
	w.Map(13)
	w.BulkString("stream")
	w.BulkString(f.source.StreamName(stream))
	writeField(w, "generation", int64(info.Generation))
	w.BulkString("oldest")
	writeCursor(w, info.Oldest)
	writeField(w, "next", int64(info.Next))
	w.BulkString("durable")
	writeCursor(w, info.Durable)
	writeField(w, "memory-bytes", info.MemoryBytes)
	writeField(w, "disk-bytes", info.DiskBytes)
	writeField(w, "waiting", int64(info.Waiting))
	w.BulkString("lineage")
	writeLineage(w, info.Lineage)
	w.BulkString("holds")
	f.writeHolds(w, info.Holds)
	f.writeSubscribers(w, stream)
	w.BulkString("snapshots")
	writeSnapshots(w, f.source.Snapshots())
}

// writeField writes a field of a map, and its number.
func writeField(w *resp.Writer, name string, n int64) {
	w.BulkString(name)
	w.Int(n)
}

func writeLineage(w *resp.Writer, past []feed.PastGeneration) {
	w.Array(len(past))
	for _, p := range past {
		w.Map(4)
		writeField(w, "generation", int64(p.Generation))
		writeField(w, "end", int64(p.End))
		writeField(w, "end-lsn", int64(p.EndLSN))
		w.BulkString("why")
		w.BulkString(string(p.Why))
	}
}
