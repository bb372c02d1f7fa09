package server

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/internal/ds"
	"kevy/internal/rdb"
)

// TestSave: SAVE and BGSAVE write a file that has every key, and functions, as Redis
// reads it; LASTSAVE and INFO tell of it.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	in := start(t, "--dir", dir, "--dbfilename", "keys.rdb", "--enable-debug-command", "yes")
	c := in.conn()
	c.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK")
	c.expect("SET k value", "+OK")
	c.expect("SET gone v PX 1", "+OK")
	c.expect("SET later v EX 1000", "+OK")
	c.expect("RPUSH l a b c", ":3")
	c.expect("SELECT 3", "+OK")
	c.expect("HSET h f v", ":1")
	if _, err := c.Do("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond)
	if n := c.infoInt("persistence", "rdb_changes_since_last_save"); n < 5 {
		t.Errorf("%d changes since the last save", n)
	}
	before := time.Now().Unix()
	c.expect("SAVE", "+OK")
	if at, _ := c.do("LASTSAVE").Int(); at < before {
		t.Errorf("LASTSAVE is %d, before %d", at, before)
	}
	if n := c.infoInt("persistence", "rdb_changes_since_last_save"); n != 0 {
		t.Errorf("%d changes since then", n)
	}
	first, err := os.ReadFile(filepath.Join(dir, "keys.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"REDIS00", "value", "later", "name=lib"} {
		if !bytes.Contains(first, []byte(part)) {
			t.Errorf("the file lacks %q", part)
		}
	}
	if bytes.Contains(first, []byte("gone")) {
		t.Error("the file has a key whose time was over")
	}
	if check, err := exec.LookPath("redis-check-rdb"); err == nil {
		out, err := exec.Command(check, filepath.Join(dir, "keys.rdb")).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "RDB looks OK") || !strings.Contains(string(out), "4 keys read") {
			t.Errorf("redis-check-rdb: %v\n%s", err, out)
		}
	}
	c.expect("SET more v", "+OK")
	c.expect("BGSAVE", "+Background saving started")
	eventually(t, "it is done", func() bool { return c.infoInt("persistence", "rdb_bgsave_in_progress") == 0 })
	second, err := os.ReadFile(filepath.Join(dir, "keys.rdb"))
	if err != nil || !bytes.Contains(second, []byte("more")) {
		t.Errorf("the second file: %v", err)
	}
	if n := c.infoInt("persistence", "rdb_saves"); n != 2 {
		t.Errorf("%d saves", n)
	}
}

// TestSaveFails: a file that cannot be written is told of, and the one before stays.
func TestSaveFails(t *testing.T) {
	dir := t.TempDir()
	in := start(t, "--dir", dir)
	c := in.conn()
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb.tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.expect("SET k v", "+OK")
	if r := c.do("SAVE"); r.Kind != '-' {
		t.Errorf("SAVE answers %v", r)
	}
	if s := c.infoField("persistence", "rdb_last_bgsave_status"); s != "err" {
		t.Errorf("the status is %s", s)
	}
	c.expect("SET k w", "+OK")
	if err := os.Remove(filepath.Join(dir, "dump.rdb.tmp")); err != nil {
		t.Fatal(err)
	}
	c.expect("SAVE", "+OK")
	if s := c.infoField("persistence", "rdb_last_bgsave_status"); s != "ok" {
		t.Errorf("the status is %s", s)
	}
}

// TestSaveWhileWriting: a file has one moment of the keyspace, while writers go on; only
// one is written at a time.
func TestSaveWhileWriting(t *testing.T) {
	dir := t.TempDir()
	in := start(t, "--dir", dir)
	c, writer := in.conn(), in.conn()
	for i := range 2000 {
		c.expect("SET key:"+strconv.Itoa(i)+" 0", "+OK")
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			args := []string{"MSET"}
			for i := range 20 {
				args = append(args, "key:"+strconv.Itoa(i*100), strconv.Itoa(n))
			}
			_, _ = writer.Do(args...)
		}
	}()
	refused := 0
	for range 20 {
		if r := c.do("BGSAVE"); r.Kind == '-' {
			if string(r.Text) != "ERR Background save already in progress" {
				t.Errorf("BGSAVE answers %v", r)
			}
			refused++
		}
	}
	eventually(t, "they are done", func() bool { return c.infoInt("persistence", "rdb_bgsave_in_progress") == 0 })
	c.expect("SAVE", "+OK")
	close(stop)
	<-done
	if n := c.infoInt("persistence", "rdb_saves"); n != int64(21-refused) {
		t.Errorf("%d saves, %d of 21 were refused", n, refused)
	}
	file, err := os.Open(filepath.Join(dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := rdb.NewReader(file, info.Size(), ds.DefaultLimits(), rdb.LeaveOut{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int{}
	for {
		e, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(e.Key), "00") {
			values[string(e.Value.Text)]++
		}
	}
	if len(values) != 1 {
		t.Errorf("what one MSET wrote is in the file as %v", values)
	}
}
