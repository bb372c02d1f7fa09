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
	num := func(name string, n int64) {
		w.BulkString(name)
		w.Int(n)
	}
	w.Map(13)
	w.BulkString("stream")
	w.BulkString(f.source.StreamName(stream))
	num("generation", int64(info.Generation))
	w.BulkString("oldest")
	writeCursor(w, info.Oldest)
	num("next", int64(info.Next))
	w.BulkString("durable")
	writeCursor(w, info.Durable)
	num("memory-bytes", info.MemoryBytes)
	num("disk-bytes", info.DiskBytes)
	num("waiting", int64(info.Waiting))
	w.BulkString("lineage")
	writeLineage(w, info.Lineage)
	w.BulkString("holds")
	f.writeHolds(w, info.Holds)
	f.describeSubscribers(w, stream)
	w.BulkString("snapshots")
	describeSnapshots(w, f.source.Snapshots())
}

func writeLineage(w *resp.Writer, past []feed.PastGeneration) {
	w.Array(len(past))
	for _, p := range past {
		w.Map(4)
		w.BulkString("generation")
		w.Int(int64(p.Generation))
		w.BulkString("end")
		w.Int(int64(p.End))
		w.BulkString("end-lsn")
		w.Int(int64(p.EndLSN))
		w.BulkString("why")
		w.BulkString(string(p.Why))
	}
}
