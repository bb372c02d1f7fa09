package hyperloglog

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"kevy/internal/command"
	"kevy/resp"
)

func pfSelfTest() *command.Spec {
	return &command.Spec{
		Name: "pfselftest", Arity: 1, Flags: command.Admin | command.Unlocked, Category: command.CatHyperLogLog,
		Group: "hyperloglog", Since: "2.8.9", Complexity: "N/A",
		Summary: "Tests that registers are read and written right and that estimates are near the truth.",
		Run: func(c *command.Ctx) {
			if err := selfTest(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))); err != nil {
				c.W.Error(err)
				return
			}
			c.W.OK()
		},
	}
}

const (
	selfTestRounds   = 100
	selfTestElements = 1_000_000
)

func selfTest(rng *rand.Rand) *resp.Error {
	var s sketch
	s.reset()
	s.toDense()
	if err := testRegisters(s.buf, rng); err != nil {
		return err
	}
	s.reset()
	s.toDense()
	return testEstimates(s.buf, rng)
}

// testRegisters writes random registers and reads them again.
func testRegisters(value []byte, rng *rand.Rand) *resp.Error {
	var want maxima
	for range selfTestRounds {
		for i := range want {
			want[i] = byte(rng.IntN(registerMax + 1))
			at, patch, n := densePatch(value, i, want[i])
			copy(value[at:], patch[:n])
		}
		for i, w := range want {
			if got := denseGet(value, i); got != w {
				return resp.Errorf("ERR", "TESTFAILED Register %d should be %d but is %d", i, w, got)
			}
		}
	}
	return nil
}

// testEstimates adds different elements to an empty value of either form and
// holds, at each power of ten, what is estimated to the truth and to each other.
func testEstimates(full []byte, rng *rand.Rand) *resp.Error {
	var small sketch
	small.reset()
	standardError := 1.04 / math.Sqrt(registers)
	seed := rng.Uint64()
	check := 1
	for n := 1; n <= selfTestElements; n++ {
		var element [8]byte
		binary.LittleEndian.PutUint64(element[:], uint64(n)^seed)
		index, run := place(element[:])
		denseSet(full, index, run)
		small.raise(index, run)
		if n != check {
			continue
		}
		check *= 10
		if small.isDense() && int64(n) < SparseMaxBytes.Load()/2 {
			return resp.Errorf("ERR", "TESTFAILED sparse encoding not used")
		}
		ofFull, _ := histogramOf(full)
		ofSmall, ok := histogramOf(small.buf)
		estimate := ofFull.estimate()
		if !ok || ofSmall.estimate() != estimate {
			return resp.Errorf("ERR", "TESTFAILED dense/sparse disagree")
		}
		most := math.Ceil(6 * standardError * float64(n))
		if n == 10 {
			most = 1 // two of so few may fall into one register
		}
		if wrong := math.Abs(float64(n) - float64(estimate)); wrong > most {
			return resp.Errorf("ERR", "TESTFAILED Too big error. card:%d abserr:%d", n, int(wrong))
		}
	}
	return nil
}
