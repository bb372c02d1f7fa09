package geo

import (
	"math"
	"math/big"
	"sync"
)

// Distances are stored as scores and decide the order of answers, so their last
// digits matter. C's sine, cosine and arc sine are all but always the correctly
// rounded ones; those of package math are one digit off now and then. These here
// reckon with about 15 bits more than a double has and round once.
//
// Sine and cosine of k/64 are looked up, those of the rest, below 1/128, are
// short series, and the addition theorems join them. A double is carried as the
// sum of two, the second being what the first lacks (T. J. Dekker, "A Floating-
// Point Technique for Extending the Available Precision", 1971).

const (
	tableParts = 64
	// tableEnd is beyond pi: half the difference of two longitudes.
	tableEnd = 3.25
)

type angle struct{ sin, sinRest, cos, cosRest float64 }

// angles has sine and cosine of each k/64. They are made once, by turning from
// one to the next with 200 bits.
var angles = sync.OnceValue(func() *[tableEnd*tableParts + 2]angle {
	const bits = 200
	number := func() *big.Float { return new(big.Float).SetPrec(bits) }
	// The series of the first one.
	sin1, cos1 := number(), number()
	term := number().SetInt64(1)
	for n := int64(1); n < 30; n++ {
		part := number().Set(term)
		if n%4 == 3 || n%4 == 0 {
			part.Neg(part)
		}
		if n%2 == 1 {
			cos1.Add(cos1, part)
		} else {
			sin1.Add(sin1, part)
		}
		term.Quo(term, number().SetInt64(n*tableParts))
	}
	table := new([tableEnd*tableParts + 2]angle)
	sin, cos := number(), number().SetInt64(1)
	split := func(x *big.Float) (head, rest float64) {
		head, _ = x.Float64()
		rest, _ = number().Sub(x, number().SetFloat64(head)).Float64()
		return head, rest
	}
	for k := range table {
		a := &table[k]
		a.sin, a.sinRest = split(sin)
		a.cos, a.cosRest = split(cos)
		nextSin := number().Add(number().Mul(sin, cos1), number().Mul(cos, sin1))
		cos = number().Sub(number().Mul(cos, cos1), number().Mul(sin, sin1))
		sin = nextSin
	}
	return table
})

// sincos returns the sine and the cosine of x, each as the nearest double and
// what it lacks. x is at most tableEnd, negative or not.
func sincos(x float64) (sin, sinRest, cos, cosRest float64) {
	ax := math.Abs(x)
	k := int(ax*tableParts + 0.5)
	a := &angles()[k]
	r := ax - float64(k)/tableParts // exact
	r2 := r * r
	sinR := r * r2 * (-1.0/6 + r2*(1.0/120-r2*(1.0/5040))) // what the sine of r is beyond r
	cosR := r2 * (-1.0/2 + r2*(1.0/24-r2*(1.0/720)))       // the cosine of r beyond 1

	p := float64(a.cos * r)
	rest := math.FMA(a.cos, r, -p) + a.sinRest + a.sin*cosR + a.cos*sinR + a.cosRest*r
	sin, sinRest = sum(a.sin, p, rest)
	p = float64(-a.sin * r)
	rest = math.FMA(-a.sin, r, -p) + a.cosRest + a.cos*cosR - a.sin*sinR - a.sinRest*r
	cos, cosRest = sum(a.cos, p, rest)
	if x < 0 {
		return -sin, -sinRest, cos, cosRest
	}
	return sin, sinRest, cos, cosRest
}

// sum returns a + b + rest as the nearest double and what it lacks; rest is
// small beside the sum of the others.
func sum(a, b, rest float64) (head, tail float64) {
	s := a + b
	bb := s - a
	lost := (a - (s - bb)) + (b - bb)
	rest += lost
	head = s + rest
	return head, rest - (head - s)
}

func sine(x float64) float64 {
	s, _, _, _ := sincos(x)
	return s
}

func cosine(x float64) float64 {
	if math.Abs(x) > tableEnd || x != x {
		// Of a place beyond the poles, which only a bounding box asks for.
		return math.Cos(x)
	}
	_, _, c, _ := sincos(x)
	return c
}

// steepFrom is where the arc sine is reckoned from the other end: beyond, it
// grows faster than its argument can be told apart.
const steepFrom = 0.99

// halfPiRest is what pi/2 is beyond the nearest double.
const halfPiRest = 6.123233995736766e-17

func arcsine(s float64) float64 {
	if s <= steepFrom || s > 1 || s != s {
		y, rest := arcsineFlat(s)
		return y + rest
	}
	// asin s = pi/2 - 2 asin sqrt((1-s)/2); the difference is exact.
	z := (1 - s) / 2
	if z == 0 {
		return math.Pi / 2
	}
	t := math.Sqrt(z)
	lost := math.FMA(-t, t, z) / (2 * t)
	y, rest := arcsineFlat(t)
	head, tail := sum(math.Pi/2, -2*y, halfPiRest-2*(rest+lost))
	return head + tail
}

// arcsineFlat returns the arc sine as two numbers: one that is near, and a step
// of Newton's method from there.
func arcsineFlat(s float64) (y, rest float64) {
	y = math.Asin(s)
	if y != y {
		return y, 0
	}
	sin, sinRest, cos, _ := sincos(y)
	return y, ((s - sin) - sinRest) / cos
}
