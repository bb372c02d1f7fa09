package geo

import "math"

// earthRadius is the mean radius in meters that Redis reckons with.
const earthRadius = 6372797.560856

// radian is one degree; both roundings of its value matter.
var radian = float64(math.Pi) / 180

// origin is a place that distances are measured from.
type origin struct {
	point
	latR, lonR float64 // in radians
	cosLat     float64
}

func originAt(p point) origin {
	o := origin{point: p, latR: p.lat * radian, lonR: p.lon * radian}
	o.cosLat = cosine(o.latR)
	return o
}

// distance returns the length in meters of the great circle from the origin to
// p, by the haversine formula.
func (o *origin) distance(p point) float64 {
	latR, lonR := p.lat*radian, p.lon*radian
	u, v := sine((latR-o.latR)/2), sine((lonR-o.lonR)/2)
	return 2 * earthRadius * arcsine(math.Sqrt(float64(u*u)+float64(o.cosLat*cosine(latR)*v*v)))
}

// distance returns the distance between two positions in meters.
func distance(a, b point) float64 {
	o := originAt(a)
	return o.distance(b)
}

// isFarther reports, in less time than distance takes, that p is beyond the
// radius; false means that it may be.
func (o *origin) isFarther(p point, radius float64) bool {
	// Far more than these shorter ways can be wrong by.
	radius += 1 + radius*1e-9
	latR, lonR := p.lat*radian, p.lon*radian
	if math.Abs(latR-o.latR)*earthRadius > radius {
		return true
	}
	u, v := math.Sin((latR-o.latR)/2), math.Sin((lonR-o.lonR)/2)
	return 2*earthRadius*math.Asin(math.Sqrt(min(1, u*u+o.cosLat*math.Cos(latR)*v*v))) > radius
}
