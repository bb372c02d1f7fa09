package geo

import "math"

// A position is kept as the score of its member: a geohash of 52 bits, in which
// 26 bits of the latitude (at the even places, from bit 0) and 26 of the
// longitude take turns. It is that of Redis, which hashes the latitudes of the
// web's Mercator projection (EPSG:900913) rather than those from pole to pole.
// Multiplications whose result is added to something are converted to float64,
// which forbids a processor to do both with one rounding: C does not, on the
// machines whose answers are the measure.

const (
	maxLongitude = 180.0
	minLongitude = -180.0
	maxLatitude  = 85.05112878
	minLatitude  = -85.05112878

	// maxStep is how often a position is halved in each direction.
	maxStep = 26
)

// point is a position in degrees.
type point struct{ lon, lat float64 }

// span is a range of degrees.
type span struct{ min, max float64 }

var (
	longitudes    = span{minLongitude, maxLongitude}
	latitudes     = span{minLatitude, maxLatitude}
	fullLatitudes = span{-90, 90} // of the geohash that GEOHASH answers
)

// cell is an area: the positions whose geohash begins with these 2*step bits.
// The zero cell is none.
type cell struct {
	bits uint64
	step uint
}

// encode returns the cell of a position; lats is what latitudes are hashed in.
func encode(p point, step uint, lats span) cell {
	parts := float64(uint64(1) << step)
	lat := (p.lat - lats.min) / (lats.max - lats.min)
	lon := (p.lon - longitudes.min) / (longitudes.max - longitudes.min)
	return cell{bits: spread(uint32(lat*parts)) | spread(uint32(lon*parts))<<1, step: step}
}

// scoreOf returns the score of a member at a position.
func scoreOf(p point) float64 { return float64(encode(p, maxStep, latitudes).bits) }

// spread puts a zero before each bit.
func spread(v uint32) uint64 {
	x := uint64(v)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & 0x5555555555555555
}

// gather undoes spread; what stands between is left out.
func gather(x uint64) uint32 {
	x &= 0x5555555555555555
	x = (x | x>>1) & 0x3333333333333333
	x = (x | x>>2) & 0x0f0f0f0f0f0f0f0f
	x = (x | x>>4) & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return uint32(x | x>>16)
}

// area returns the degrees that a cell covers.
func (c cell) area() (lon, lat span) {
	return c.side(longitudes, gather(c.bits>>1)), c.side(latitudes, gather(c.bits))
}

func (c cell) side(of span, n uint32) span {
	parts, scale := float64(uint64(1)<<c.step), of.max-of.min
	return span{
		min: of.min + float64(float64(n)/parts*scale),
		max: of.min + float64(float64(n+1)/parts*scale),
	}
}

// pointOf returns the position of a member by its score: the middle of its cell.
// Any number is one.
func pointOf(score float64) point {
	lon, lat := cell{bits: hashOf(score), step: maxStep}.area()
	return point{
		lon: min(max((lon.min+lon.max)/2, minLongitude), maxLongitude),
		lat: min(max((lat.min+lat.max)/2, minLatitude), maxLatitude),
	}
}

const (
	twoTo63 = 1 << 63
	// noInteger is what x86 makes of a number that no integer can be.
	noInteger = math.MinInt64
)

// hashOf makes bits of a score. What is no geohash (a sorted set takes any
// score) becomes what C makes of it on x86-64.
func hashOf(score float64) uint64 {
	if score >= twoTo63 {
		return uint64(integerOf(score-twoTo63)) ^ twoTo63
	}
	return uint64(integerOf(score))
}

// integerOf is the integer that WITHHASH answers.
func integerOf(score float64) int64 {
	if score >= twoTo63 || score < -twoTo63 {
		return noInteger
	}
	return int64(score)
}

// scores returns the range of scores whose positions are in the cell: from
// first, below end.
func (c cell) scores() (first, end float64) {
	shift := 2 * (maxStep - c.step)
	return float64(c.bits << shift), float64((c.bits + 1) << shift)
}

const (
	evenBits = 0x5555555555555555
	oddBits  = 0xaaaaaaaaaaaaaaaa
)

// moved returns the cell that lies so many cells (-1, 0, 1) to the east and to
// the north; the map's edges meet.
func (c cell) moved(east, north int) cell {
	used := uint64(math.MaxUint64) >> (64 - 2*c.step)
	lon, lat := c.bits&oddBits, c.bits&evenBits
	return cell{bits: step(lon, oddBits&used, east) | step(lat, evenBits&used, north), step: c.step}
}

// step adds 1, 0 or -1 to the number whose bits are those of places: with the
// bits between them set, a carry runs through to the next place. At the very
// edge of the map a number has one bit more, which is lost where it changes.
func step(n, places uint64, by int) uint64 {
	switch {
	case by > 0:
		return ((n | ^places) + 1) & places
	case by < 0:
		return (n - 1) & places
	}
	return n
}

// geohashText appends the standard geohash of a position: 11 letters, the last
// of which Redis leaves empty, as 52 bits fill ten.
func geohashText(dst []byte, p point) []byte {
	const letters = "0123456789bcdefghjkmnpqrstuvwxyz"
	bits := encode(p, maxStep, fullLatitudes).bits
	for shift := 47; shift > 0; shift -= 5 {
		dst = append(dst, letters[bits>>shift&31])
	}
	return append(dst, letters[0])
}
