// Package linear checks that a server is linearizable: what many clients are answered, each in its own time,
// is what one client would have been answered for the same commands, one after the other. The model in this
// file says what that one would have been answered; porcupine looks for the order.
//
// Keys come in groups, and no operation touches two, so that each group has a history of its own: to look for the
// order of a history takes long where it is long. The keys of a group lie in several shards.
package linear

import (
	"slices"
	"strconv"
	"strings"
)

// The keys of a group: two strings, a counter, two lists, two sets. What is in them keeps its type.
const (
	keyA = iota
	keyB
	keyN
	keyL
	keyM
	keyS
	keyT
	groupKeys
)

// keyNames are what follows the group's name in a key's.
var keyNames = [groupKeys]string{"a", "b", "n", "l", "m", "s", "t"}

// maxClients is how many clients a state can follow.
const maxClients = 16

// dirty is set in a client's watch when one of its keys has changed.
const dirty = 1 << 7

// state is a group in databases 0 and 1, and who watches which of its keys in database 0. A string is
// its value, a list or set its elements with commas between, a set in order; what is empty does not exist.
type state struct {
	db    [2][groupKeys]string
	watch [maxClients]uint8
}

// command is one that the model knows. Its keys are of one group, and its arguments follow them.
type command struct {
	name string
	keys []int
	args []string
}

// operation is what one client has sent, a command or a transaction of several, and when.
type operation struct {
	client      int
	group       int
	transaction bool
	commands    []command
}

// touch is a change of a key in database 0.
func (s *state) touch(k int) {
	for i, w := range s.watch {
		if w&(1<<k) != 0 {
			s.watch[i] |= dirty
		}
	}
}

func (s *state) set(k int, value string) {
	s.db[0][k] = value
	s.touch(k)
}

// remove reports whether the key was there.
func (s *state) remove(k int) bool {
	if s.db[0][k] == "" {
		return false
	}
	s.set(k, "")
	return true
}

func elements(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// pop takes an element from an end of a list.
func (s *state) pop(k int, end string) (string, bool) {
	list := elements(s.db[0][k])
	if len(list) == 0 {
		return "", false
	}
	at := 0
	if end == "RIGHT" {
		at = len(list) - 1
	}
	elem := list[at]
	s.set(k, strings.Join(slices.Delete(list, at, at+1), ","))
	return elem, true
}

func (s *state) push(k int, end, elem string) {
	switch list := s.db[0][k]; {
	case list == "":
		s.set(k, elem)
	case end == "LEFT":
		s.set(k, elem+","+list)
	default:
		s.set(k, list+","+elem)
	}
}

func (s *state) move(from, to int, fromEnd, toEnd string) (string, bool) {
	elem, ok := s.pop(from, fromEnd)
	if ok {
		s.push(to, toEnd, elem)
	}
	return elem, ok
}

func (s *state) setSet(k int, members []string) {
	slices.Sort(members)
	s.set(k, strings.Join(slices.Compact(members), ","))
}

// Replies, as wire.Reply shows them in RESP3.

func bulk(text string) string { return `"` + text + `"` }

func orNil(text string, ok bool) string {
	if !ok {
		return "_nil"
	}
	return bulk(text)
}

func integer(n int) string { return ":" + strconv.Itoa(n) }

func array(open, end string, elems []string) string {
	quoted := make([]string, len(elems))
	for i, e := range elems {
		quoted[i] = bulk(e)
	}
	return open + strings.Join(quoted, ", ") + end
}

// perform runs an operation and reports whether it may have had this reply.
func (s *state) perform(op operation, reply string) bool {
	if !op.transaction {
		c := op.commands[0]
		switch c.name {
		case "WATCH":
			for _, k := range c.keys {
				s.watch[op.client] |= 1 << k
			}
			return reply == "+OK"
		case "UNWATCH", "DISCARD":
			s.watch[op.client] = 0
			return reply == "+OK"
		case "BLPOP":
			return s.blockingPop(c, reply)
		}
		return s.run(c) == reply
	}
	watch := s.watch[op.client]
	s.watch[op.client] = 0
	if watch&dirty != 0 {
		return reply == "_nil"
	}
	replies := make([]string, len(op.commands))
	for i, c := range op.commands {
		replies[i] = s.run(c)
	}
	return reply == "["+strings.Join(replies, ", ")+"]"
}

// blockingPop is BLPOP. Who has waited is served from the key that changed first, and not from the first that
// it names, so each of its keys will do.
func (s *state) blockingPop(c command, reply string) bool {
	before := *s
	any := false
	for _, k := range c.keys {
		elem, ok := s.pop(k, "LEFT")
		if ok && reply == poppedFrom(c, k, elem) {
			return true
		}
		any = any || ok
		*s = before
	}
	return !any && reply == "_nil"
}

// poppedFrom is the reply of BLPOP; the last argument of c is the group's name.
func poppedFrom(c command, k int, elem string) string {
	return array("[", "]", []string{c.args[len(c.args)-1] + keyNames[k], elem})
}

// run is a command that does not wait, and its reply.
func (s *state) run(c command) string {
	db := &s.db[0]
	k := -1
	if len(c.keys) > 0 {
		k = c.keys[0]
	}
	switch c.name {
	case "SET":
		s.set(k, c.args[0])
		return "+OK"
	case "GET":
		return orNil(db[k], db[k] != "")
	case "GETDEL":
		was := db[k]
		return orNil(was, s.remove(k))
	case "INCR":
		n, _ := strconv.Atoi(db[k])
		s.set(k, strconv.Itoa(n+1))
		return integer(n + 1)
	case "MSET":
		for i, k := range c.keys {
			s.set(k, c.args[i])
		}
		return "+OK"
	case "MSETNX":
		for _, k := range c.keys {
			if db[k] != "" {
				return ":0"
			}
		}
		for i, k := range c.keys {
			s.set(k, c.args[i])
		}
		return ":1"
	case "MGET":
		out := make([]string, len(c.keys))
		for i, k := range c.keys {
			out[i] = orNil(db[k], db[k] != "")
		}
		return "[" + strings.Join(out, ", ") + "]"
	case "EXISTS":
		n := 0
		for _, k := range c.keys {
			if db[k] != "" {
				n++
			}
		}
		return integer(n)
	case "DEL":
		n := 0
		for _, k := range c.keys {
			if s.remove(k) {
				n++
			}
		}
		return integer(n)
	case "RENAME":
		was := db[k]
		if !s.remove(k) {
			return "-ERR no such key"
		}
		s.set(c.keys[1], was)
		return "+OK"
	case "COPY":
		if db[k] == "" {
			return ":0"
		}
		s.set(c.keys[1], db[k])
		return ":1"
	case "LPUSH", "RPUSH":
		for _, e := range c.args {
			s.push(k, map[string]string{"LPUSH": "LEFT", "RPUSH": "RIGHT"}[c.name], e)
		}
		return integer(len(elements(db[k])))
	case "LPOP":
		return orNil(s.pop(k, "LEFT"))
	case "LMOVE":
		return orNil(s.move(k, c.keys[1], c.args[0], c.args[1]))
	case "BLMOVE":
		return orNil(s.move(k, c.keys[1], c.args[0], c.args[1]))
	case "BLPOP": // in a transaction: the first key that has one
		for _, k := range c.keys {
			if elem, ok := s.pop(k, "LEFT"); ok {
				return poppedFrom(c, k, elem)
			}
		}
		return "_nil"
	case "LRANGE":
		return array("[", "]", elements(db[k]))
	case "SADD":
		members := elements(db[k])
		if slices.Contains(members, c.args[0]) {
			return ":0"
		}
		s.setSet(k, append(members, c.args[0]))
		return ":1"
	case "SMOVE":
		from, to := elements(db[k]), elements(db[c.keys[1]])
		at := slices.Index(from, c.args[0])
		if at < 0 {
			return ":0"
		}
		s.setSet(k, slices.Delete(from, at, at+1))
		if !slices.Contains(to, c.args[0]) {
			s.setSet(c.keys[1], append(to, c.args[0]))
		}
		return ":1"
	case "SMEMBERS":
		return array("set{", "}", elements(db[k]))
	case "SUNIONSTORE":
		all := append(elements(db[c.keys[1]]), elements(db[c.keys[2]])...)
		if len(all) == 0 {
			s.remove(k)
			return ":0"
		}
		s.setSet(k, all)
		return integer(len(elements(db[k])))
	case "FLUSHDB":
		for k := range groupKeys {
			s.remove(k)
		}
		return "+OK"
	case "SWAPDB":
		s.db[0], s.db[1] = s.db[1], s.db[0]
		for k := range groupKeys {
			if s.db[0][k] != "" || s.db[1][k] != "" {
				s.touch(k)
			}
		}
		return "+OK"
	case "swap":
		a, b := db[k], db[c.keys[1]]
		for i, value := range []string{b, a} {
			if value == "" {
				s.remove(c.keys[i])
			} else {
				s.set(c.keys[i], value)
			}
		}
		return array("[", "]", []string{a, b})
	case "drain":
		n := 0
		for {
			if _, ok := s.move(k, c.keys[1], "LEFT", "RIGHT"); !ok {
				return integer(n)
			}
			n++
		}
	case "survey":
		return array("[", "]", []string{db[keyA], db[keyB], db[keyN], db[keyL], db[keyM], db[keyS], db[keyT]})
	}
	panic("the model does not know " + c.name)
}
