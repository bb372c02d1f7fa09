package lualib

import "math"

// Powers, exponentials and logarithms in twice the precision, so that they round
// as those of C's library do, which is right but for a few in a thousand million.
// Go's own are off by one in the last place now and then.

// double2 is the sum of two numbers, the second far below the first.
type double2 struct{ hi, lo float64 }

func sum2(a, b float64) double2 {
	s := a + b
	t := s - a
	return double2{s, (a - (s - t)) + (b - t)}
}

func (a double2) add(b double2) double2 {
	s := sum2(a.hi, b.hi)
	return sum2(s.hi, s.lo+a.lo+b.lo)
}

func product2(a, b float64) double2 {
	p := a * b
	return double2{p, math.FMA(a, b, -p)}
}

func (a double2) mul(b double2) double2 {
	p := product2(a.hi, b.hi)
	return sum2(p.hi, p.lo+(a.hi*b.lo+a.lo*b.hi))
}

func (a double2) neg() double2 { return double2{-a.hi, -a.lo} }

// over divides by a whole number.
func (a double2) over(n float64) double2 {
	q := a.hi / n
	r := product2(q, n)
	return sum2(q, (a.hi-r.hi-r.lo+a.lo)/n)
}

// div divides by b, with a second step of long division.
func (a double2) div(b double2) double2 {
	q := a.hi / b.hi
	r := a.add(b.mul(double2{q, 0}).neg())
	q2 := r.hi / b.hi
	r = r.add(b.mul(double2{q2, 0}).neg())
	s := sum2(q, q2)
	return sum2(s.hi, s.lo+r.hi/b.hi)
}

var (
	ln2  = double2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}
	ln10 = double2{0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53}
)

// exp2 is e to the power of x, as a number and the power of two to scale it by.
func exp2(x double2) (double2, int) {
	k := math.Round(x.hi / ln2.hi)
	r := x.add(ln2.mul(double2{k, 0}).neg())
	const halvings = 8
	r = double2{r.hi / (1 << halvings), r.lo / (1 << halvings)}
	sum, term := double2{1, 0}, double2{1, 0}
	for n := 1.0; n <= 9; n++ {
		term = term.mul(r).over(n)
		sum = sum.add(term)
	}
	// The small part is squared apart from the 1 that it belongs to, which would
	// swallow it.
	m := sum.add(double2{-1, 0})
	for range halvings {
		m = m.mul(m).add(double2{2 * m.hi, 2 * m.lo})
	}
	return m.add(double2{1, 0}), int(k)
}

// log2 is the natural logarithm of a positive, finite number.
func log2(x float64) double2 {
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f, e = f*2, e-1
	}
	y := math.Log(f)
	// One step of Newton's: y + (f/e^y - 1), and the square it leaves.
	p, k := exp2(double2{-y, 0})
	p = double2{math.Ldexp(p.hi, k), math.Ldexp(p.lo, k)}
	d := p.mul(double2{f, 0}).add(double2{-1, 0})
	d = d.add(d.mul(d).over(2).neg())
	return double2{y, 0}.add(d).add(ln2.mul(double2{float64(e), 0}))
}

func exactExp(x float64) float64 {
	f := math.Exp(x)
	if f == 0 || f == 1 || f != f || math.IsInf(f, 0) || f < 0x1p-1000 {
		return f
	}
	r, k := exp2(double2{x, 0})
	return math.Ldexp(r.hi+r.lo, k)
}

func exactLog(x float64) float64 {
	if x <= 0 || x != x || math.IsInf(x, 0) || x == 1 {
		return math.Log(x)
	}
	r := log2(x)
	return r.hi + r.lo
}

func exactLog10(x float64) float64 {
	if x <= 0 || x != x || math.IsInf(x, 0) || x == 1 {
		return math.Log10(x)
	}
	r := log2(x).div(ln10)
	return r.hi + r.lo
}

// exactPow is a to the power of b.
func exactPow(a, b float64) float64 {
	f := math.Pow(a, b)
	if f == 0 || f != f || math.IsInf(f, 0) || math.Abs(f) == 1 || math.Abs(f) < 0x1p-1000 {
		return f
	}
	r, k := exp2(log2(math.Abs(a)).mul(double2{b, 0}))
	return math.Copysign(math.Ldexp(r.hi+r.lo, k), f)
}

// halfPi is half of pi, to three times the precision.
var halfPi = [3]float64{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110}

// maxExactAngle bounds the angles whose sine is computed in twice the precision:
// of larger ones halfPi has not enough digits.
const maxExactAngle = 1 << 20

// sinCos2 returns the sine and the cosine of an angle.
func sinCos2(x float64) (sin, cos double2) {
	k := math.Round(x / halfPi[0])
	r := sum2(x, 0)
	for _, part := range halfPi {
		r = r.add(product2(-k, part))
	}
	square := r.mul(r).neg()
	sin, cos = double2{0, 0}, double2{0, 0}
	s, c := r, double2{1, 0}
	for n := 1.0; n < 28; n += 2 {
		sin, cos = sin.add(s), cos.add(c)
		c = c.mul(square).over(n * (n + 1))
		s = s.mul(square).over((n + 1) * (n + 2))
	}
	switch int64(k) & 3 {
	case 1:
		return cos, sin.neg()
	case 2:
		return sin.neg(), cos.neg()
	case 3:
		return cos.neg(), sin
	}
	return sin, cos
}

func exactAngle(x float64) bool {
	return x != 0 && math.Abs(x) < maxExactAngle && math.Abs(x) > 0x1p-26
}

func exactSin(x float64) float64 {
	if !exactAngle(x) {
		return math.Sin(x)
	}
	s, _ := sinCos2(x)
	return s.hi + s.lo
}

func exactCos(x float64) float64 {
	if !exactAngle(x) {
		return math.Cos(x)
	}
	_, c := sinCos2(x)
	return c.hi + c.lo
}

func exactTan(x float64) float64 {
	if !exactAngle(x) {
		return math.Tan(x)
	}
	s, c := sinCos2(x)
	t := s.div(c)
	return t.hi + t.lo
}
