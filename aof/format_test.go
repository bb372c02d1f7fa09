package aof

import (
	"math"
	"os"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

// exampleFile is the file that docs/formats.md shows.
func exampleFile() string {
	const random = 0x5eedf00d
	var b []byte
	block := func(h BlockHeader, payload string) {
		h.PayloadBytes = len(payload)
		start := len(b)
		b = appendBlockLine(b, &h)
		b = appendChecksum(b, blockChecksum(random, b[start:], []byte(payload)))
		b = append(b, payload...)
	}
	b = appendFileLine(b, 1, random)
	for _, line := range []string{"#kevy-pos 0 3565158400000000 0", "#kevy-pos 1 3565158400000001 0", "#kevy-pos 2 3565158400000002 0"} {
		b = appendLine(b, random, 0, []byte(line))
	}
	block(BlockHeader{FirstLSN: 1, UnixMs: 1700000000000}, "")
	selected := string(appendCommand(nil, "select", "0"))
	block(BlockHeader{FirstLSN: 1, Ops: 2, UnixMs: 1700000000000},
		selected+string(appendCommand(appendCommand(appendCommand(appendCommand(nil,
			"MULTI"), "SET", "k1", "v1"), "SET", "k2", "v2", "PXAT", "1700000000100"), "EXEC")))
	block(BlockHeader{FirstLSN: 3, Ops: 1, DurableLSN: 2, UnixMs: 1700000000101},
		selected+"#x\r\n"+string(appendCommand(nil, "DEL", "k2")))
	block(BlockHeader{FirstLSN: 4, Ops: 1, DurableLSN: 2, UnixMs: 1700000000250},
		selected+string(appendCommand(nil, "FLUSHALL")))
	b = appendLine(b, random, 4, []byte("#kevy-gen 3565158402097152"))
	block(BlockHeader{FirstLSN: 5, DurableLSN: 2, UnixMs: 1700000000250}, "")
	block(BlockHeader{FirstLSN: 5, DurableLSN: 4, UnixMs: 1700000001300}, "")
	return string(b)
}

func TestDocumentedExample(t *testing.T) {
	doc, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "```kevy-log\n")
	if !ok {
		t.Fatal("docs/formats.md has no example")
	}
	shown, _, _ := strings.Cut(rest, "```")
	shown = strings.ReplaceAll(shown, "\n", "\r\n")
	if want := exampleFile(); shown != want {
		t.Fatalf("docs/formats.md does not show what is written, which is:\n%s", strings.ReplaceAll(want, "\r\n", "\n"))
	}

	fs := vfs.NewMem()
	if err := fs.MkdirAll("data/appendonlydir"); err != nil {
		t.Fatal(err)
	}
	writeFileText(t, fs, "data/appendonlydir/appendonly.aof.1.incr.aof", shown)
	writeFileText(t, fs, "data/appendonlydir/appendonly.aof.manifest", "file appendonly.aof.1.incr.aof seq 1 type i\n")
	blocks := &blockList{}
	opt := testOptions(fs)
	opt.NowMs = func() int64 { return 0 }
	l, report, err := Recover(opt, RecoverRefuse, blocks)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "last", l.Last(), 4)
	check(t, "torn", report.Torn, nil)
	check(t, "blocks", len(blocks.headers), 3)
	check(t, "positions", len(blocks.positions), 3)
	check(t, "position", blocks.positions[2], Position{2, 3565158400000002, 0})
	check(t, "generations", len(blocks.generations), 1)
	check(t, "generation", blocks.generations[0], [2]uint64{3565158402097152, 4})
	if _, err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// blockList is a sink that takes any payload.
type blockList struct {
	record
	headers []BlockHeader
}

func (b *blockList) Block(h BlockHeader, _ []byte) error {
	b.headers = append(b.headers, h)
	return nil
}

func TestBlockLine(t *testing.T) {
	h := BlockHeader{FirstLSN: 7, Ops: 3, DurableLSN: 6, UnixMs: 1700000000000, PayloadBytes: 120}
	line := appendBlockLine(nil, &h)
	check(t, "line", string(line), "#kevy 7 3 6 1700000000000 120 ")
	h.CRC = 0x0badcafe
	line = appendChecksum(line, h.CRC)
	check(t, "line", string(line), "#kevy 7 3 6 1700000000000 120 0badcafe\r\n")
	got, n, ok := parseBlockLine(append(line, "more"...))
	check(t, "ok", ok, true)
	check(t, "length", n, len(line))
	check(t, "header", got, h)

	longest := BlockHeader{math.MaxUint64 - maxOps, maxOps, math.MaxUint64 - maxOps - 1, math.MaxInt64, maxPayloadBytes, math.MaxUint32}
	line = appendChecksum(appendBlockLine(nil, &longest), longest.CRC)
	if len(line) > maxBlockLineBytes {
		t.Fatalf("a line of %d bytes, and the limit is %d", len(line), maxBlockLineBytes)
	}
	got, _, ok = parseBlockLine(line)
	check(t, "ok", ok, true)
	check(t, "header", got, longest)
}

func TestMalformedBlockLines(t *testing.T) {
	for _, line := range []string{
		"#kevy ",
		"#kevy 7 3 6 1700000000000 120 0badcafe",
		"#kevy 7 3 6 1700000000000 120 0badcafe\n",
		"#kevy 7 3 6 1700000000000 120 0badcafe\r\r",
		"#kevy 7 3 6 1700000000000 120 0BADCAFE\r\n",
		"#kevy 7 3 6 1700000000000 120 badcafe\r\n",
		"#kevy 7 3 6 1700000000000 120 0badcafe \r\n",
		"#kevy 07 3 6 1700000000000 120 0badcafe\r\n",
		"#kevy +7 3 6 1700000000000 120 0badcafe\r\n",
		"#kevy 7  3 6 1700000000000 120 0badcafe\r\n",
		"#kevy 7 3 6 1700000000000 0badcafe\r\n",
		"#kevy 7 3 6 -1 120 0badcafe\r\n",
		"#kevy 0 3 0 1700000000000 120 0badcafe\r\n",                      // LSNs begin at 1
		"#kevy 7 3 7 1700000000000 120 0badcafe\r\n",                      // durable before it was written
		"#kevy 7 0 6 1700000000000 120 0badcafe\r\n",                      // a payload without ops
		"#kevy 7 3 6 1700000000000 0 0badcafe\r\n",                        // ops without a payload
		"#kevy 7 121 6 1700000000000 120 0badcafe\r\n",                    // more ops than bytes
		"#kevy 7 3 6 9223372036854775808 120 0badcafe\r\n",                // time overflows
		"#kevy 18446744073709551616 3 6 1700000000000 120 0badcafe\r\n",   // LSN overflows
		"#kevy 18446744073709551615 3 6 1700000000000 120 0badcafe\r\n",   // the LSN behind it does
		"#kevy 7 3 6 1700000000000 99999999999999999999999 0badcafe\r\n",  // size overflows
		"#kevy 7 3 6 1700000000000 9223372036854775807 0badcafe\r\n",      // and is out of range
		"#kevy 7 18446744073709551615 6 1700000000000 120 0badcafe\r\n",   // so is the number of ops
		"#kevy 7 3 6 1700000000000 120 0badcafe" + strings.Repeat(" ", 5), // no end
	} {
		if h, _, ok := parseBlockLine([]byte(line)); ok {
			t.Errorf("%q is taken for %+v", line, h)
		}
	}
}

func TestManifestSyntax(t *testing.T) {
	m, at, reason := parseManifest([]byte("# by hand\nfile appendonly.aof.2.base.aof seq 2 type b\n" +
		"file appendonly.aof.1.incr.aof seq 1 type h\nfile \"append only.aof.3.incr.aof\" seq 3 type i startoffset 12\n"))
	check(t, "reason", reason, "")
	check(t, "offset", at, 0)
	check(t, "base", *m.base, manifestEntry{"appendonly.aof.2.base.aof", 2})
	check(t, "segments", len(m.segments), 1)
	check(t, "segment", m.segments[0], manifestEntry{"append only.aof.3.incr.aof", 3})
	check(t, "history", len(m.history), 1)
	check(t, "marked", m.marked, false)
	own, _, _ := parseManifest(m.encode())
	check(t, "marked as kevy's", own.marked, true)

	m = manifest{base: &manifestEntry{"appendonly.aof.7.base.aof", 7}, segments: []manifestEntry{{"appendonly.aof.9.incr.aof", 9}, {"appendonly.aof.10.incr.aof", 10}}}
	check(t, "manifest", string(m.encode()), "#kevy-log 1\nfile appendonly.aof.7.base.aof seq 7 type b\n"+
		"file appendonly.aof.9.incr.aof seq 9 type i\nfile appendonly.aof.10.incr.aof seq 10 type i\n")

	for _, text := range []string{
		"",
		"file a seq 1 type i", // no end of the line
		"file a seq 1\n",
		"file a type i\n",
		"seq 1 type i\n",
		"file a seq 0 type i\n",
		"file a seq x type i\n",
		"file a seq 1 type q\n",
		"file ../a seq 1 type i\n",
		"file .. seq 1 type i\n",
		"file \"a seq 1 type i\n",
		"file a seq 2 type i\nfile b seq 2 type i\n",
		"file a seq 1 type i\nfile b seq 2 type b\n",
		"file a seq 1 type b\nfile b seq 2 type b\n",
	} {
		if _, _, reason := parseManifest([]byte(text)); reason == "" {
			t.Errorf("%q is accepted", text)
		}
	}
}
