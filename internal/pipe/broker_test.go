package pipe

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"kevy/changes"
)

func brokerTarget(t *testing.T, raw string) *Target {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &Target{URL: u, Options: u.Query(), Name: "n", Streams: []string{changes.All}}
}

// A target of Kafka or NATS is opened by its URL, and its options are taken or refused.
func TestBrokerTargets(t *testing.T) {
	for raw, want := range map[string]string{
		"kafka://b1:9092,b2:9093/topic?partitions=3&partition=key&transactions=no&compression=zstd": "",
		"kafkas://u:p@b/topic?cursors=c&insecure=yes":                                               "",
		"kafka://b/topic?mode=changelog":                                                            "--snapshot",
		"kafka://b/topic?mode=x":                                                                    "mode=x",
		"kafka://b/topic?x=1":                                                                       `no option "x"`,
		"kafka://b":                                                                                 "no topic",
		"kafka:///topic":                                                                            "no broker",
		"kafka://b/topic?insecure=yes":                                                              `no option "insecure"`,
		"nats://a:4222,b:4223/S?subject=s.{key}&replicas=3&window=5m":                               "",
		"natss://u:p@a/S?insecure=yes":                                                              "",
		"nats://a":                                                                                  "cannot be a stream",
		"nats:///S":                                                                                 "no server",
		"nats://a/S?subject={key}":                                                                  "begins with a word",
		"nats://a/S?x=1":                                                                            `no option "x"`,
	} {
		_, err := Open(brokerTarget(t, raw))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, not %q", raw, err, want)
		}
	}
	target := brokerTarget(t, "kafka://b/topic?mode=changelog")
	target.Snapshot, target.Format = true, FormatRESP
	if _, err := Open(target); err == nil || !strings.Contains(err.Error(), "in JSON") {
		t.Errorf("a changelog in RESP: %v", err)
	}
}

// Records stand alone: no line ends, no SELECT between them, and what a form has no words for is
// empty.
func TestRecordForms(t *testing.T) {
	c := &changes.Commit{Stream: "ALL", Generation: 7, Frames: []changes.Frame{{Args: [][]byte{[]byte("SET"), []byte("k"), []byte("v\n")}, DB: 3, Cause: changes.User}}}
	p := &changes.SnapshotPart{Stream: "ALL", Token: "x", N: 1, DB: 4, Ops: [][][]byte{{[]byte("SET"), []byte("k"), []byte("v")}}}
	for format, want := range map[string][2]string{
		"":         {`"args":["SET","k","v\n"]}`, `"args":["SET","k","v"]}`},
		FormatRESP: {"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nv\n\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"},
		FormatText: {`db3 SET k "v\n"`, "db4 SET k v"},
	} {
		form, err := newRecordForm(&Target{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		frame, op := string(form.AppendFrame(nil, c, 0)), string(form.AppendSnapshotOp(nil, p, 0))
		if !strings.HasSuffix(frame, want[0]) || !strings.HasSuffix(op, want[1]) || format == FormatRESP && (frame != want[0] || op != want[1]) {
			t.Errorf("%q: %q, %q", format, frame, op)
		}
		if start := string(form.AppendSnapshotStart(nil, "ALL", "x")); strings.HasSuffix(start, "\n") || format == "" && !strings.Contains(start, "snapshot-start") {
			t.Errorf("%q begins with %q", format, start)
		}
		if end := string(form.AppendSnapshotEnd(nil, "ALL", "x", changes.Cursor{Generation: 1, Offset: 2})); strings.HasSuffix(end, "\n") || format == "" && !strings.Contains(end, "snapshot-end") {
			t.Errorf("%q ends with %q", format, end)
		}
	}
	if _, err := newRecordForm(&Target{Format: "x"}); err == nil {
		t.Error("the format x was taken")
	}
}

// A pipe into brokers in this process, through Open as the program does it.
func TestBrokers(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	for _, raw := range []string{"kafka://" + cluster.ListenAddrs()[0] + "/topic?partitions=2", "nats://" + srv.Addr().String() + "/S"} {
		for round := range 2 {
			s, err := Open(brokerTarget(t, raw))
			if err != nil {
				t.Fatal(err)
			}
			at, ok, err := s.Resume(t.Context())
			if err != nil || !ok || len(at) != round || round == 1 && at["ALL"].String() != "7:2" {
				t.Errorf("%s, round %d: cursors %v, %v, %v", raw, round, at, ok, err)
			}
			if round == 0 {
				c := &changes.Commit{Stream: "ALL", Generation: 7, First: 0, Last: 1, Next: changes.Cursor{Generation: 7, Offset: 2}, Frames: []changes.Frame{
					{Offset: 0, Args: [][]byte{[]byte("SET"), []byte("k"), []byte("v")}, LSN: 1, Time: time.Now(), Cause: changes.User},
					{Offset: 1, Args: [][]byte{[]byte("FLUSHALL")}, LSN: 2, Time: time.Now(), Cause: changes.User},
				}}
				if err := s.Write(t.Context(), []*changes.Commit{c}); err != nil {
					t.Error(err)
				}
			}
			if _, ok := s.(SnapshotSink); !ok {
				t.Errorf("%s takes no snapshots", raw)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
