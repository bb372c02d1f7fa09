package main

// reason says why commands are not supported. A command that becomes supported
// leaves its row here: the generator fails until then.
type reason struct {
	why      string
	commands string // names, or @group for all of a group
}

var notSupported = []reason{
	{"One node holds every slot: there is nothing to hand over, and nobody to ask.",
		`clusterscan cluster|cancelslotmigrations cluster|flushslot cluster|getslotmigrations
		cluster|migrateslots cluster|migration cluster|myshardid cluster|slot-stats cluster|syncslots`},
	{"There is no replication yet.", "failover psync replconf replicaof role slaveof sync waitaof"},
	{"Valkey's: no script is shown again by its digest.", "script|show"},
	{"Nothing is imported slot by slot, and no client is redirected.", "client|capa client|import-source"},
	{"SLOWLOG has what they have of slow commands, MONITOR shows every command.",
		`commandlog commandlog|get commandlog|help commandlog|len commandlog|reset
		hotkeys hotkeys|get hotkeys|reset hotkeys|start hotkeys|stop`},
	{"No module can be loaded.", "module|load module|loadex module|unload"},
	{"A module of Redis 8, which is not here.", "@bloom @count-min @cuckoo @json @search @t-digest @time-series @top-k"},
	{"A type of Redis 8 that is not here.", "@array @vector-set"},
	{"Newer than Redis 8.4 and Valkey 9.0, which data commands follow.",
		`bitrangeintarray bless bless|clear bless|get bless|scan bless|set blmovem bzmove increx lmovem saddex sdiffcard sexpire sexpireat
		sexpiretime spersist spexpire spexpireat spexpiretime spttl sttl sunioncard xcfgset xnack zmove zmovemember`},
}
