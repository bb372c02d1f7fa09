package geo

import "kevy/internal/command"

const (
	placeSyntax = "<FROMMEMBER member | FROMLONLAT longitude latitude> " +
		"<BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]]"
	searchComplexity = "O(N+log(M)) for N members in the cells around the shape, of M"
)

func geoSearch() *command.Spec {
	return &command.Spec{
		Name: "geosearch", Arity: -7, Flags: command.ReadOnly, Category: command.CatGeo,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "geo", Since: "6.2.0", Complexity: searchComplexity,
		Syntax:      "key " + placeSyntax + " [WITHCOORD] [WITHDIST] [WITHHASH]",
		Summary:     "Answers the members within a circle or a box.",
		Differences: shortest,
		Run:         searching(named, 1, false),
	}
}

func geoSearchStore() *command.Spec {
	return &command.Spec{
		Name: "geosearchstore", Arity: -8, Flags: command.Write | command.TellsMisses | command.DenyOOM, Category: command.CatGeo,
		Keys: []command.KeySpec{
			command.Range(1, 0, 1, command.OW|command.Update),
			command.Range(2, 0, 1, command.RO|command.Access),
		},
		Group: "geo", Since: "6.2.0", Complexity: searchComplexity,
		Syntax:  "destination source " + placeSyntax + " [STOREDIST]",
		Summary: "Stores the members within a circle or a box, with their positions or distances; answers how many.",
		Run:     searching(named, 2, true),
	}
}
