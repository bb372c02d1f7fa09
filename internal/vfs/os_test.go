//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lockHolderEnv makes the test binary a process that holds a lock.
const lockHolderEnv = "KEVY_TEST_HOLD_LOCK"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockHolderEnv); name != "" {
		holdLock(name)
	}
	os.Exit(m.Run())
}

// holdLock says how it went and waits for its end, or for that of its parent.
func holdLock(name string) {
	_, err := OS().Lock(name)
	fmt.Println(err)
	if err == nil {
		bufio.NewReader(os.Stdin).ReadByte()
	}
	os.Exit(0)
}

// TestLockExcludesOtherProcesses takes a lock from a process that holds it, first in vain and then from its dead hands.
func TestLockExcludesOtherProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	hold := func() (*exec.Cmd, string) {
		t.Helper()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), lockHolderEnv+"="+name)
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return cmd, strings.TrimSpace(said)
	}

	holder, said := hold()
	if said != "<nil>" {
		t.Fatal(said)
	}
	if _, err := OS().Lock(name); !errors.Is(err, ErrLocked) {
		t.Errorf("two processes hold the lock: %v", err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	holder.Wait() // it was killed: the error says so
	lock, err := OS().Lock(name)
	if err != nil {
		t.Fatalf("the dead hold on to it: %v", err)
	}
	other, said := hold()
	if !strings.Contains(said, ErrLocked.Error()) || !strings.Contains(said, name) {
		t.Errorf("the other process says %q", said)
	}
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

// TestSameAnswers makes random calls on the machine's file system and on Mem and wants the same answers.
func TestSameAnswers(t *testing.T) {
	rng := newRand(testSeed(t))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	name := func() string {
		return pick("", "", "d/", "d/", "d/e/", "nope/", "a/") + pick("a", "b", "c", "d", "e")
	}
	for range 20 {
		machine, mem := newScript(OS(), t.TempDir()), newScript(NewMem(), "/")
		var history []string
		run := func(call string) {
			t.Helper()
			history = append(history, call)
			if want, got := machine.run(call), mem.run(call); got != want {
				t.Fatalf("%s\nmachine: %s\nmem:     %s", strings.Join(history, "\n"), want, got)
			}
		}
		for i, handle := range []string{"f", "g", "h"} {
			run(fmt.Sprintf("create %s %c", handle, 'a'+i))
		}
		run("mkdir d")
		for range 150 {
			handle := pick("f", "g", "h")
			switch rng.IntN(20) {
			case 0:
				run("close " + handle)
			case 1:
				run("create " + handle + " " + name())
			case 2:
				run("append " + handle + " " + name())
			case 3:
				run("open " + handle + " " + name())
			case 4:
				run("rename " + name() + " " + name())
			case 5:
				run("link " + name() + " " + name())
			case 6, 7:
				run("remove " + name())
			case 8:
				run("mkdir " + pick("d", "d/e", "d/e/a", "a", name()))
			case 9:
				run("truncate " + handle + fmt.Sprintf(" %d", rng.IntN(40)-1))
			case 10, 11, 12:
				run("write " + handle + " " + pick("x", "yz*7", "w*3000"))
			case 13:
				run("read " + handle + fmt.Sprintf(" %d", 1+rng.IntN(20)))
			case 14:
				run("readat " + handle + fmt.Sprintf(" %d %d", rng.IntN(30), 1+rng.IntN(20)))
			case 15:
				run("cat " + name())
			case 16:
				run("stat " + name())
			case 17:
				run("list " + pick(".", "d", "d/e", name()))
			case 18:
				run("inode " + handle + " " + name())
			case 19:
				run("same " + name() + " " + name())
			}
			run("list .")
		}
		machine.close()
	}
}

func TestOSFilesAreTheMachines(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "sub", "f")
	if err := OS().MkdirAll(filepath.Dir(name)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(OS(), name, []byte("data")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(name); err != nil || string(data) != "data" {
		t.Errorf("%q, %v", data, err)
	}
	want, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := OS().Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.ModMs != want.ModTime().UnixMilli() || got.Size != 4 || got.IsDir {
		t.Errorf("%+v", got)
	}
}
