package ds

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

func TestDeadlineMean(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	x, model := NewDeadlineIndex(), map[string]int64{}
	if got := x.Mean(); got != 0 {
		t.Errorf("the mean of nothing is %d", got)
	}
	for range 3000 {
		key := fmt.Sprint(rng.IntN(50))
		at := int64(0)
		switch rng.IntN(4) {
		case 0:
		case 1:
			at = math.MaxInt64 - rng.Int64N(100)
		default:
			at = 1 + rng.Int64N(2_000_000_000_000)
		}
		x.Set([]byte(key), model[key], at)
		if at == 0 {
			delete(model, key)
		} else {
			model[key] = at
		}
		sum, want := new(big.Int), int64(0)
		for _, at := range model {
			sum.Add(sum, big.NewInt(at))
		}
		if len(model) > 0 {
			want = sum.Quo(sum, big.NewInt(int64(len(model)))).Int64()
		}
		if got := x.Mean(); got != want {
			t.Fatalf("the mean of %v is %d, want %d", model, got, want)
		}
	}
}
