package geo

import "math"

// shape is a circle or, if box is set, a box around a place.
type shape struct {
	center        origin
	box           bool
	radius        float64 // of the circle, in units
	width, height float64 // of the box, in units
	unit          float64 // in meters
}

// distance returns how far a position in the shape is from its center, in
// meters.
func (s *shape) distance(p point) (meters float64, inside bool) {
	if !s.box {
		if s.center.isFarther(p, s.radius*s.unit) {
			return 0, false
		}
		meters = s.center.distance(p)
		return meters, !(meters > s.radius*s.unit)
	}
	halfWidth, halfHeight := s.width*s.unit/2, s.height*s.unit/2
	if math.Abs(p.lat-s.center.lat)*radian*earthRadius > halfHeight+1+halfHeight*1e-9 {
		return 0, false
	}
	along := originAt(p)
	if along.distance(point{s.center.lon, p.lat}) > halfWidth || along.distance(point{p.lon, s.center.lat}) > halfHeight {
		return 0, false
	}
	return s.center.distance(p), true
}

// bounds returns the ranges of degrees around the shape. Where they get wider
// towards a pole that is not always what it covers: it is how Redis chooses the
// cells that it searches, and so the order of what it finds.
func (s *shape) bounds() (lon, lat span) {
	height, width := s.unit*s.radius, s.unit*s.radius
	if s.box {
		height, width = s.unit*(s.height/2), s.unit*(s.width/2)
	}
	up := height / earthRadius / radian
	nearest := s.center.lat + up
	if s.center.lat < 0 {
		nearest = s.center.lat - up
	}
	aside := width / earthRadius / cosine(nearest*radian) / radian
	return span{s.center.lon - aside, s.center.lon + aside}, span{s.center.lat - up, s.center.lat + up}
}

// reach returns how far the shape reaches from its center, in meters.
func (s *shape) reach() float64 {
	if !s.box {
		return s.radius * s.unit
	}
	w, h := s.width/2, s.height/2
	return math.Sqrt(float64(w*w)+float64(h*h)) * s.unit
}

// mercatorMax is half the width of the map in meters, as Redis has it.
const mercatorMax = 20037726.37

// stepFor returns the step at which nine cells cover what is within so many
// meters of a latitude.
func stepFor(meters, lat float64) uint {
	if meters == 0 {
		return maxStep
	}
	step := 1
	for ; meters < mercatorMax; step++ {
		meters *= 2
	}
	step -= 2 // so that most shapes are covered wherever they lie in their cell
	// Cells get narrower towards the poles.
	if math.Abs(lat) > 66 {
		step--
		if math.Abs(lat) > 80 {
			step--
		}
	}
	return uint(min(max(step, 1), maxStep))
}

// neighbors are the cells that are searched: the one of the center and those
// around it, as steps to the east and to the north, in the order in which their
// members are answered.
var neighbors = [9]struct{ east, north int }{
	{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1},
}

// cells returns the cells that are searched; those that are not needed are zero.
func (s *shape) cells() (found [len(neighbors)]cell) {
	lon, lat := s.bounds()
	step := stepFor(s.reach(), s.center.lat)
	center := encode(s.center.point, step, latitudes)
	// At this step the cells around may end before the shape does.
	_, north := center.moved(0, 1).area()
	_, south := center.moved(0, -1).area()
	east, _ := center.moved(1, 0).area()
	west, _ := center.moved(-1, 0).area()
	if step > 1 && (north.max < lat.max || south.min > lat.min || east.max < lon.max || west.min > lon.min) {
		step--
		center = encode(s.center.point, step, latitudes)
	}
	ownLon, ownLat := center.area()
	for i, n := range neighbors {
		if step >= 2 && (n.north < 0 && ownLat.min < lat.min || n.north > 0 && ownLat.max > lat.max ||
			n.east < 0 && ownLon.min < lon.min || n.east > 0 && ownLon.max > lon.max) {
			continue
		}
		found[i] = center.moved(n.east, n.north)
	}
	return found
}
