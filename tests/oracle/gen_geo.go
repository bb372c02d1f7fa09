package oracle

import (
	"math"
	"strconv"
	"strings"

	"kevy/tests/wire"
)

var geoFamily = family{
	keys: map[byte][]string{'g': {"g0", "g1", "g2", "{tag}g"}},
	makers: []maker{
		{"GEOADD", 10, makeGeoadd, true, true},
		{"GEODIST", 4, func(g *Generator) [][]byte {
			return join("GEODIST", g.key('g'), g.placeName(), g.placeName(), g.maybe(60, g.unit()))
		}, true, true},
		{"GEOHASH", 3, func(g *Generator) [][]byte { return join("GEOHASH", g.key('g'), g.times(0, 4, g.placeName)) }, true, true},
		{"GEOPOS", 3, func(g *Generator) [][]byte { return join("GEOPOS", g.key('g'), g.times(0, 4, g.placeName)) }, true, true},
		{"GEOSEARCH", 8, func(g *Generator) [][]byte {
			return join("GEOSEARCH", g.key('g'), g.searchOptions(g.searchOrder(), g.searchWith(), g.maybe(2, "STOREDIST")))
		}, true, true},
		{"GEOSEARCHSTORE", 5, func(g *Generator) [][]byte {
			return join("GEOSEARCHSTORE", g.key('g'), g.key('g'), g.searchOptions(g.searchOrder(), g.maybe(40, "STOREDIST"), g.maybe(3, "WITHDIST")))
		}, true, true},
		{"GEORADIUS", 5, func(g *Generator) [][]byte {
			return join("GEORADIUS", g.key('g'), g.place(), g.distance(), g.unit(), g.searchOrder(), g.searchWith(), g.radiusStore())
		}, true, true},
		{"GEORADIUS_RO", 3, func(g *Generator) [][]byte {
			return join("GEORADIUS_RO", g.key('g'), g.place(), g.distance(), g.unit(), g.searchOrder(), g.searchWith())
		}, true, true},
		{"GEORADIUSBYMEMBER", 5, func(g *Generator) [][]byte {
			return join("GEORADIUSBYMEMBER", g.key('g'), g.placeName(), g.distance(), g.unit(), g.searchOrder(), g.searchWith(), g.radiusStore())
		}, true, true},
		{"GEORADIUSBYMEMBER_RO", 3, func(g *Generator) [][]byte {
			return join("GEORADIUSBYMEMBER_RO", g.key('g'), g.placeName(), g.distance(), g.unit(), g.searchOrder(), g.searchWith())
		}, true, true},
	},
	modes: map[string]mode{
		"GEOPOS": coordinates, "GEOSEARCH": coordinates, "GEORADIUS": coordinates, "GEORADIUS_RO": coordinates,
		"GEORADIUSBYMEMBER": coordinates, "GEORADIUSBYMEMBER_RO": coordinates,
	},
	specials: map[string]special{
		"GEOSEARCHSTORE":    {run: storeDistances, when: storesDistances},
		"GEORADIUS":         {run: storeDistances, when: storesDistances},
		"GEORADIUSBYMEMBER": {run: storeDistances, when: storesDistances},
	},
}

func makeGeoadd(g *Generator) [][]byte {
	a := []string{g.key('g')}
	if g.p(25) {
		a = append(a, g.maybe(40, "NX")...)
		a = append(a, g.maybe(40, "XX")...)
		a = append(a, g.maybe(50, "CH")...)
	}
	n := 1 + g.rng.IntN(5)
	if g.p(4) {
		n = 100 + g.rng.IntN(200)
	}
	for range n {
		a = append(a, g.place()...)
		a = append(a, g.placeName())
	}
	return join("GEOADD", a)
}

func (g *Generator) placeName() string {
	if g.p(4) {
		return g.field()
	}
	return "p" + strconv.Itoa(g.rng.IntN(60))
}

// place gives a longitude and a latitude: in a city, so that places are near each other; anywhere; and where the
// map ends.
func (g *Generator) place() []string {
	coordinate := func(limit float64, digits int) string {
		return strconv.FormatFloat((g.rng.Float64()*2-1)*limit, 'f', digits, 64)
	}
	switch n := g.rng.IntN(20); {
	case n < 1:
		return []string{g.oneOf("180", "-180", "179.9999999", "-179.9999999", "0", g.score()), g.oneOf("85.05112878", "-85.05112878", "85", "-85", "0", g.score())}
	case n < 3:
		return []string{coordinate(180, 6), coordinate(85.05, 6)}
	case n < 5:
		return []string{strconv.Itoa(g.rng.IntN(361) - 180), strconv.Itoa(g.rng.IntN(171) - 85)}
	case n < 6:
		return []string{coordinate(0.001, 9), coordinate(0.001, 9)}
	case n < 7:
		return []string{strconv.FormatFloat(179.9+g.rng.Float64()/10, 'f', 6, 64), coordinate(85, 3)}
	case n < 12:
		return []string{strconv.FormatFloat(13+float64(g.rng.IntN(40))/20, 'f', -1, 64), strconv.FormatFloat(37+float64(g.rng.IntN(40))/20, 'f', -1, 64)}
	}
	return []string{strconv.FormatFloat(13.4+g.rng.Float64(), 'f', 6, 64), strconv.FormatFloat(52.5+g.rng.Float64()/2, 'f', 6, 64)}
}

func (g *Generator) unit() string {
	if g.p(3) {
		return g.oneOf("cm", "", "mm")
	}
	return g.oneOf("m", "km", "ft", "mi", "KM", "M")
}

func (g *Generator) distance() string {
	switch n := g.rng.IntN(20); {
	case n < 1:
		return g.score()
	case n < 4:
		return g.oneOf("0", "1", "0.5", "1e7", "30000", "20037726.37", "6000")
	}
	return strconv.FormatFloat(g.rng.ExpFloat64()*float64(int(1)<<g.rng.IntN(18)), 'f', g.rng.IntN(4), 64)
}

func (g *Generator) searchOptions(more ...[]string) []string {
	var parts [][]string
	if g.p(60) {
		parts = append(parts, append([]string{"FROMLONLAT"}, g.place()...))
	} else {
		parts = append(parts, []string{"FROMMEMBER", g.placeName()})
	}
	if g.p(60) {
		parts = append(parts, []string{"BYRADIUS", g.distance(), g.unit()})
	} else {
		parts = append(parts, []string{"BYBOX", g.distance(), g.distance(), g.unit()})
	}
	if g.p(3) {
		parts = append(parts, []string{"BYRADIUS", "1", "km"}, []string{"FROMMEMBER", g.placeName()})
	}
	parts = append(parts, more...)
	if g.p(30) {
		g.rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	}
	var out []string
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func (g *Generator) searchOrder() []string {
	out := g.maybe(40, g.oneOf("ASC", "DESC", "asc"))
	if g.p(40) {
		out = append(out, "COUNT", g.oneOf("1", "2", "3", "5", "10", "100", g.count()))
		out = append(out, g.maybe(30, "ANY")...)
	}
	return append(out, g.maybe(1, "ANY")...)
}

func (g *Generator) searchWith() []string {
	out := g.maybe(40, "WITHDIST")
	out = append(out, g.maybe(25, "WITHHASH")...)
	return append(out, g.maybe(30, "WITHCOORD")...)
}

func (g *Generator) radiusStore() []string {
	out := g.maybe(20, "STORE", g.key('g'))
	return append(out, g.maybe(15, "STOREDIST", g.key('g'))...)
}

// sameCoordinates compares replies in which redis 7.0 writes coordinates with 17 places behind the point.
func sameCoordinates(want, got wire.Reply) bool {
	if want.Kind != got.Kind || want.Nil != got.Nil || len(want.Elems) != len(got.Elems) || !allSame(coordinates, want.Elems, got.Elems) {
		return false
	}
	if !want.Scalar() || string(want.Text) == string(got.Text) {
		return true
	}
	f, err := strconv.ParseFloat(string(got.Text), 64)
	return err == nil && string(want.Text) == coordinateText(f)
}

// coordinateText is how redis 7.0 writes a coordinate: C's %.17f without the zeros at its end.
func coordinateText(f float64) string {
	text := strconv.FormatFloat(f, 'f', 17, 64)
	for text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	if text[len(text)-1] == '.' {
		text = text[:len(text)-1]
	}
	if text == "-0" {
		text = "0"
	}
	return text
}

func storesDistances(args [][]byte) bool { return hasOption(args, "STOREDIST") }

// maxDistanceError is how far stored distances may lie apart, in parts of them: C's sine, cosine and arc sine
// are one digit off the nearest double in about one case of a thousand. The steeper the arc sine, towards the other
// side of the earth, the more that is.
const maxDistanceError = 1e-15

func distanceTolerance(distance, metersPerUnit float64) float64 {
	const earthRadius, steepest = 6372797.560856, 1e-8
	return distance * maxDistanceError / max(math.Cos(distance*metersPerUnit/(2*earthRadius)), steepest)
}

// metersPerUnit is that of the unit of a search.
func metersPerUnit(args [][]byte) float64 {
	for _, a := range args[2:] {
		switch strings.ToLower(string(a)) {
		case "km":
			return 1000
		case "ft":
			return 0.3048
		case "mi":
			return 1609.34
		}
	}
	return 1
}

// storeDistances runs a command that stores distances, compares these, and makes the last digits the same.
func storeDistances(p *Pair, s Step, at int) (*Difference, error) {
	want, _, diff, err := p.runOne(s, at)
	if diff != nil || err != nil || want.IsError("") {
		return diff, err
	}
	for i, a := range s.Args {
		key := ""
		switch {
		case i == 1 && name(s.Args) == "GEOSEARCHSTORE":
			key = string(a)
		case i > 1 && hasOption(s.Args[i-1:i], "STOREDIST"):
			key = string(a)
		default:
			continue
		}
		if diff, err := p.sameDistances(key, p.state[s.Conn].db, metersPerUnit(s.Args)); diff != nil || err != nil {
			if diff != nil {
				diff.Index, diff.Step = at, s
			}
			return diff, err
		}
	}
	return nil, nil
}

// sameDistances compares a sorted set of distances and gives the server the scores of the oracle.
func (p *Pair) sameDistances(key string, db int, metersPerUnit float64) (*Difference, error) {
	var both [2]wire.Reply
	for i, sd := range []*side{&p.oracle, &p.server} {
		if err := sd.selectDB(db); err != nil {
			return nil, err
		}
		var err error
		if both[i], err = sd.admin.Do("ZRANGE", key, "0", "-1", "WITHSCORES"); err != nil {
			return nil, err
		}
	}
	scores := map[string]float64{}
	list := both[1].Strings()
	for i := 0; i+1 < len(list); i += 2 {
		scores[list[i]], _ = strconv.ParseFloat(list[i+1], 64)
	}
	list = both[0].Strings()
	differ := 2*len(scores) != len(list)
	for i := 0; i+1 < len(list) && !differ; i += 2 {
		want, err := strconv.ParseFloat(list[i+1], 64)
		got, ok := scores[list[i]]
		if differ = err != nil || !ok || math.Abs(got-want) > distanceTolerance(want, metersPerUnit); differ || got == want {
			continue
		}
		if err := p.untold(&p.server, "ZADD", key, list[i+1], list[i]); err != nil {
			return nil, err
		}
	}
	if differ {
		return &Difference{What: "stored distances", Want: both[0].String(), Got: both[1].String()}, nil
	}
	return nil, nil
}
