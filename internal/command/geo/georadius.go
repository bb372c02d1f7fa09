package geo

import "kevy/internal/command"

const (
	radiusOptions = "radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]"
	storeOptions  = " [STORE key] [STOREDIST key]"
)

func geoRadius() *command.Spec {
	return &command.Spec{
		Name: "georadius", Arity: -6, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatGeo,
		Keys:  radiusKeys(6),
		Reach: radiusReach,
		Group: "geo", Since: "3.2.0", Complexity: searchComplexity,
		Syntax:      "key longitude latitude " + radiusOptions + storeOptions,
		Summary:     "Answers or stores the members within a radius of a position. GEOSEARCH does the same and more.",
		Differences: shortest,
		Run:         searching(aroundPoint, 1, true),
	}
}

func geoRadiusRO() *command.Spec {
	return &command.Spec{
		Name: "georadius_ro", Arity: -6, Flags: command.ReadOnly, Category: command.CatGeo,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "geo", Since: "3.2.10", Complexity: searchComplexity,
		Syntax:      "key longitude latitude " + radiusOptions,
		Summary:     "GEORADIUS without STORE: a command that reads.",
		Differences: shortest,
		Run:         searching(aroundPoint, 1, false),
	}
}

func geoRadiusByMember() *command.Spec {
	return &command.Spec{
		Name: "georadiusbymember", Arity: -5, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatGeo,
		Keys:  radiusKeys(5),
		Reach: radiusReach,
		Group: "geo", Since: "3.2.0", Complexity: searchComplexity,
		Syntax:      "key member " + radiusOptions + storeOptions,
		Summary:     "Answers or stores the members within a radius of one of them. GEOSEARCH does the same and more.",
		Differences: shortest,
		Run:         searching(aroundMember, 1, true),
	}
}

func geoRadiusByMemberRO() *command.Spec {
	return &command.Spec{
		Name: "georadiusbymember_ro", Arity: -5, Flags: command.ReadOnly, Category: command.CatGeo,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "geo", Since: "3.2.10", Complexity: searchComplexity,
		Syntax:      "key member " + radiusOptions,
		Summary:     "GEORADIUSBYMEMBER without STORE: a command that reads.",
		Differences: shortest,
		Run:         searching(aroundMember, 1, false),
	}
}

func radiusKeys(options int) []command.KeySpec {
	stored := func(keyword string) command.KeySpec {
		return command.KeySpec{Flags: command.OW | command.Update, Keyword: keyword, StartFrom: options, Step: 1}
	}
	return []command.KeySpec{command.Range(1, 0, 1, command.RO|command.Access), stored("STORE"), stored("STOREDIST")}
}

// radiusReach returns whatever stands behind STORE and STOREDIST: the last one
// counts, and the key specs find the first.
func radiusReach(args [][]byte) (keys [][]byte, all bool) {
	for i, a := range args[:len(args)-1] {
		if command.EqualFold(a, "STORE") || command.EqualFold(a, "STOREDIST") {
			keys = append(keys, args[i+1])
		}
	}
	return keys, false
}
