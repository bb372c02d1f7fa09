package server

import "testing"

func TestProcessorsFollowTheLoad(t *testing.T) {
	p := &processors{most: 6, now: 1}
	feed := func(looks int, share float64) {
		for range looks {
			p.now = p.fit(share * float64(p.now))
		}
	}
	feed(100, 0.9)
	if p.now != 1 {
		t.Errorf("one processor that does the work became %d", p.now)
	}
	feed(busyLooks-1, 1)
	feed(1, 0.1)
	feed(busyLooks-1, 1)
	if p.now != 1 {
		t.Errorf("two bursts made it %d", p.now)
	}
	feed(busyLooks, 1)
	if p.now != 2 {
		t.Errorf("a busy processor stayed %d", p.now)
	}
	feed(2*calmLooks, 0.8/2)
	if p.now != 1 {
		t.Errorf("what fills four fifths of one keeps %d", p.now)
	}
	feed(3*busyLooks, 0.99)
	if p.now != 6 {
		t.Errorf("under full load there are %d of 6", p.now)
	}
	feed(100, 0.85)
	if p.now != 6 {
		t.Errorf("a load that needs them all left %d of 6", p.now)
	}
	feed(calmLooks-1, 0.1)
	if p.now != 6 {
		t.Errorf("a short pause made it %d", p.now)
	}
	feed(5*calmLooks, 0)
	if p.now != 1 {
		t.Errorf("an idle server has %d", p.now)
	}
}
