package hyperloglog

import (
	"encoding/binary"
	"math"
)

// The estimate is that of O. Ertl, "New cardinality estimation algorithms for
// HyperLogLog sketches" (arXiv:1702.01284), algorithm 6.

// histogram says how many registers have each value.
type histogram [registerMax + 1]int

// histogramOf counts the registers of a value; ok is false if it is corrupt.
func histogramOf(value []byte) (h histogram, ok bool) {
	if value[encodingAt] == sparse {
		ok = eachRun(value, func(_, length int, run byte) { h[run] += length })
		return h, ok
	}
	// Four registers are three bytes.
	for b := value[headerBytes:denseBytes]; len(b) >= 3; b = b[3:] {
		h[b[0]&63]++
		h[(b[0]>>6|b[1]<<2)&63]++
		h[(b[1]>>4|b[2]<<4)&63]++
		h[b[2]>>2]++
	}
	return h, true
}

func (m *maxima) histogram() (h histogram) {
	for _, run := range m {
		h[run]++
	}
	return h
}

// outOfRange is what becomes of an estimate that no integer can be, which only
// registers that no element raises can give.
const outOfRange = 1 << 63

// estimate returns how many elements were added.
func (h *histogram) estimate() uint64 {
	const (
		m        = float64(registers)
		alphaInf = 0.721347520444481703680 // 1/(2 ln 2)
	)
	z := float64(m * tau((m-float64(h[maxRun]))/m))
	for run := runBits; run >= 1; run-- {
		z = (z + float64(h[run])) * 0.5
	}
	z += float64(m * sigma(float64(h[0])/m))
	n := math.Round(alphaInf * m * m / z)
	if !(n < outOfRange) {
		return outOfRange
	}
	return uint64(n)
}

// sigma and tau are functions of that paper: what zeros, and registers that can
// grow no further, say of the number of elements.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		before := z
		z += float64(x * y)
		y += y
		if z == before {
			return z
		}
	}
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		before := z
		y *= 0.5
		z -= float64((1 - x) * (1 - x) * y)
		if z == before {
			return z / 3
		}
	}
}

// place returns the register that an element belongs to, and the length of the
// run that its hash ends with, zeros and the one behind them.
func place(element []byte) (index int, length byte) {
	h := hash(element)
	index = int(h & (registers - 1))
	h = h>>indexBits | 1<<runBits // a run ends there
	length = 1
	for ; h&1 == 0; h >>= 1 {
		length++
	}
	return index, length
}

// hash is A. Appleby's MurmurHash64A (public domain) with the seed that Redis
// has.
func hash(b []byte) uint64 {
	const (
		seed  = 0xadc83b19
		mul   = 0xc6a4a7935bd1e995
		shift = 47
	)
	h := seed ^ uint64(len(b))*mul
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * mul
		k ^= k >> shift
		h = (h ^ k*mul) * mul
	}
	if len(b) > 0 {
		var rest uint64
		for i, c := range b {
			rest |= uint64(c) << (8 * i)
		}
		h = (h ^ rest) * mul
	}
	h ^= h >> shift
	h *= mul
	return h ^ h>>shift
}
