// Package geo has the commands on positions, which are kept as the scores of a
// sorted set's members.
package geo

import (
	"math"
	"strconv"

	"kevy/internal/command"
	"kevy/resp"
)

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{
		geoAdd(), geoDist(), geoHash(), geoPos(),
		geoSearch(), geoSearchStore(),
		geoRadius(), geoRadiusRO(), geoRadiusByMember(), geoRadiusByMemberRO(),
	}
}

// shortest is how coordinates differ among the answers.
const shortest = "Coordinates are answered in the fewest digits that tell them apart, as other doubles are."

var errUnit = &resp.Error{Code: "ERR", Text: "unsupported unit provided. please use M, KM, FT, MI"}

// parsePoint returns the next two arguments as a position.
func parsePoint(a *command.Args) (p point) {
	p.lon, p.lat = a.Float(), a.Float()
	if a.Err() == nil && (p.lon < minLongitude || p.lon > maxLongitude || p.lat < minLatitude || p.lat > maxLatitude) {
		a.Fail(resp.Errorf("ERR", "invalid longitude,latitude pair %s,%s", fixed(p.lon), fixed(p.lat)))
	}
	return p
}

// fixed writes a number as C's %f.
func fixed(f float64) string {
	switch {
	case f > math.MaxFloat64:
		return "inf"
	case f < -math.MaxFloat64:
		return "-inf"
	}
	return strconv.FormatFloat(f, 'f', 6, 64)
}

// parseUnit returns how many meters the unit has that comes next.
func parseUnit(a *command.Args) float64 {
	switch {
	case a.Is("M"):
		return 1
	case a.Is("KM"):
		return 1000
	case a.Is("FT"):
		return 0.3048
	case a.Is("MI"):
		return 1609.34
	}
	a.Fail(errUnit)
	return 1
}

// floatOr returns the next argument as a number; anything else is err.
func floatOr(a *command.Args, err *resp.Error) float64 {
	b := a.Bytes()
	if a.Err() != nil {
		return 0
	}
	f, ok := command.ParseFloat(b)
	if !ok {
		a.Fail(err)
	}
	return f
}

func writePoint(w *resp.Writer, p point) {
	w.Array(2)
	w.Double(p.lon)
	w.Double(p.lat)
}

// writeDistance writes a distance, in any protocol as text.
func writeDistance(w *resp.Writer, d float64) {
	var scratch [32]byte
	w.Bulk(strconv.AppendFloat(scratch[:0], d, 'f', 4, 64))
}
