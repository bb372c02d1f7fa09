package pipe

import (
	"strings"
	"testing"
	"time"

	"kevy/changes"
)

func TestFormats(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC
	defer func() { time.Local = zone }()
	c := oneCommit("ALL", 5, "SET a 1", "DEL b")
	c.Frames[0].Args[2] = []byte("x \"\xff\n")
	c.Frames[1].DB, c.Frames[1].Cause = 2, changes.Expired
	part := &changes.SnapshotPart{Stream: "ALL", Token: "t", N: 1, DB: 2, Ops: [][][]byte{{[]byte("SET"), []byte("k"), []byte("")}}}
	for name, want := range map[string]string{
		FormatJSON: `{"stream":"ALL","event":"snapshot-start","token":"t"}
{"stream":"ALL","event":"snapshot","token":"t","n":1,"db":2,"args":["SET","k",""]}
{"stream":"ALL","event":"snapshot-end","token":"t","generation":7,"offset":5}
{"stream":"ALL","generation":7,"offset":5,"first":5,"last":6,"lsn":5,"ms":1000,"db":0,"cause":"user","args":["SET","a","eCAi/wo="],"base64":[2]}
{"stream":"ALL","generation":7,"offset":6,"first":5,"last":6,"lsn":6,"ms":1000,"db":2,"cause":"expired","args":["DEL","b"]}
{"stream":"ALL","event":"position","generation":7,"offset":7,"complete":9}
`,
		FormatText: `snapshot ALL begins
snapshot ALL db2 SET k ""
snapshot ALL ends, live from 7:5
1970-01-01T00:00:01.000Z ALL 7:5 db0 SET a "x \"\xff\n"
1970-01-01T00:00:01.000Z ALL 7:6 db2 DEL b (expired)
`,
		FormatRESP: "*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n" +
			"*1\r\n$5\r\nMULTI\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nx \"\xff\n\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*2\r\n$3\r\nDEL\r\n$1\r\nb\r\n*1\r\n$4\r\nEXEC\r\n",
	} {
		f, err := NewFormat(name, "s", "v")
		if err != nil {
			t.Fatal(err)
		}
		got := f.AppendSnapshotStart(nil, "ALL", "t")
		got = f.AppendSnapshotOp(got, part, 0)
		got = f.AppendSnapshotEnd(got, "ALL", "t", changes.Cursor{Generation: 7, Offset: 5})
		got = f.AppendCommit(got, c)
		got = f.AppendPosition(got, "ALL", c.Next, 9)
		if string(got) != want {
			t.Errorf("%s:\n%q\nwant\n%q", name, got, want)
		}
	}
	for _, name := range []string{FormatDebezium, FormatDebeziumSchema} {
		f, err := NewFormat(name, "s", "v")
		if err != nil {
			t.Fatal(err)
		}
		got := string(f.AppendCommit(f.AppendSnapshotOp(nil, part, 0), c))
		if strings.Count(got, "\n") != 3 || !strings.Contains(got, `"op":"r"`) || !strings.Contains(got, `"op":"u"`) || !strings.Contains(got, `"op":"d"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if _, err := NewFormat("xml", "", ""); err == nil || err.Error() != `there is no format "xml"; there are json, debezium, debezium-schema, resp, text` {
		t.Error(err)
	}
}

func TestRewrite(t *testing.T) {
	r, err := ParseRewrite([]string{"user:=u:", "a=", "=all:"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"user:1": "u:1", "ab": "b", "x": "all:x", "": "all:"} {
		if got := string(r.Key([]byte(key))); got != want {
			t.Errorf("%q becomes %q, want %q", key, got, want)
		}
	}
	args := [][]byte{[]byte("XGROUP"), []byte("CREATE"), []byte("user:x"), []byte("g"), []byte("$")}
	if r.args(args); string(args[2]) != "u:x" {
		t.Errorf("XGROUP: %q", args)
	}
	for _, test := range []struct{ rules, want string }{
		{"a", "write OLD=NEW"}, {"a=a", "rewrites nothing"}, {"=x b=c", "put it last"}, {"a=b ab=c", "is never reached"},
		{strings.Repeat("k=v ", maxRewriteRules+1), "at most 16 are taken"},
	} {
		if _, err := ParseRewrite(strings.Fields(test.rules)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.rules, err, test.want)
		}
	}
}

func TestOwnKeys(t *testing.T) {
	f := changes.Filter{Prefixes: []string{"user:"}, Matches: []string{"*:tmp"}, Regexes: []changes.KeyRegex{{Prefix: "n", Pattern: `^\d+$`}}}
	k, err := newOwnKeys(&f, Rewrite{{"user:", "u:"}, {"n", "num"}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{
		"u:1": true, "user:1": false, "x:tmp": true, "num1": true, "numx": false, "n1": false, "u": false, "": false,
		"n:tmp": false, "num:tmp": true, // n:tmp is called num:tmp
	} {
		if got := k.owns([]byte(key)); got != want {
			t.Errorf("%q: %v", key, got)
		}
	}
	all, err := newOwnKeys(&changes.Filter{}, Rewrite{{"", "copy:"}})
	if err != nil {
		t.Fatal(err)
	}
	if all.every() || all.owns([]byte("x")) || !all.owns([]byte("copy:x")) {
		t.Error("all keys under a prefix")
	}
}
