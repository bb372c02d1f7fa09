package integration

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"

	"kevy/tests/keyspace"
)

// entry is one key of a model.
type entry struct {
	kind       string
	str        string
	list       []string
	pairs      map[string]string // hash: field to value; set: member to ""; sorted set: member to score
	expireAtMs int64
}

// model is what the keys of one worker must hold, kept by a few lines that share nothing with the server.
type model map[string]*entry

func (m model) at(key, kind string) *entry {
	e := m[key]
	if e == nil {
		e = &entry{kind: kind, pairs: map[string]string{}, expireAtMs: -1}
		m[key] = e
	}
	if e.kind != kind {
		panic(fmt.Sprintf("the workload uses %s as %s and as %s", key, e.kind, kind))
	}
	return e
}

// trim removes a collection that has become empty.
func (m model) trim(key string) {
	if e := m[key]; e != nil && e.kind != "string" && len(e.list) == 0 && len(e.pairs) == 0 {
		delete(m, key)
	}
}

// apply runs one command of the workload.
func (m model) apply(args []string) {
	key := args[1]
	switch args[0] {
	case "SET":
		e := &entry{kind: "string", str: args[2], expireAtMs: -1}
		if len(args) == 5 && args[3] == "PXAT" {
			e.expireAtMs, _ = strconv.ParseInt(args[4], 10, 64)
		}
		m[key] = e
	case "MSET":
		for i := 1; i+1 < len(args); i += 2 {
			m[args[i]] = &entry{kind: "string", str: args[i+1], expireAtMs: -1}
		}
	case "APPEND":
		m.at(key, "string").str += args[2]
	case "INCR":
		e := m.at(key, "string")
		n, _ := strconv.Atoi(e.str)
		e.str = strconv.Itoa(n + 1)
	case "DEL":
		for _, k := range args[1:] {
			delete(m, k)
		}
	case "RENAME":
		m[args[2]] = m[key]
		delete(m, key)
	case "PEXPIREAT":
		if e := m[key]; e != nil {
			e.expireAtMs, _ = strconv.ParseInt(args[2], 10, 64)
		}
	case "PERSIST":
		if e := m[key]; e != nil {
			e.expireAtMs = -1
		}
	case "RPUSH":
		e := m.at(key, "list")
		e.list = append(e.list, args[2:]...)
	case "LPOP":
		if e := m[key]; e != nil {
			e.list = e.list[1:]
			m.trim(key)
		}
	case "LTRIM":
		if e := m[key]; e != nil {
			n, _ := strconv.Atoi(args[2])
			e.list = e.list[max(0, len(e.list)+n):]
		}
	case "RPOPLPUSH":
		if e := m[key]; e != nil {
			last := e.list[len(e.list)-1]
			e.list = e.list[:len(e.list)-1]
			// Pushed before the source is looked at: a list that turns around on itself never goes.
			d := m.at(args[2], "list")
			d.list = append([]string{last}, d.list...)
			m.trim(key)
		}
	case "HSET":
		e := m.at(key, "hash")
		for i := 2; i+1 < len(args); i += 2 {
			e.pairs[args[i]] = args[i+1]
		}
	case "HDEL", "SREM", "ZREM":
		if e := m[key]; e != nil {
			for _, f := range args[2:] {
				delete(e.pairs, f)
			}
			m.trim(key)
		}
	case "SADD":
		e := m.at(key, "set")
		for _, member := range args[2:] {
			e.pairs[member] = ""
		}
	case "SMOVE":
		if e := m[key]; e != nil {
			if _, ok := e.pairs[args[3]]; ok {
				delete(e.pairs, args[3])
				m.at(args[2], "set").pairs[args[3]] = ""
				m.trim(key)
			}
		}
	case "SUNIONSTORE":
		e := &entry{kind: "set", pairs: map[string]string{}, expireAtMs: -1}
		for _, src := range args[2:] {
			if s := m[src]; s != nil {
				for member := range s.pairs {
					e.pairs[member] = ""
				}
			}
		}
		m[key] = e
		m.trim(key)
	case "ZADD":
		m.at(key, "zset").pairs[args[3]] = args[2]
	case "ZINCRBY":
		e := m.at(key, "zset")
		a, _ := strconv.Atoi(e.pairs[args[3]])
		b, _ := strconv.Atoi(args[2])
		e.pairs[args[3]] = strconv.Itoa(a + b)
	default:
		panic("the model does not know " + args[0])
	}
}

// dump is the model as a server would show it in database db.
func (m model) dump(db int) keyspace.Dump {
	out := keyspace.Dump{}
	for k, e := range m {
		v := keyspace.Value{Type: e.kind, ExpireAtMs: e.expireAtMs}
		switch e.kind {
		case "string":
			v.Parts = []string{e.str}
		case "list":
			v.Parts = e.list
		default:
			var names []string
			for f := range e.pairs {
				names = append(names, f)
			}
			sort.Slice(names, func(i, j int) bool {
				if e.kind == "zset" {
					a, _ := strconv.Atoi(e.pairs[names[i]])
					b, _ := strconv.Atoi(e.pairs[names[j]])
					if a != b {
						return a < b
					}
				}
				return names[i] < names[j]
			})
			for _, f := range names {
				v.Parts = append(v.Parts, f)
				if e.kind != "set" {
					v.Parts = append(v.Parts, e.pairs[f])
				}
			}
		}
		out[keyspace.Key{DB: db, Name: k}] = v
	}
	return out
}

// unit is what is acknowledged as one: a command, or the commands of a MULTI.
type unit [][]string

// nextUnit makes a unit on the keys that begin with prefix. n makes its values unlike any other's.
func nextUnit(rng *rand.Rand, prefix string, n int) unit {
	if rng.IntN(4) == 0 {
		var u unit
		for range 2 + rng.IntN(5) {
			u = append(u, nextCommand(rng, prefix, n))
		}
		if rng.IntN(3) == 0 {
			from, to := prefix+"r"+strconv.Itoa(rng.IntN(3)), prefix+"s"+strconv.Itoa(rng.IntN(6))
			u = append(u, []string{"SET", from, "renamed " + strconv.Itoa(n)}, []string{"RENAME", from, to})
		}
		return u
	}
	return unit{nextCommand(rng, prefix, n)}
}

func nextCommand(rng *rand.Rand, prefix string, n int) []string {
	key := func(kind string, count int) string { return prefix + kind + strconv.Itoa(rng.IntN(count)) }
	value := strconv.Itoa(n)
	member := "m" + strconv.Itoa(rng.IntN(30))
	far := strconv.FormatInt(4_000_000_000_000+int64(n), 10)
	switch rng.IntN(22) {
	case 0, 1, 2:
		return []string{"SET", key("s", 6), value}
	case 3:
		return []string{"SET", key("s", 6), value, "PXAT", far}
	case 4:
		return []string{"MSET", key("s", 6), value, key("s", 6), "b" + value, key("s", 6), "c" + value}
	case 5:
		return []string{"APPEND", key("s", 6), "+" + value}
	case 6, 7:
		return []string{"INCR", key("c", 3)}
	case 8:
		return []string{"DEL", key("s", 6), key("l", 2), key("h", 2)}
	case 9:
		return []string{"PEXPIREAT", key([]string{"s", "l", "h", "t", "z"}[rng.IntN(5)], 2), far}
	case 10:
		return []string{"PERSIST", key("s", 6)}
	case 11, 12:
		return []string{"RPUSH", key("l", 2), value, "b" + value}
	case 13:
		return []string{"LPOP", key("l", 2)}
	case 14:
		return []string{"LTRIM", key("l", 2), "-60", "-1"}
	case 15:
		return []string{"RPOPLPUSH", key("l", 2), key("l", 2)}
	case 16:
		return []string{"HSET", key("h", 2), member, value, "f" + member, "w" + value}
	case 17:
		return []string{"HDEL", key("h", 2), member}
	case 18:
		return []string{"SADD", key("t", 2), member, "x" + member}
	case 19:
		if rng.IntN(2) == 0 {
			return []string{"SMOVE", key("t", 2), key("t", 2), member}
		}
		return []string{"SUNIONSTORE", key("t", 2), key("t", 2), key("t", 2)}
	case 20:
		return []string{"ZADD", key("z", 2), strconv.Itoa(rng.IntN(50)), member}
	}
	if rng.IntN(2) == 0 {
		return []string{"ZREM", key("z", 2), member}
	}
	return []string{"ZINCRBY", key("z", 2), strconv.Itoa(rng.IntN(9)), member}
}
