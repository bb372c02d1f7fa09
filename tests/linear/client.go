package linear

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"kevy/tests/wire"
)

// scripts are the commands of the model that a server knows from their text.
var scripts = map[string]string{
	"swap": `local a, b = redis.call('GET', %[1]s[1]), redis.call('GET', %[1]s[2])
if b then redis.call('SET', %[1]s[1], b) else redis.call('DEL', %[1]s[1]) end
if a then redis.call('SET', %[1]s[2], a) else redis.call('DEL', %[1]s[2]) end
return {a or '', b or ''}`,
	"drain": `local n = 0
while redis.call('LMOVE', %[1]s[1], %[1]s[2], 'LEFT', 'RIGHT') do n = n + 1 end
return n`,
	"survey": `local out = {}
for i = 1, 3 do out[i] = redis.call('GET', %[1]s[i]) or '' end
for i = 4, 5 do out[i] = table.concat(redis.call('LRANGE', %[1]s[i], 0, -1), ',') end
for i = 6, 7 do
  local members = redis.call('SMEMBERS', %[1]s[i])
  table.sort(members)
  out[i] = table.concat(members, ',')
end
return out`,
}

// groupName is what the names of a group's keys begin with.
func groupName(group int) string { return "g" + strconv.Itoa(group) + ":" }

// words is a command as it is sent. A script with "undeclared" among its arguments gets its keys as arguments.
func (c command) words(group int) []string {
	keys := make([]string, len(c.keys))
	for i, k := range c.keys {
		keys[i] = groupName(group) + keyNames[k]
	}
	if script, ok := scripts[c.name]; ok {
		if slices.Contains(c.args, "undeclared") {
			return append([]string{"EVAL", fmt.Sprintf(script, "ARGV"), "0"}, keys...)
		}
		return append([]string{"EVAL", fmt.Sprintf(script, "KEYS"), strconv.Itoa(len(keys))}, keys...)
	}
	out := []string{c.name}
	switch c.name {
	case "MSET", "MSETNX":
		for i, k := range keys {
			out = append(out, k, c.args[i])
		}
		return out
	case "BLPOP":
		return append(append(out, keys...), c.args[0])
	}
	return append(append(out, keys...), c.args...)
}

// timed is an operation with its reply, and when it was sent and answered.
type timed struct {
	operation
	reply            string
	called, returned time.Duration
}

// String is a line of a history.
func (t timed) String() string {
	var words []string
	for _, c := range t.commands {
		name := c.words(t.group)
		if name[0] == "EVAL" {
			name = append([]string{c.name}, name[2:]...)
		}
		words = append(words, strings.Join(name, " "))
	}
	text := strings.Join(words, "; ")
	if t.transaction {
		text = "EXEC(" + text + ")"
	}
	return fmt.Sprintf("%9d–%-9d client %-2d %s → %s", t.called.Microseconds(), t.returned.Microseconds(), t.client, text, t.reply)
}

// client sends operations one after the other and notes what happened.
type client struct {
	id      int
	conn    *wire.Conn
	rng     *rand.Rand
	start   time.Time // the same for all
	history []timed
	values  int
}

// connect is a client of the server; RESP3 tells sets from arrays.
func connect(addr string, id int, seed uint64, start time.Time) (*client, error) {
	conn, err := wire.Dial(addr)
	if err != nil {
		return nil, err
	}
	if r, err := conn.Do("HELLO", "3"); err != nil || r.Kind != wire.Map {
		conn.Close()
		return nil, fmt.Errorf("HELLO 3: %s, %v", r, err)
	}
	return &client{id: id, conn: conn, rng: rand.New(rand.NewPCG(seed, uint64(id))), start: start}, nil
}

// do sends an operation, waits for its reply and notes both.
func (c *client) do(op operation) (string, error) {
	var lines [][]string
	for _, cmd := range op.commands {
		words := cmd.words(op.group)
		if cmd.name == "DISCARD" {
			lines = append(lines, []string{"MULTI"})
		}
		lines = append(lines, words)
	}
	if op.transaction {
		lines = append(append([][]string{{"MULTI"}}, lines...), []string{"EXEC"})
	}
	op.client = c.id
	called := time.Since(c.start)
	replies, err := c.conn.Pipeline(lines...)
	if err != nil {
		return "", err
	}
	last := inOrder(replies[len(replies)-1]).String()
	c.history = append(c.history, timed{op, last, called, time.Since(c.start)})
	return last, nil
}

// inOrder sorts the members of sets.
func inOrder(r wire.Reply) wire.Reply {
	for i, e := range r.Elems {
		r.Elems[i] = inOrder(e)
	}
	if r.Kind == wire.Set {
		sort.Slice(r.Elems, func(i, j int) bool { return string(r.Elems[i].Text) < string(r.Elems[j].Text) })
	}
	return r
}

func (c *client) one(group int, name string, keys []int, args ...string) (string, error) {
	return c.do(operation{group: group, commands: []command{{name, keys, args}}})
}

// value is one that no other client and no other operation writes.
func (c *client) value() string {
	c.values++
	return fmt.Sprintf("%d.%d", c.id, c.values)
}

func (c *client) p(percent int) bool { return c.rng.IntN(100) < percent }

// either is two keys of one type in a random order.
func (c *client) either(a, b int) []int {
	if c.p(50) {
		return []int{b, a}
	}
	return []int{a, b}
}

// pair is two different keys of one type.
func (c *client) pair() []int {
	switch c.rng.IntN(3) {
	case 0:
		return c.either(keyL, keyM)
	case 1:
		return c.either(keyS, keyT)
	}
	return c.either(keyA, keyB)
}

func (c *client) end() string {
	if c.p(50) {
		return "LEFT"
	}
	return "RIGHT"
}

// everything is all keys of a group.
var everything = []int{keyA, keyB, keyN, keyL, keyM, keyS, keyT}

// next is a random command; with whole, also one of those that take a database.
func (c *client) next(group int, whole bool) command {
	strings, lists, sets := c.either(keyA, keyB), c.either(keyL, keyM), c.either(keyS, keyT)
	var declared []string
	if c.p(50) {
		declared = []string{"undeclared"}
	}
	if whole && c.p(15) {
		if c.p(50) {
			return command{"SWAPDB", nil, []string{"0", "1"}}
		}
		return command{"FLUSHDB", nil, nil}
	}
	switch c.rng.IntN(34) {
	case 0:
		return command{"SET", strings[:1], []string{c.value()}}
	case 1:
		return command{"GET", strings[:1], nil}
	case 2:
		return command{"GETDEL", strings[:1], nil}
	case 3, 4:
		return command{"MSET", strings, []string{c.value(), c.value()}}
	case 5:
		return command{"MSETNX", strings, []string{c.value(), c.value()}}
	case 6, 7:
		return command{"MGET", []int{keyA, keyB, keyN}, nil}
	case 8:
		return command{"INCR", []int{keyN}, nil}
	case 9:
		return command{"EXISTS", everything, nil}
	case 10:
		return command{"DEL", c.pair(), nil}
	case 11, 12:
		return command{"RENAME", c.pair(), nil}
	case 13:
		return command{"COPY", c.pair(), []string{"REPLACE"}}
	case 14, 15:
		return command{"RPUSH", lists[:1], []string{c.value(), c.value()}[:1+c.rng.IntN(2)]}
	case 16:
		return command{"LPUSH", lists[:1], []string{c.value()}}
	case 17:
		return command{"LPOP", lists[:1], nil}
	case 18, 19:
		return command{"LMOVE", lists, []string{c.end(), c.end()}}
	case 20:
		return command{"LRANGE", lists[:1], []string{"0", "-1"}}
	case 21:
		return command{"SADD", sets[:1], []string{strconv.Itoa(c.rng.IntN(4))}}
	case 22, 23:
		return command{"SMOVE", sets, []string{strconv.Itoa(c.rng.IntN(4))}}
	case 24:
		if c.p(50) {
			return command{"SUNIONSTORE", []int{sets[0], keyS, keyT}, nil}
		}
		return command{"SMEMBERS", sets[:1], nil}
	case 25:
		return command{"swap", strings, declared}
	case 26:
		return command{"drain", lists, declared}
	case 27:
		return command{"survey", everything, declared}
	case 28, 29:
		return command{"LPOP", lists[:1], nil}
	case 30, 31:
		return command{"BLPOP", lists, []string{"0.02", groupName(group)}}
	}
	return command{"BLMOVE", lists, []string{c.end(), c.end(), "0.02"}}
}

// act performs one random operation, or the several of a transaction that watches keys.
func (c *client) act(group int, whole bool) error {
	if c.p(70) {
		_, err := c.do(operation{group: group, commands: []command{c.next(group, whole)}})
		return err
	}
	if c.p(70) {
		keys := c.pair()
		if c.p(40) {
			keys = keys[:1]
		}
		if _, err := c.one(group, "WATCH", keys); err != nil {
			return err
		}
		if c.p(50) {
			if _, err := c.do(operation{group: group, commands: []command{c.next(group, whole)}}); err != nil {
				return err
			}
		}
		if c.p(8) {
			_, err := c.one(group, []string{"UNWATCH", "DISCARD"}[c.rng.IntN(2)], nil)
			return err
		}
	}
	op := operation{group: group, transaction: true}
	for range 1 + c.rng.IntN(4) {
		op.commands = append(op.commands, c.next(group, whole))
	}
	_, err := c.do(op)
	return err
}
