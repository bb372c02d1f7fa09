package backoff

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	for _, most := range []time.Duration{0, 5 * time.Second, 150 * time.Millisecond} {
		b := Backoff{Most: most}
		bound := most
		if bound == 0 {
			bound = 30 * time.Second
		}
		for i, want := 0, 100*time.Millisecond; i < 12; i, want = i+1, min(2*want, bound) {
			if d := b.Next(); d < want/2 || d > want {
				t.Errorf("up to %v, wait %d: %v, not %v to %v", bound, i, d, want/2, want)
			}
		}
	}
}

func TestWait(t *testing.T) {
	var b Backoff
	began := time.Now()
	if err := b.Wait(t.Context(), 300*time.Millisecond); err != nil || time.Since(began) < 300*time.Millisecond {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Wait(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
