package clients

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kevy/tests/certs"
	"kevy/tests/process"
	"kevy/tests/wire"
)

// secured is a server with a port for TCP and one for TLS, and a key of each type.
type secured struct {
	*process.Server
	ca      *certs.Authority
	client  certs.Pair
	tlsPort int
}

func startSecured(t *testing.T, b process.Binary) *secured {
	t.Helper()
	s := &secured{ca: certs.New(t)}
	server := s.ca.Issue("server")
	s.client = s.ca.Issue("client")
	var err error
	if s.tlsPort, err = process.FreePort(); err != nil {
		t.Fatal(err)
	}
	s.Server = process.Start(t, b, process.Config{Args: []string{
		"--tls-port", strconv.Itoa(s.tlsPort), "--tls-cert-file", server.Cert, "--tls-key-file", server.Key, "--tls-ca-cert-file", s.ca.File,
	}})
	c := s.Conn(t)
	for _, words := range [][]string{
		{"SET", "a:string", "text"}, {"SET", "a:short", "v", "EX", "1000"}, {"RPUSH", "a:list", "x", "y"}, {"SADD", "a:set", "x"},
		{"HSET", "a:hash", "f", "v"}, {"ZADD", "a:zset", "1", "m"}, {"XADD", "a:stream", "1-1", "f", "v"}, {"XGROUP", "CREATE", "a:stream", "group", "0"},
		{"XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "a:stream", ">"}, {"PFADD", "a:log", "x"}, {"SET", "a:third", "x"},
	} {
		if r, err := c.Do(words...); err != nil || r.IsError("") {
			t.Fatalf("%q: %s, %v", words, r, err)
		}
	}
	return s
}

// both runs a test over TCP and over TLS.
func both(t *testing.T, run func(t *testing.T, overTLS bool)) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: overTCP, true: overTLS}[secure], func(t *testing.T) { run(t, secure) })
	}
}

// insightCommands is what RedisInsight sends: while it connects, as it shows the
// overview, the browser's list and a key of each type, the slow log and the
// command line.
var insightCommands = strings.Split(`CLIENT SETNAME redisinsight-common-0123456789
INFO
CLUSTER INFO
SENTINEL masters
SELECT 0
MODULE LIST
CONFIG GET databases
CLIENT LIST
CLIENT SETINFO LIB-NAME ioredis
COMMAND INFO ft.search json.get ts.get bf.info
COMMAND
COMMAND COUNT
COMMAND DOCS GET
DBSIZE
INFO keyspace
INFO memory
INFO server
INFO commandstats
ACL WHOAMI
ACL CAT
ACL LIST
SCAN 0 MATCH * COUNT 10000
SCAN 0 MATCH * COUNT 10000 TYPE hash
TYPE a:string
TTL a:string
PTTL a:short
MEMORY USAGE a:string SAMPLES 0
MEMORY USAGE a:zset SAMPLES 0
OBJECT ENCODING a:hash
STRLEN a:string
GET a:string
GETRANGE a:string 0 4999
HLEN a:hash
HSCAN a:hash 0 MATCH * COUNT 500
LLEN a:list
LRANGE a:list 0 499
LINDEX a:list 0
SCARD a:set
SSCAN a:set 0 MATCH * COUNT 500
ZCARD a:zset
ZRANGE a:zset 0 499 WITHSCORES
ZREVRANGE a:zset 0 499 WITHSCORES
ZSCAN a:zset 0 MATCH * COUNT 500
XLEN a:stream
XINFO STREAM a:stream
XREVRANGE a:stream + - COUNT 500
XINFO GROUPS a:stream
XINFO CONSUMERS a:stream group
XPENDING a:stream group
XPENDING a:stream group - + 500 consumer
SLOWLOG GET 50
SLOWLOG LEN
CONFIG GET slowlog*
CONFIG SET slowlog-max-len 128
CONFIG SET slowlog-log-slower-than 10000
SLOWLOG RESET
LATENCY DOCTOR
CONFIG GET maxmemory*
CONFIG GET requirepass
LASTSAVE
TIME
PUBLISH a:channel message
EXPIRE a:third 100
PERSIST a:third
RENAMENX a:third a:fourth
UNLINK a:fourth
MONITOR`, "\n")

// TestRedisInsight sends what RedisInsight sends. What redis-server answers without
// an error is no error here, and of the same kind.
func TestRedisInsight(t *testing.T) {
	oracle := startSecured(t, process.Oracle(t))
	subject := startSecured(t, process.Subject(t))
	if len(insightCommands) < 60 {
		t.Fatalf("there are %d commands", len(insightCommands))
	}
	both(t, func(t *testing.T, overTLS bool) {
		open := func(s *secured) *wire.Conn {
			c, err := s.Dial()
			if overTLS {
				c, err = tls.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.tlsPort), s.ca.Client(s.client))
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
				t.Fatal(err)
			}
			return wire.NewConn(c)
		}
		// A key that the last command took is there again for the second transport.
		for _, s := range []*secured{oracle, subject} {
			if _, err := s.Conn(t).Do("SET", "a:third", "x"); err != nil {
				t.Fatal(err)
			}
		}
		theirs, ours := open(oracle), open(subject)
		errs := 0
		for _, command := range insightCommands {
			words := strings.Fields(command)
			want, err := theirs.Do(words...)
			if err != nil {
				t.Fatalf("redis-server: %s: %v", command, err)
			}
			got, err := ours.Do(words...)
			if err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			if want.IsError("") {
				errs++
			}
			if got.Kind != want.Kind && !want.IsError("") {
				t.Errorf("%s: %.200s; redis-server: %.200s", command, got, want)
			}
		}
		// Those for clusters and sentinels, and CLIENT SETINFO, which is newer.
		if errs > 3 {
			t.Errorf("redis-server refuses %d of the commands", errs)
		}
	})
}

// exporterRules are the rights that prometheus-redis-exporter asks for.
const exporterRules = "+client +ping +info +config|get +cluster|info +slowlog +latency +memory +select +get +scan +xinfo +type +pfcount +strlen +llen +scard +zcard +hlen +xlen +eval ~*"

// notExported are metrics that redis-server has and we have not, with the reason.
var notExported = map[string]string{}

// TestRedisExporter lets prometheus-redis-exporter look at the server, and at
// redis-server: it finds the same metrics.
func TestRedisExporter(t *testing.T) {
	path := process.Tool(t, "prometheus-redis-exporter")
	oracle := startSecured(t, process.Oracle(t))
	subject := startSecured(t, process.Subject(t))
	for _, s := range []*secured{oracle, subject} {
		words := append([]string{"ACL", "SETUSER", "exporter", "on", ">secret"}, strings.Fields(exporterRules)...)
		if r, err := s.Conn(t).Do(words...); err != nil || r.IsError("") {
			t.Fatalf("%q: %s, %v", words, r, err)
		}
	}
	both(t, func(t *testing.T, overTLS bool) {
		theirs, ours := scrape(t, path, oracle, overTLS), scrape(t, path, subject, overTLS)
		if len(theirs) < 140 {
			t.Fatalf("redis-server has %d metrics only", len(theirs))
		}
		var missing []string
		for name := range theirs {
			if _, found := ours[name]; !found && notExported[name] == "" {
				missing = append(missing, name)
			}
		}
		slices.Sort(missing)
		if len(missing) > 0 {
			t.Errorf("%d metrics of redis-server are missing: %q", len(missing), missing)
		}
		for name := range notExported {
			if _, found := ours[name]; found {
				t.Errorf("%s is there, though it is listed as missing", name)
			}
		}
		for name, want := range map[string]string{"redis_up": "1", "redis_exporter_last_scrape_error": "0"} {
			if ours[name] != want {
				t.Errorf("%s is %q, want %s", name, ours[name], want)
			}
		}
	})
}

// scrape runs the exporter and returns a value of each of its metrics.
func scrape(t *testing.T, path string, s *secured, overTLS bool) map[string]string {
	t.Helper()
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	words := []string{
		"-web.listen-address", address, "-redis.user", "exporter", "-redis.password", "secret", "-check-keys", "a:*", "-check-streams", "a:stream",
		"-export-client-list", "-include-config-metrics", "-include-system-metrics", "-log-format", "txt", "-connection-timeout", "60s",
	}
	if overTLS {
		words = append(words, "-redis.addr", fmt.Sprintf("rediss://localhost:%d", s.tlsPort), "-tls-ca-cert-file", s.ca.File, "-tls-client-cert-file", s.client.Cert, "-tls-client-key-file", s.client.Key)
	} else {
		words = append(words, "-redis.addr", "redis://"+s.Addr())
	}
	cmd := exec.Command(path, words...)
	var log bytes.Buffer // read it after the end only
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text string
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if text, err = fetch("http://" + address + "/metrics"); err == nil || time.Now().After(deadline) {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	for _, line := range strings.Split(log.String(), "\n") {
		if strings.Contains(line, "level=error") || strings.Contains(line, "level=warn") {
			t.Errorf("of %s it says %s", s.Path, line)
		}
	}
	metrics := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		if name, rest, found := strings.Cut(line, " "); found && strings.HasPrefix(name, "redis_") {
			name, _, labelled := strings.Cut(name, "{")
			if labelled {
				rest = line[strings.LastIndexByte(line, ' ')+1:]
			}
			metrics[name] = rest
		}
	}
	return metrics
}

func fetch(url string) (string, error) {
	client := http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	r, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = errors.New(r.Status)
	}
	return string(body), err
}
