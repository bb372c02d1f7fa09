package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/internal/command"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// newerThanOracle are commands that take an option of Redis 7.2, and so more
// arguments.
var newerThanOracle = map[string]bool{"zrank": true, "zrevrank": true}

// oracle is a redis-server with a connection in each protocol version.
func oracle(t *testing.T) (server *process.Server, resp2, resp3 *conn) {
	server = process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}})
	resp2, resp3 = &conn{server.Conn(t), t}, &conn{server.Conn(t), t}
	resp3.do("HELLO 3")
	return server, resp2, resp3
}

// sharedCommands are the full names of what both servers have, containers and
// subcommands included.
func sharedCommands(t *testing.T, in *instance, redis *conn) []*command.Spec {
	known := make(map[string]bool)
	for _, name := range redis.do("COMMAND LIST").Strings() {
		known[name] = true
	}
	var shared []*command.Spec
	for _, s := range in.exec.Table().All() {
		for _, one := range append([]*command.Spec{s}, s.Sub...) {
			if known[one.FullName()] && !newerThanOracle[one.FullName()] {
				shared = append(shared, one)
			}
		}
	}
	if len(shared) < 200 {
		t.Fatalf("the servers share %d commands", len(shared))
	}
	return shared
}

// TestCommandInfoIsRedis compares COMMAND INFO of every shared command.
func TestCommandInfoIsRedis(t *testing.T) {
	in := start(t)
	_, redis2, redis3 := oracle(t)
	ours2, ours3 := in.conn(), in.conn()
	ours3.do("HELLO 3")
	shared := sharedCommands(t, in, redis2)
	have := make(map[string]bool)
	for _, s := range shared {
		have[s.FullName()] = true
	}
	for _, s := range shared {
		for _, pair := range [][2]*conn{{redis2, ours2}, {redis3, ours3}} {
			line := "COMMAND INFO " + s.FullName()
			want, got := infoText(pair[0].do(line), have), infoText(pair[1].do(line), have)
			if differs := slices.Contains(flagsSince, s.FullName()); (got != want) != differs {
				t.Errorf("%s:\n got  %s\n want %s\n another one than in 7.0: %v", line, got, want, differs)
			}
		}
	}
}

// flagsSince are the commands of which newer versions of Redis say something else: that
// scripts may call them. TestSpecs of their families holds them to these.
var flagsSince = []string{"blmove", "blpop", "brpop", "brpoplpush", "bzpopmax", "bzpopmin", "wait"}

// infoText is a reply to COMMAND INFO of one command with the names only of the
// subcommands that both servers have: each is compared by itself.
func infoText(r wire.Reply, have map[string]bool) string {
	if len(r.Elems) != 1 || len(r.Elems[0].Elems) != 10 {
		return r.String()
	}
	parts := r.Elems[0].Elems
	subs := parts[9]
	text := ""
	for _, p := range parts[:9] {
		text += p.String() + " "
	}
	// In redis-server they come in the order of a hash table.
	names := make(map[string]bool)
	for _, sub := range subs.Elems {
		if name := string(sub.Elems[0].Text); have[name] {
			names[name] = true
		}
	}
	if len(names) == 0 {
		return text
	}
	return fmt.Sprint(text, string(subs.Kind), names)
}

// TestGetKeysIsRedis compares what both servers take for the keys of command
// lines that make sense and of many that do not.
func TestGetKeysIsRedis(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	words := []string{
		"", "k1", "k2", "k3", "0", "1", "2", "3", "4", "-1", "01", "+1", " 1", "2abc", "abc", "1.5", "9223372036854775808", "get", "GET", "gET", "SET",
		"INCRBY", "OVERFLOW", "u8", "WRAP", "store", "LIMIT", "LEFT", "COUNT", "WITHSCORES", "a\x00b", "é", "\xff",
	}
	in := start(t)
	_, redis, _ := oracle(t)
	ours := in.conn()
	compared := 0
	for _, s := range sharedCommands(t, in, redis) {
		lists := 6
		if s.HasKeys() {
			lists = 150
		}
		var cmds [][]string
		for i := range lists {
			line := []string{"COMMAND", "GETKEYSANDFLAGS"}
			if i%2 == 0 {
				line[1] = "GETKEYS"
			}
			line = append(line, strings.Split(s.FullName(), "|")...)
			least := max(s.Arity, -s.Arity) - strings.Count(s.FullName(), "|") - 1
			n := least + rng.IntN(6)
			if rng.IntN(10) == 0 {
				n = rng.IntN(least + 1)
			}
			if i%3 == 0 {
				line = append(line, awkward(rng, fromSyntax(rng, s.Arguments()), words)...)
				n = 0
			}
			for range n {
				line = append(line, words[rng.IntN(len(words))])
			}
			cmds = append(cmds, line)
		}
		want, err := redis.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cmds {
			if want[i].String() != got[i].String() && !newer(cmds[i]) {
				t.Errorf("%q:\n got  %s\n want %s", cmds[i], got[i], want[i])
			}
			compared++
		}
	}
	if compared < 15_000 {
		t.Errorf("%d command lines were compared", compared)
	}
}

// newer reports whether a command line has an option that redis-server 7.0 does
// not know, and that changes what is done to its keys.
func newer(line []string) bool {
	return line[2] == "set" && slices.ContainsFunc(line[3:], func(word string) bool {
		return slices.Contains([]string{"IFEQ", "IFNE", "IFDEQ", "IFDNE"}, strings.ToUpper(word))
	})
}

// fromSyntax writes arguments that fit, numbers of keys aside.
func fromSyntax(rng *rand.Rand, args []command.Argument) (words []string) {
	for i := range args {
		a := &args[i]
		if a.Optional && rng.IntN(2) == 0 {
			continue
		}
		times := 1
		if a.Multiple {
			times += rng.IntN(3)
		}
		for n := range times {
			if a.Token != "" && (n == 0 || a.MultipleToken) {
				words = append(words, a.Token)
			}
			switch a.Type {
			case command.PureToken:
			case command.OneOf:
				pick := rng.IntN(len(a.Arguments))
				words = append(words, fromSyntax(rng, a.Arguments[pick:pick+1])...)
			case command.Block:
				words = append(words, fromSyntax(rng, a.Arguments)...)
			case command.IntegerArgument, command.UnixTimeArgument:
				words = append(words, strconv.Itoa(rng.IntN(4)))
			case command.DoubleArgument:
				words = append(words, "1.5")
			default:
				words = append(words, fmt.Sprint(a.Name, rng.IntN(3)))
			}
		}
	}
	return words
}

// awkward changes some of the arguments: their case, their order, their number.
func awkward(rng *rand.Rand, args, words []string) []string {
	for range rng.IntN(3) {
		if len(args) == 0 {
			break
		}
		i := rng.IntN(len(args))
		switch rng.IntN(5) {
		case 0:
			args = append(args[:i:i], args[i+1:]...)
		case 1:
			args = append(args[:i:i], append([]string{args[i]}, args[i:]...)...)
		case 2:
			args[i] = strings.ToLower(args[i])
		case 3:
			j := rng.IntN(len(args))
			args[i], args[j] = args[j], args[i]
		case 4:
			args[i] = words[rng.IntN(len(words))]
		}
	}
	return args
}

// TestCommandListNamesAll: every name that COMMAND LIST gives is known to
// COMMAND INFO and COMMAND DOCS.
func TestCommandListNamesAll(t *testing.T) {
	in := start(t)
	c := in.conn()
	names := c.do("COMMAND LIST").Strings()
	if len(names) != in.exec.Table().Len() {
		t.Errorf("%d names, %d commands", len(names), in.exec.Table().Len())
	}
	infos, docs := c.do("COMMAND INFO "+strings.Join(names, " ")), c.do("COMMAND DOCS "+strings.Join(names, " "))
	if len(docs.Elems) != 2*len(names) {
		t.Errorf("%d documents for %d names", len(docs.Elems)/2, len(names))
	}
	for i, name := range names {
		if infos.Elems[i].IsNil() || string(infos.Elems[i].Elems[0].Text) != name {
			t.Errorf("COMMAND INFO %s: %s", name, infos.Elems[i])
		}
		doc := docs.Elems[2*i+1].String()
		if !strings.HasPrefix(doc, `["summary", "`) || !strings.Contains(doc, `"group", "`) {
			t.Errorf("COMMAND DOCS %s: %s", name, doc)
		}
		spec := in.exec.Table().Named(name)
		if takes := spec.Arity < 0 || spec.Arity > 1+strings.Count(name, "|"); takes && len(spec.Sub) == 0 && name != "quit" && spec.Group != "cluster" && !strings.Contains(doc, `"arguments", [["name", "`) {
			t.Errorf("COMMAND DOCS %s has no arguments: %s", name, doc)
		}
	}
	if n, _ := c.do("COMMAND COUNT").Int(); n != int64(len(in.exec.Table().All())) {
		t.Errorf("COMMAND COUNT: %d", n)
	}
}

// newerTokens are those of options that Redis 7.0 lacks.
var newerTokens = map[string]string{
	"set": "IFEQ IFNE IFDEQ IFDNE", "xadd": "KEEPREF DELREF ACKED", "xtrim": "KEEPREF DELREF ACKED",
	// What follows these names is a text to Redis.
	"pfdebug": "DECODE ENCODING GETREG TODENSE",
	"bitop":   "AND OR XOR NOT DIFF DIFF1 ANDOR ONE", "zrank": "WITHSCORE", "zrevrank": "WITHSCORE", "hscan": "NOVALUES",
	"client|kill": "MAXAGE",
}

// TestDocsHaveRedisTokens: the arguments that COMMAND DOCS tells of have every
// token that redis-server's have, and else only those of newer options.
func TestDocsHaveRedisTokens(t *testing.T) {
	in := start(t)
	_, redis, _ := oracle(t)
	ours := in.conn()
	compared := 0
	for _, s := range sharedCommands(t, in, redis) {
		if len(s.Sub) > 0 || s.Group == "cluster" {
			continue
		}
		name := s.FullName()
		want, got := tokensOf(redis.do("COMMAND DOCS "+name)), tokensOf(ours.do("COMMAND DOCS "+name))
		for _, newer := range strings.Fields(newerTokens[name]) {
			if !got[newer] {
				t.Errorf("%s has no token %s", name, newer)
			}
			delete(got, newer)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s has the tokens %v, redis-server's %v", name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		compared += len(want)
	}
	if compared < 100 {
		t.Errorf("%d tokens were compared", compared)
	}
}

// tokensOf collects what stands behind the word token, at any depth.
func tokensOf(r wire.Reply) map[string]bool {
	tokens := make(map[string]bool)
	for i, e := range r.Elems {
		if i%2 == 1 && string(r.Elems[i-1].Text) == "token" {
			tokens[string(e.Text)] = true
		}
		maps.Copy(tokens, tokensOf(e))
	}
	return tokens
}
