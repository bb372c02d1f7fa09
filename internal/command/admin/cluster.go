package admin

import (
	"kevy/internal/command"
	"kevy/resp"
)

const clusterDifferences = "Answers as redis-server does whose cluster support is disabled."

// refuseCluster answers that there is no cluster.
func refuseCluster(c *command.Ctx) {
	c.W.Error(resp.Errorf("ERR", "This instance has cluster support disabled"))
}

// clusterModes are the commands with which a client of a cluster says what its next
// commands, or all that come, are to be taken for.
func clusterModes() []*command.Spec {
	mode := func(name string, flags command.Flags) *command.Spec {
		return &command.Spec{
			Name: name, Arity: 1, Flags: command.Fast | command.Unlocked | flags, Category: command.CatConnection,
			Group: "cluster", Since: "3.0.0", Complexity: "O(1)",
			Summary: "Answers that there is no cluster.", Differences: clusterDifferences, Run: refuseCluster,
		}
	}
	return []*command.Spec{mode("asking", 0), mode("readonly", serverFlags), mode("readwrite", serverFlags)}
}

// cluster answers what clients ask when they connect: this is no cluster.
func cluster() *command.Spec {
	const (
		plain  = command.Stale
		admin  = plain | command.Admin
		change = admin | command.NoAsyncLoading
		random = true
	)
	sub := func(name string, arity int, flags command.Flags, since string, nondeterministic ...bool) *command.Spec {
		s := &command.Spec{
			Name: name, Arity: arity, Flags: flags | command.Unlocked, Since: since, Complexity: "O(1)",
			Summary: "Answers that there is no cluster.", Differences: clusterDifferences,
			Run: refuseCluster,
		}
		if len(nondeterministic) > 0 {
			s.Tips = []string{"nondeterministic_output"}
		}
		return s
	}
	return &command.Spec{
		Name: "cluster", Arity: -2, Group: "cluster", Since: "3.0.0",
		Summary:     "Commands about a cluster, of which this server is never a part.",
		Differences: clusterDifferences,
		Sub: []*command.Spec{
			sub("addslots", -3, change, "3.0.0"),
			sub("addslotsrange", -4, change, "7.0.0"),
			sub("bumpepoch", 2, change, "3.0.0", random),
			sub("count-failure-reports", 3, admin, "3.0.0", random),
			sub("countkeysinslot", 3, plain, "3.0.0"),
			sub("delslots", -3, change, "3.0.0"),
			sub("delslotsrange", -4, change, "7.0.0"),
			sub("failover", -2, change, "3.0.0"),
			sub("flushslots", 2, change, "3.0.0"),
			sub("forget", 3, change, "3.0.0"),
			sub("getkeysinslot", 4, plain, "3.0.0", random),
			sub("help", 2, plain|command.Loading, "5.0.0"),
			sub("info", 2, plain, "3.0.0", random),
			sub("keyslot", 3, plain, "3.0.0"),
			sub("links", 2, plain, "7.0.0", random),
			sub("meet", -4, change, "3.0.0"),
			sub("myid", 2, plain, "3.0.0"),
			sub("nodes", 2, plain, "3.0.0", random),
			sub("replicas", 3, admin, "5.0.0", random),
			sub("replicate", 3, change, "3.0.0"),
			sub("reset", -2, admin|command.NoScript, "3.0.0"),
			sub("saveconfig", 2, change, "3.0.0"),
			sub("set-config-epoch", 3, change, "3.0.0"),
			sub("setslot", -4, change, "3.0.0"),
			sub("shards", 2, plain, "7.0.0", random),
			sub("slaves", 3, admin, "3.0.0", random),
			sub("slots", 2, plain, "3.0.0", random),
		},
	}
}
