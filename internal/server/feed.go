package server

import (
	"strconv"

	"kevy/internal/command/admin"
)

// infoFeed is INFO's section on the change feed: the stream ALL.
func (s *Server) infoFeed() (f fields) {
	f.flag("feed_enabled", !s.store.FeedDisabled())
	src := s.store.Feed()
	f.num("feed_shards", int64(src.Shards()))
	info, err := src.Info(src.All())
	if err != nil {
		f.text("feed_error", err.Error())
		return f
	}
	f.num("feed_generation", int64(info.Generation))
	f.num("feed_next_offset", int64(info.Next))
	f.text("feed_oldest", strconv.FormatUint(info.Oldest.Generation, 10)+" "+strconv.FormatUint(info.Oldest.Offset, 10))
	f.num("feed_memory_bytes", info.MemoryBytes)
	f.num("feed_disk_bytes", info.DiskBytes)
	f.num("feed_waiting_readers", int64(info.Waiting))
	return f
}

var _ admin.Server = (*Server)(nil)
