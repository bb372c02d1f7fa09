package oracle

// pubsubFamily publishes to nobody and ends subscriptions that are not there: those who subscribe get
// messages beside their replies, which the scripts of the commands compare.
var pubsubFamily = family{
	makers: []maker{
		{"PUBLISH", 1, func(g *Generator) [][]byte { return join("PUBLISH", g.channel(), g.value()) }, true, false},
		{"SPUBLISH", 1, func(g *Generator) [][]byte { return join("SPUBLISH", g.channel(), g.value()) }, true, false},
		// Each name has a reply of its own, so there is one at most.
		{"UNSUBSCRIBE", 1, func(g *Generator) [][]byte { return join("UNSUBSCRIBE", g.maybe(50, g.channel())) }, true, false},
		{"PUNSUBSCRIBE", 1, func(g *Generator) [][]byte { return join("PUNSUBSCRIBE", g.maybe(50, g.channel())) }, true, false},
		{"SUNSUBSCRIBE", 1, func(g *Generator) [][]byte { return join("SUNSUBSCRIBE", g.maybe(50, g.channel())) }, true, false},
		{"PUBSUB CHANNELS", 1, func(g *Generator) [][]byte {
			return join("PUBSUB", "CHANNELS", g.maybe(50, g.channel()), g.maybe(10, "x"))
		}, true, false},
		{"PUBSUB NUMSUB", 1, func(g *Generator) [][]byte { return join("PUBSUB", "NUMSUB", g.times(0, 3, g.channel)) }, true, false},
		{"PUBSUB NUMPAT", 1, func(g *Generator) [][]byte { return join("PUBSUB", "NUMPAT", g.maybe(10, "x")) }, true, false},
		{"PUBSUB SHARDCHANNELS", 1, func(g *Generator) [][]byte {
			return join("PUBSUB", "SHARDCHANNELS", g.maybe(50, g.channel()), g.maybe(10, "x"))
		}, true, false},
		{"PUBSUB SHARDNUMSUB", 1, func(g *Generator) [][]byte { return join("PUBSUB", "SHARDNUMSUB", g.times(0, 3, g.channel)) }, true, false},
	},
	avoid: map[string]func(*Generator, [][]byte) bool{
		"UNSUBSCRIBE":  severalNames,
		"PUNSUBSCRIBE": severalNames,
		"SUNSUBSCRIBE": severalNames,
		"SUBSCRIBE":    anyNames,
		"PSUBSCRIBE":   anyNames,
		"SSUBSCRIBE":   anyNames,
	},
}

func severalNames(_ *Generator, args [][]byte) bool { return len(args) > 2 }
func anyNames(_ *Generator, args [][]byte) bool     { return len(args) > 1 }

// channel is the name of a channel, or a pattern.
func (g *Generator) channel() string { return g.oneOf("a", "news.go", "news.*", "*", "", "[a-c]") }
