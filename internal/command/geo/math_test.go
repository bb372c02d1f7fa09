package geo

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

func TestRadian(t *testing.T) {
	if got, want := math.Float64bits(radian), uint64(0x3f91df46a2529d39); got != want {
		t.Errorf("a degree is %x, want %x", got, want)
	}
}

const testBits = 300

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(testBits).SetFloat64(x) }

// bigSine is the series of the sine.
func bigSine(x *big.Float) *big.Float {
	sum, term := new(big.Float).SetPrec(testBits), new(big.Float).SetPrec(testBits).Set(x)
	square := new(big.Float).SetPrec(testBits).Mul(x, x)
	for n := int64(1); term.Sign() != 0 && term.MantExp(nil) > -testBits; n += 2 {
		sum.Add(sum, term)
		term.Mul(term, square)
		term.Quo(term, bigFloat(float64((n+1)*(n+2))))
		term.Neg(term)
	}
	return sum
}

var bigHalfPi = func() *big.Float {
	f, _, err := big.ParseFloat("1.5707963267948966192313216916397514420985846996875529104874722961539082031431044993140174126710585339910740432566411533", 10, testBits, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return f
}()

// bigArcsine finds the angle by Newton's method.
func bigArcsine(s float64) *big.Float {
	y := bigFloat(math.Asin(s))
	for range 8 {
		cos := bigSine(new(big.Float).SetPrec(testBits).Sub(bigHalfPi, y))
		if cos.MantExp(nil) < -200 {
			return y
		}
		diff := new(big.Float).SetPrec(testBits).Sub(bigFloat(s), bigSine(y))
		y.Add(y, diff.Quo(diff, cos))
	}
	return y
}

// TestRounding holds that sine, cosine and arc sine are the nearest doubles.
func TestRounding(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	const rounds = 2000
	wrong := map[string]int{}
	check := func(name string, got float64, want *big.Float) {
		if w, _ := want.Float64(); w != got {
			wrong[name]++
			if math.Abs(got-w) > math.Abs(w)*0x1p-52 {
				t.Errorf("%s: %v, want %v", name, got, w)
			}
		}
	}
	for i := range rounds {
		x := (rng.Float64()*2 - 1) * math.Pi
		if i%3 == 0 {
			x *= math.Pow(2, -float64(rng.IntN(40)))
		}
		check("sine", sine(x), bigSine(bigFloat(x)))
		lat := (rng.Float64()*2 - 1) * maxLatitude * radian
		check("cosine", cosine(lat), bigSine(new(big.Float).SetPrec(testBits).Sub(bigHalfPi, bigFloat(lat))))
		s := rng.Float64()
		switch i % 3 {
		case 0:
			s = math.Sqrt(s) * math.Pow(2, -float64(rng.IntN(30)))
		case 1:
			s = 1 - s*math.Pow(2, -float64(rng.IntN(40)))
		}
		check("arc sine", arcsine(s), bigArcsine(s))
	}
	for name, n := range wrong {
		t.Logf("%s: %d of %d are the second nearest", name, n, rounds)
		if n > rounds/500 {
			t.Errorf("%s: %d of %d are not the nearest", name, n, rounds)
		}
	}
	for _, x := range []float64{0, 1, 0.5, steepFrom, math.Nextafter(1, 0)} {
		check("arc sine", arcsine(x), bigArcsine(x))
	}
	if sine(0) != 0 || cosine(0) != 1 || arcsine(1) != math.Pi/2 || arcsine(0) != 0 {
		t.Error("exact values are not exact")
	}
}

// TestFarther holds the short way to tell what is far off to the long one.
func TestFarther(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	random := func() point {
		return point{(rng.Float64()*2 - 1) * maxLongitude, (rng.Float64()*2 - 1) * maxLatitude}
	}
	for range 20_000 {
		a, b := random(), random()
		if rng.IntN(2) == 0 {
			b = point{a.lon + rng.Float64()/100, min(a.lat+rng.Float64()/100, maxLatitude)}
		}
		o := originAt(a)
		d := o.distance(b)
		if o.isFarther(b, d) {
			t.Fatalf("%v and %v are %v apart, and farther", a, b, d)
		}
		if r := d*(1-1e-6) - 2; r > 0 && !o.isFarther(b, r) {
			t.Fatalf("%v and %v are %v apart, and not farther than %v", a, b, d, r)
		}
	}
}

func TestCells(t *testing.T) {
	for _, v := range []uint32{0, 1, 0x12345678, math.MaxUint32} {
		if got := gather(spread(v)); got != v {
			t.Errorf("%x comes back as %x", v, got)
		}
	}
	// The map's edges meet.
	for step := uint(1); step <= maxStep; step++ {
		c := encode(point{-180, minLatitude}, step, latitudes)
		if c.bits != 0 {
			t.Errorf("step %d: the first cell is %x", step, c.bits)
		}
		last := c.moved(-1, -1)
		if want := uint64(1)<<(2*step) - 1; last.bits != want {
			t.Errorf("step %d: before the first cell is %x, want %x", step, last.bits, want)
		}
		if back := last.moved(1, 1); back != c {
			t.Errorf("step %d: behind the last cell is %x", step, back.bits)
		}
	}
	// What is no geohash.
	for _, c := range []struct {
		score float64
		hash  uint64
		whole int64
	}{
		{-5, math.MaxUint64 - 4, -5}, {math.Inf(1), 0, math.MinInt64}, {math.Inf(-1), 1 << 63, math.MinInt64},
		{0x1p63, 1 << 63, math.MinInt64}, {0x1.8p63, 3 << 62, math.MinInt64}, {1.5, 1, 1}, {1e300, 0, math.MinInt64},
	} {
		if h := hashOf(c.score); h != c.hash {
			t.Errorf("%v is hash %x, want %x", c.score, h, c.hash)
		}
		if n := integerOf(c.score); n != c.whole {
			t.Errorf("%v is %d, want %d", c.score, n, c.whole)
		}
	}
}
