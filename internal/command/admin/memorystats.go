package admin

import (
	"fmt"
	"strings"

	"kevy/internal/command"
)

// Memory is what the server counts and what the process has, in bytes.
type Memory struct {
	// Used is what is counted; Peak the most that was. Startup is what of it there was
	// before the store, Overhead what of it is neither key nor value.
	Used, Peak, Startup, Overhead int64
	Clients                       int64 // buffers, queues and subscriptions of the connections
	Connections                   int   // how many there are
	Log                           int64 // of the log, not written yet
	Scripts                       int64 // cached scripts
	Libraries                     int64 // those of functions, compiled: their code counts as data
	CachedScripts                 int   // how many there are
	DBs                           []MemoryDB

	// Allocated is what objects take, garbage included, Active what they lie in,
	// AllocatorResident what the allocator has of the system, and Resident what the
	// process does.
	Allocated, Active, AllocatorResident, Resident int64
}

// MemoryDB is what a database has beside its keys and values.
type MemoryDB struct {
	Keys                 int
	TableBytes, TTLBytes int64
}

// Dataset is what keys and values occupy.
func (m *Memory) Dataset() int64 { return m.Used - m.Overhead }

// Keys is how many keys there are.
func (m *Memory) Keys() (n int) {
	for _, db := range m.DBs {
		n += db.Keys
	}
	return n
}

// memoryTips are those of the subcommands of MEMORY that report.
var memoryTips = []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}

func memoryStats(srv Server) *command.Spec {
	return &command.Spec{
		Name: "stats", Arity: 2, Flags: command.AllShards, Since: "4.0.0", Complexity: "O(1)", Tips: memoryTips,
		Summary:     "Answers where the memory of the server is.",
		Differences: "The figures are those of INFO memory. functions.caches is what libraries of functions are compiled to: their code counts as data.",
		Run: func(c *command.Ctx) {
			m := srv.Memory(c.Tx)
			m.reply(c)
		},
	}
}

// reply writes the answer of MEMORY STATS, in Redis's order.
func (m *Memory) reply(c *command.Ctx) {
	w := c.W
	dbs := 0
	for _, db := range m.DBs {
		if db.Keys > 0 {
			dbs++
		}
	}
	w.Map(27 + dbs)
	num := func(name string, n int64) {
		w.BulkString(name)
		w.Int(n)
	}
	quotient := func(name string, n, of int64) {
		w.BulkString(name)
		w.Double(float64(n) / float64(max(of, 1)))
	}
	percent := func(name string, n, of int64) {
		w.BulkString(name)
		w.Double(100 * float64(n) / float64(max(of, 1)))
	}
	num("peak.allocated", m.Peak)
	num("total.allocated", m.Used)
	num("startup.allocated", m.Startup)
	num("replication.backlog", 0)
	num("clients.slaves", 0)
	num("clients.normal", m.Clients)
	num("cluster.links", 0)
	num("aof.buffer", m.Log)
	num("lua.caches", m.Scripts)
	num("functions.caches", m.Libraries)
	for i, db := range m.DBs {
		if db.Keys == 0 {
			continue
		}
		w.BulkString(fmt.Sprintf("db.%d", i))
		w.Map(3)
		num("overhead.hashtable.main", db.TableBytes)
		num("overhead.hashtable.expires", db.TTLBytes)
		num("overhead.hashtable.slot-to-keys", 0)
	}
	net := m.Used - min(m.Startup, m.Used)
	num("overhead.total", m.Overhead)
	num("keys.count", int64(m.Keys()))
	if keys := int64(m.Keys()); keys > 0 {
		num("keys.bytes-per-key", net/keys)
	} else {
		num("keys.bytes-per-key", 0)
	}
	num("dataset.bytes", m.Dataset())
	percent("dataset.percentage", m.Dataset(), net)
	percent("peak.percentage", m.Used, m.Peak)
	num("allocator.allocated", m.Allocated)
	num("allocator.active", m.Active)
	num("allocator.resident", m.AllocatorResident)
	quotient("allocator-fragmentation.ratio", m.Active, m.Allocated)
	num("allocator-fragmentation.bytes", m.Active-m.Allocated)
	quotient("allocator-rss.ratio", m.AllocatorResident, m.Active)
	num("allocator-rss.bytes", m.AllocatorResident-m.Active)
	quotient("rss-overhead.ratio", m.Resident, m.AllocatorResident)
	num("rss-overhead.bytes", m.Resident-m.AllocatorResident)
	quotient("fragmentation", m.Resident, m.Used)
	num("fragmentation.bytes", m.Resident-m.Used)
}

// From where on MEMORY DOCTOR speaks of something.
const (
	doctorMinBytes     = 5 << 20   // used; with less, everything else weighs more
	doctorExtraBytes   = 64 << 20  // of the process beyond what is counted
	doctorClientBytes  = 200 << 10 // a connection, on average
	doctorScripts      = 1000
	doctorPeakQuotient = 1.5
	doctorRSSQuotient  = 2
)

func memoryDoctor(srv Server) *command.Spec {
	return &command.Spec{
		Name: "doctor", Arity: 2, Flags: command.AllShards, Since: "4.0.0", Complexity: "O(1)", Tips: memoryTips,
		Summary:     "Says what looks wrong about the memory of the server, and what may help.",
		Differences: "The words, and what is looked for, are our own.",
		Run: func(c *command.Ctx) {
			m := srv.Memory(c.Tx)
			c.W.Verbatim("txt", m.report())
		},
	}
}

// report is what MEMORY DOCTOR answers.
func (m *Memory) report() string {
	if m.Used < doctorMinBytes {
		return fmt.Sprintf("There is next to nothing in memory: %d bytes. Ask again when there are data.\n", m.Used)
	}
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if float64(m.Peak) > doctorPeakQuotient*float64(m.Used) {
		say("Once there were %d bytes, now there are %d. What the process still has of that goes back to the system by and by; MEMORY PURGE gives it back at once.", m.Peak, m.Used)
	}
	if extra := m.Resident - m.Used; extra > doctorExtraBytes && m.Resident > doctorRSSQuotient*m.Used {
		say("The process has %d bytes more than is counted: garbage that the collector has not come to yet, room around objects, and the log's window for readers of "+
			"the feed (kevy_log_memory of INFO). With maxmemory set the collector comes earlier.", extra)
	}
	if n := int64(m.Connections); n > 0 && m.Clients/n > doctorClientBytes {
		say("Connections have %d bytes each on average. CLIENT LIST shows whose (tot-mem, omem); client-output-buffer-limit and maxmemory-clients bound it.", m.Clients/n)
	}
	if m.CachedScripts > doctorScripts {
		say("%d scripts are cached. Programs that write values into the text of a script make a new one each time: KEYS and ARGV are for those.", m.CachedScripts)
	}
	if len(found) == 0 {
		return "Nothing looks wrong about the memory.\n"
	}
	return "What looks wrong about the memory:\n\n- " + strings.Join(found, "\n- ") + "\n"
}
