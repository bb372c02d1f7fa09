package lualib_test

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kevy/internal/script/lualib"
	"kevy/resp"
)

// The scripts in testdata/corpus were run by redis-server 7.0.15, which says what
// each must answer in RESP2 and RESP3; where redis-server is installed they are
// run by it again. -rewrite takes its answers into the files.
//
// A file holds scripts with an empty line between two. Behind a script stand its
// answers: "--2 " and a quoted reply, and "--3 " with another where RESP3 has one.
// "--differs " says why kevy answers another way, and "--ours2 " what it answers.
var rewrite = flag.Bool("rewrite", false, "take the answers of redis-server into testdata/corpus")

var corpusKeys, corpusArgs = []string{"k1", "k2"}, []string{"a", "10", "3.5", ""}

type script struct {
	source  string
	answers map[int]string // by version of the protocol
	differs string
	ours    string
}

// corpus reads a file of scripts.
func corpus(t testing.TB, path string) []*script {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var scripts []*script
	for part := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
		s := &script{answers: map[int]string{}}
		var source []string
		for line := range strings.SplitSeq(strings.Trim(part, "\n"), "\n") {
			mark, rest, _ := strings.Cut(line, " ")
			switch mark {
			case "--2", "--3", "--ours2":
				text, err := strconv.Unquote(rest)
				if err != nil {
					t.Fatalf("%s: %s: %v", path, line, err)
				}
				switch mark {
				case "--ours2":
					s.ours = text
				default:
					s.answers[int(mark[2]-'0')] = text
				}
			case "--differs":
				s.differs = rest
			default:
				source = append(source, line)
			}
		}
		s.source = strings.Join(source, "\n")
		if _, ok := s.answers[3]; !ok && len(s.answers) > 0 {
			s.answers[3] = s.answers[2]
		}
		scripts = append(scripts, s)
	}
	return scripts
}

// write writes scripts back.
func write(t testing.TB, path string, scripts []*script) {
	t.Helper()
	var b strings.Builder
	for i, s := range scripts {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n--2 %q\n", s.source, s.answers[2])
		if s.answers[3] != s.answers[2] {
			fmt.Fprintf(&b, "--3 %q\n", s.answers[3])
		}
		if s.differs != "" {
			fmt.Fprintf(&b, "--differs %s\n--ours2 %q\n", s.differs, s.ours)
		}
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// oracle is a redis-server of the test's own.
type oracle struct {
	conn map[int]net.Conn
	r    map[int]*bufio.Reader
}

// startOracle starts redis-server 7.0.15, nil where it is not installed.
func startOracle(t testing.TB) *oracle {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil
	}
	if out, _ := exec.Command(path, "--version").Output(); !bytes.Contains(out, []byte("v=7.0.15")) {
		return nil
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir, "--enable-debug-command", "yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	o := &oracle{conn: map[int]net.Conn{}, r: map[int]*bufio.Reader{}}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("unix", socket)
		if err == nil {
			o.conn[2], o.r[2] = c, bufio.NewReader(c)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("redis-server does not listen:", err)
		}
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	o.conn[3], o.r[3] = c, bufio.NewReader(c)
	o.do(t, 3, "HELLO", "3")
	t.Cleanup(func() {
		_ = o.conn[2].Close()
		_ = o.conn[3].Close()
	})
	return o
}

// do runs a command and returns the bytes of its reply.
func (o *oracle) do(t testing.TB, proto int, args ...string) string {
	t.Helper()
	const marker = "@@end of the reply@@"
	var b bytes.Buffer
	for _, cmd := range [][]string{args, {"ECHO", marker}} {
		fmt.Fprintf(&b, "*%d\r\n", len(cmd))
		for _, a := range cmd {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	if err := o.conn[proto].SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.conn[proto].Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	end := fmt.Appendf(nil, "$%d\r\n%s\r\n", len(marker), marker)
	var reply []byte
	for !bytes.HasSuffix(reply, end) {
		part, err := o.r[proto].ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			t.Fatalf("redis-server has gone at %q: %v", args, err)
		}
		reply = append(reply, part...)
	}
	return string(reply[:len(reply)-len(end)])
}

func (o *oracle) eval(t testing.TB, proto int, source string) string {
	t.Helper()
	args := []string{"EVAL", source, strconv.Itoa(len(corpusKeys))}
	args = append(args, corpusKeys...)
	return o.do(t, proto, append(args, corpusArgs...)...)
}

// evalOurs runs a script as EVAL does.
func evalOurs(s *lualib.State, proto int, source string) string {
	w := resp.NewWriter(proto)
	p, err := lualib.Compile("user_script", []byte(source))
	if err != nil {
		w.Error(&resp.Error{Code: "ERR", Text: "Error compiling script (new function): " + err.Error()})
		return string(w.Bytes())
	}
	sum := sha1.Sum([]byte(source))
	s.Eval(p, hex.EncodeToString(sum[:]), bytesOf(corpusKeys), bytesOf(corpusArgs), &host{}, w)
	return string(w.Bytes())
}

func bytesOf(list []string) [][]byte {
	b := make([][]byte, len(list))
	for i, s := range list {
		b[i] = []byte(s)
	}
	return b
}

// minCorpus is how many scripts there are at least.
const minCorpus = 1500

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	o := startOracle(t)
	if *rewrite && o == nil {
		t.Fatal("no redis-server 7.0.15 to ask")
	}
	n, differ := 0, 0
	for _, path := range files {
		scripts := corpus(t, path)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			s := lualib.New()
			defer s.Close()
			for _, c := range scripts {
				n++
				if c.differs != "" {
					differ++
				}
				checkScript(t, s, o, c)
			}
		})
		if *rewrite {
			write(t, path, scripts)
		}
	}
	t.Logf("%d scripts in RESP2 and RESP3, of which %d differ for the reason they name", n, differ)
	if n < minCorpus {
		t.Errorf("%d scripts, there must be %d", n, minCorpus)
	}
}

func checkScript(t *testing.T, s *lualib.State, o *oracle, c *script) {
	t.Helper()
	for _, proto := range []int{2, 3} {
		if o != nil {
			got := o.eval(t, proto, c.source)
			if *rewrite {
				c.answers[proto] = got
			} else if got != c.answers[proto] {
				t.Errorf("%s\nin RESP%d redis-server now says %q\n                      the file has %q", c.source, proto, got, c.answers[proto])
			}
		}
		want, got := c.answers[proto], evalOurs(s, proto, c.source)
		if c.differs != "" {
			if *rewrite && proto == 2 {
				c.ours = got
			}
			if got == want && proto == 2 {
				t.Errorf("%s\nin RESP%d there is no difference any more: %q", c.source, proto, got)
			}
			want = c.ours
			if proto == 3 {
				continue
			}
		}
		if got != want {
			t.Errorf("%s\nin RESP%d is  %q\n      must be %q", c.source, proto, got, want)
		}
	}
}
