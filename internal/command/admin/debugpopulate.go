package admin

import (
	"strconv"

	"kevy/internal/command"
	"kevy/resp"
)

// maxPopulateBytes bounds what one DEBUG POPULATE makes: it is one commit, and
// holds every shard.
const maxPopulateBytes = 1 << 30

var errPopulate = resp.Errorf("ERR", "DEBUG POPULATE makes at most %d bytes at once", maxPopulateBytes)

// debugPopulate makes keys that are not there: prefix:0, prefix:1 and so on, with
// a value that says the number, cut or filled with zeros to a size if one is
// given.
func debugPopulate(c *command.Ctx, _ Server) {
	a := c.Scan(2)
	count := a.AtLeast(0, command.ErrNotPositive)
	prefix, size := []byte("key"), int64(0)
	if a.More() {
		prefix = a.Bytes()
	}
	if a.More() {
		size = a.AtLeast(0, command.ErrNotPositive)
	}
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	const leastPerKey = 32
	if size > maxPopulateBytes || count > maxPopulateBytes/(int64(len(prefix))+max(size, leastPerKey)) {
		c.W.Error(errPopulate)
		return
	}
	var key, value []byte
	for i := range count {
		key = strconv.AppendInt(append(append(key[:0], prefix...), ':'), i, 10)
		if c.Tx.Exists(key) {
			continue
		}
		value = strconv.AppendInt(append(value[:0], "value:"...), i, 10)
		if size > 0 {
			for int64(len(value)) < size {
				value = append(value, 0)
			}
			value = value[:size]
		}
		c.Tx.Set(key, value, 0)
	}
	c.W.OK()
}
