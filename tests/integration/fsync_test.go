package integration

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// strace attaches to a server with options and writes what it sees to the returned file. detach waits for its end.
func strace(t *testing.T, s *process.Server, options ...string) (file string, detach func()) {
	t.Helper()
	path := process.Tool(t, "strace")
	file = filepath.Join(t.TempDir(), "trace")
	args := append([]string{"-f", "-o", file, "-p", strconv.Itoa(s.PID())}, options...)
	cmd := exec.Command(path, args...)
	errPipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	attached := make(chan string, 1)
	var rest sync.WaitGroup
	rest.Add(1)
	go func() {
		defer rest.Done()
		sc := bufio.NewScanner(errPipe)
		for sc.Scan() {
			select {
			case attached <- sc.Text():
			default:
			}
		}
		close(attached)
	}()
	select {
	case line, ok := <-attached:
		if !ok || !strings.Contains(line, "attached") {
			cmd.Wait()
			if os.Getenv(process.RequireTools) != "" && !strings.Contains(line, "Operation not permitted") {
				t.Fatalf("strace does not attach: %s", line)
			}
			t.Skipf("strace may not attach here: %s", line)
		}
	case <-time.After(20 * time.Second):
		cmd.Process.Kill()
		t.Fatal("strace does not attach")
	}
	// The first thread is attached; the others follow at once.
	time.Sleep(300 * time.Millisecond)
	var once sync.Once
	detach = func() {
		once.Do(func() {
			// strace may wait for ever for a process that ended meanwhile.
			cmd.Process.Signal(syscall.SIGTERM)
			stuck := time.AfterFunc(3*time.Second, func() { cmd.Process.Kill() })
			rest.Wait()
			cmd.Wait()
			stuck.Stop()
		})
	}
	t.Cleanup(detach)
	return file, detach
}

// TestFsyncFails makes every fsync fail with EIO: no write is acknowledged from then on, and nothing changes
// when the disk says that it is well again, because what it forgot meanwhile cannot be known.
func TestFsyncFails(t *testing.T) {
	for _, policy := range []string{"always", "everysec"} {
		t.Run(policy, func(t *testing.T) {
			b := process.Subject(t)
			dir := t.TempDir()
			s := process.Start(t, b, process.Config{Dir: dir, Args: []string{"--appendfsync", policy}})
			c := s.Conn(t)
			for i := range 20 {
				do(t, c, "SET", fmt.Sprintf("before%d", i), "v")
			}
			if policy == "everysec" {
				time.Sleep(1500 * time.Millisecond) // what is written so far is durable
			}
			_, detach := strace(t, s, "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
			acked := map[string]bool{}
			refused := false
			write := func(key string) (ok bool) {
				c.SetDeadline(time.Now().Add(20 * time.Second))
				r, err := c.Do("SET", key, "v")
				if err != nil {
					if !broken(err) {
						t.Fatalf("%s: %v", key, err)
					}
					return false
				}
				if r.IsError("") && !r.IsError("MISCONF") {
					t.Errorf("%s is refused with %s", key, r)
				}
				return !r.IsError("")
			}
			deadline := time.Now().Add(5 * time.Second)
			for i := 0; time.Now().Before(deadline) && !(refused && i > 40); i++ {
				key := fmt.Sprintf("during%d", i)
				if write(key) {
					acked[key] = true
					if policy == "always" || refused {
						t.Errorf("%s was acknowledged, with every fsync failing", key)
					}
				} else {
					refused = true
				}
				if policy == "everysec" {
					time.Sleep(20 * time.Millisecond)
				}
			}
			if !refused && !b.Redis {
				t.Error("no write was refused within 5 seconds")
			}
			if !b.Redis {
				if r, err := c.Do("GET", "before0"); err != nil || string(r.Text) != "v" {
					t.Errorf("a read is answered with %s, %v", r, err)
				}
			}
			detach()
			if s.Running() && !b.Redis {
				time.Sleep(1500 * time.Millisecond)
				for i := range 5 {
					if write(fmt.Sprintf("after%d", i)) {
						t.Error("a write was acknowledged after a failed fsync: the file's state is not known")
					}
				}
			}
			s.Kill()
			again := process.Start(t, b, process.Config{Dir: dir})
			c = again.Conn(t)
			for i := range 20 {
				if r := do(t, c, "GET", fmt.Sprintf("before%d", i)); r.IsNil() {
					t.Errorf("before%d is gone", i)
				}
			}
			do(t, c, "SET", "again", "v")
		})
	}
}

// traced is one system call as strace -f shows it, joined from its two halves where it was interrupted.
type traced struct {
	name       string
	fd         int
	text       string
	result     int64
	start, end int // lines of the trace
}

var (
	callLine    = regexp.MustCompile(`^(\d+)\s+(\w+)\((\d+)(.*)$`)
	resumedLine = regexp.MustCompile(`^(\d+)\s+<\.\.\. (\w+) resumed>(.*)$`)
	callResult  = regexp.MustCompile(`\)\s+= (-?\d+)[^=]*$`)
)

// readTrace parses a trace; calls that never ended are left out.
func readTrace(t *testing.T, file string) []traced {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []traced
	open := map[string]traced{}
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 0; ; n++ {
		line, err := r.ReadString('\n')
		if err != nil {
			return out
		}
		line = strings.TrimSuffix(line, "\n")
		if m := resumedLine.FindStringSubmatch(line); m != nil {
			c, ok := open[m[1]]
			if !ok || c.name != m[2] {
				continue
			}
			delete(open, m[1])
			if res := callResult.FindStringSubmatch(m[3]); res != nil {
				c.text += m[3]
				c.result, _ = strconv.ParseInt(res[1], 10, 64)
				c.end = n
				out = append(out, c)
			}
			continue
		}
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		fd, _ := strconv.Atoi(m[3])
		c := traced{name: m[2], fd: fd, text: m[4], start: n, end: n}
		if strings.Contains(line, "<unfinished ...>") {
			open[m[1]] = c
			continue
		}
		if res := callResult.FindStringSubmatch(line); res != nil {
			c.result, _ = strconv.ParseInt(res[1], 10, 64)
			out = append(out, c)
		}
	}
}

// TestFsyncBeforeReply looks at the system calls under appendfsync always: between the write that holds a
// command and the reply to it, an fsync of that file must have begun after the write and ended well.
func TestFsyncBeforeReply(t *testing.T) {
	b := process.Subject(t)
	s := process.Start(t, b, process.Config{Args: []string{"--appendfsync", "always"}})
	const clients, each = 6, 30
	conns := make([]*wire.Conn, clients)
	for i := range conns {
		conns[i] = s.Conn(t)
		do(t, conns[i], "PING")
	}
	file, detach := strace(t, s, "-s", "100000", "-e", "trace=read,recvfrom,write,writev,pwrite64,pwritev,sendto,sendmsg,fsync,fdatasync")
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for i, c := range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range each {
				c.SetDeadline(time.Now().Add(30 * time.Second))
				if r, err := c.Do("SET", fmt.Sprintf("key%d", i), fmt.Sprintf("mark-%d-%d-end", i, j)); err != nil || string(r.Text) != "OK" {
					errs <- fmt.Errorf("SET: %s, %v", r, err)
					return
				}
			}
		}()
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	time.Sleep(100 * time.Millisecond) // the last reply has come before its call is seen to return
	detach()
	calls := readTrace(t, file)
	reads := func(c traced) bool { return c.name == "read" || c.name == "recvfrom" }
	syncs := func(c traced) bool { return c.name == "fsync" || c.name == "fdatasync" }
	checked, together := 0, map[int]int{}
	for i := range clients {
		for j := range each {
			mark := fmt.Sprintf("mark-%d-%d-end", i, j)
			socket, received := -1, -1
			var logged, reply *traced
			for k := range calls {
				c := &calls[k]
				switch {
				case socket < 0 && reads(*c) && strings.Contains(c.text, mark):
					socket, received = c.fd, c.end
				case socket >= 0 && logged == nil && !reads(*c) && !syncs(*c) && c.fd != socket && strings.Contains(c.text, mark):
					logged = c
				case socket >= 0 && reply == nil && !reads(*c) && !syncs(*c) && c.fd == socket && c.start > received && strings.Contains(c.text, "+OK"):
					reply = c
				}
			}
			if logged == nil || reply == nil {
				t.Errorf("%s: the trace shows no write of it to the log (%v), or no reply (%v)", mark, logged != nil, reply != nil)
				continue
			}
			synced := false
			for k := range calls {
				c := &calls[k]
				if syncs(*c) && c.fd == logged.fd && c.start > logged.end && c.end < reply.start && c.result == 0 {
					synced = true
					together[c.start]++
					break
				}
			}
			if !synced {
				t.Errorf("%s: written in line %d of the trace, answered in line %d, and no fsync between them", mark, logged.start, reply.start)
			}
			checked++
		}
	}
	if checked < clients*each {
		t.Errorf("checked %d writes of %d", checked, clients*each)
	}
	t.Logf("%d writes of %d connections, %d fsyncs stood before their replies", checked, clients, len(together))
}
