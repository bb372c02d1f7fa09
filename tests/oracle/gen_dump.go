package oracle

import "strconv"

// dumpFamily has DUMP and RESTORE. What either server dumps must be good for the other.
var dumpFamily = family{
	keys: map[byte][]string{'r': {"r0", "{tag}r"}},
	makers: []maker{
		{"DUMP", 3, func(g *Generator) [][]byte { return join("DUMP", g.anyKey()) }, true, false},
		{"RESTORE", 3, makeRestore, true, false},
		{"RESTORE-ASKING", 1, func(g *Generator) [][]byte {
			args := makeRestore(g)
			args[0] = []byte("RESTORE-ASKING")
			return args
		}, true, false},
	},
	modes:    map[string]mode{"DUMP": shape},
	specials: map[string]special{"DUMP": {run: dumpAcross, queued: true}},
	avoid:    map[string]func(*Generator, [][]byte) bool{"RESTORE": restoredSoon, "RESTORE-ASKING": restoredSoon},
}

// payloads are what redis-server 7.0.15 dumps: a text, an integer, a compressed text, a list, two sets, a hash
// and a sorted set.
var payloads = []string{
	"\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17",
	"\x00\xc190\n\x00\x9d\x94\xea'\x93\xfc\x08\xb9",
	"\x00\xc3\t@d\x01xx\xe0W\x00\x01xx\n\x00]\xb7\xf6c\xbb\x08b_",
	"\x12\x01\x02\x10\x10\x00\x00\x00\x03\x00\x81a\x02\x01\x01\x82bb\x03\xff\n\x00\xdf\n\xf3\x10\xbe\x9d\x9e\x9d",
	"\x0b\x0e\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x02\x00,\x01\n\x00\xe5\x10\xb2\x8e{\x95)\xaa",
	"\x02\x01\x01x\n\x00\xff\xe8\x80\xbav\x0c/\t",
	"\x10\x12\x12\x00\x00\x00\x04\x00\x81f\x02\x81v\x02\x81g\x02\x01\x01\xff\n\x00#\xc1\xa5\xe3]\xfa\xe8\x1c",
	"\x11\x15\x15\x00\x00\x00\x04\x00\x81n\x02\xdf\xfe\x02\x81m\x02\x831.5\x04\xff\n\x00:\xab&v\xca\xcef`",
}

func makeRestore(g *Generator) [][]byte {
	payload := g.oneOf(payloads...)
	if g.p(15) {
		b := []byte(payload)
		b[g.rng.IntN(len(b))] ^= 1 << g.rng.IntN(8)
		payload = string(b[:len(b)-g.rng.IntN(2)])
	}
	ttl, absolute := g.milliseconds(), []string(nil)
	switch g.rng.IntN(3) {
	case 0:
		ttl = "0"
	case 1:
		ttl, absolute = g.unixMilliseconds(), []string{"ABSTTL"}
	}
	return join("RESTORE", g.key('r'), ttl, payload, absolute, g.maybe(60, "REPLACE"),
		g.maybe(10, "IDLETIME", g.count()), g.maybe(10, "FREQ", g.oneOf("0", "255", "256", "-1", "abc")))
}

func restoredSoon(g *Generator, args [][]byte) bool {
	return g.near(args, 2, 1, 0) || g.near(args, 2, 1, g.nowMs)
}

// dumpAcross runs DUMP, and lets each server restore what the other one dumped: the keyspaces stay equal.
func dumpAcross(p *Pair, s Step, at int) (*Difference, error) {
	want, got, diff, err := p.runOne(s, at)
	if diff != nil || err != nil || want.IsError("") || want.IsNil() {
		return diff, err
	}
	db := strconv.Itoa(p.state[s.Conn].db)
	for _, to := range []struct {
		side    *side
		payload []byte
	}{{&p.oracle, got.Text}, {&p.server, want.Text}} {
		if _, err := to.side.admin.Do("SELECT", db); err != nil {
			return nil, err
		}
		r, err := to.side.admin.Do("RESTORE", "restored", "0", string(to.payload), "REPLACE")
		if err != nil {
			return nil, err
		}
		if r.IsError("") {
			return &Difference{Index: at, Step: s, What: "DUMP, then RESTORE by the other", Want: want.String(), Got: got.String() + " " + r.String()}, nil
		}
	}
	return nil, nil
}
