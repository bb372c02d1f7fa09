package generic

import (
	"strconv"
	"strings"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func scan() *command.Spec {
	return &command.Spec{
		Name: "scan", Arity: -2, Flags: command.ReadOnly | command.AllShards, Category: command.CatKeyspace,
		Tips:  []string{"nondeterministic_output", "request_policy:special"},
		Group: "generic", Since: "2.8.0", Complexity: "O(1) for a call with a small COUNT, O(N) for a whole iteration over N keys",
		Syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
		Summary: "Answers some keys and the cursor to go on with, 0 at the end. A key that is there all the time is " +
			"answered at least once.",
		Differences: "A TYPE that no key can have is an error, as in Redis 8. A cursor that no SCAN answered ends the iteration.",
		Run:         runScan,
	}
}

// scanStepsPerKey bounds the work of a call where most of a database is empty.
const scanStepsPerKey = 10

func runScan(c *command.Ctx) {
	a := c.Scan(1)
	cursor := a.Cursor()
	o := a.ScanOptions(true)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	var kind shard.Kind
	if o.Type != nil {
		var ok bool
		if kind, ok = kindNamed(o.Type); !ok {
			c.W.Error(resp.Errorf("ERR", "unknown type name '%s'", o.Type))
			return
		}
	}
	var found [][]byte
	seen := 0
	visit := func(key []byte, k shard.Kind, overdue bool) bool {
		if !overdue {
			seen++
		}
		takes := (o.Type == nil || k == kind) && o.Matches(key)
		if takes && !overdue {
			found = append(found, key)
		}
		return takes
	}
	cursor = c.Tx.Scan(cursor, o.Count, visit)
	for steps := 1; cursor != 0 && seen < o.Count && steps/scanStepsPerKey < o.Count; steps++ {
		cursor = c.Tx.Scan(cursor, o.Count-seen, visit)
	}
	c.W.Array(2)
	c.W.BulkString(strconv.FormatUint(cursor, 10))
	c.W.Array(len(found))
	for _, key := range found {
		c.W.Bulk(key)
	}
}

// kindNamed returns the type with that name, whatever the case.
func kindNamed(name []byte) (kind shard.Kind, ok bool) {
	for kind, n := range typeNames {
		if strings.EqualFold(n, string(name)) {
			return kind, true
		}
	}
	return 0, false
}
