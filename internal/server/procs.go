package server

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// processors fits the number of threads that run Go code to the load. The Go
// scheduler wakes a thread, which then looks for more work for a while, whenever
// a goroutine becomes ready and a processor is free; for a server whose
// commands take less time than a wake-up that costs up to half of its CPU. So it
// runs on as few as do the work, and on all that there are when they are busy.
type processors struct {
	most int // as the runtime chose it; 1 or less: nothing to fit
	now  int
	cpu  time.Duration
	at   time.Duration
	busy int // looks in a row that wanted more
	calm int // looks in a row that wanted less
}

const (
	// busyShare of what the processors can do is where one more is taken, and
	// calmShare of one less where one is given up. They are close, because the
	// same commands cost up to a third more on two processors that are not full
	// than on one that is; the room between them keeps the change from swinging.
	busyShare = 0.95
	calmShare = 0.85
	// busyLooks and calmLooks are how many looks in a row decide: what fills a
	// processor for half a second is no burst.
	busyLooks = 5
	calmLooks = 20
)

// newProcessors begins with one processor, unless whoever started the program
// has chosen the number.
func newProcessors() *processors {
	p := &processors{most: runtime.GOMAXPROCS(0), now: runtime.GOMAXPROCS(0)}
	if os.Getenv("GOMAXPROCS") != "" {
		p.most = 1
	}
	if p.most > 1 {
		p.set(1)
	}
	return p
}

// restore gives the runtime all processors again.
func (p *processors) restore() {
	if p.most > 1 {
		p.set(p.most)
	}
}

func (p *processors) set(n int) {
	p.now = n
	runtime.GOMAXPROCS(n)
}

// look is called every cronEvery with the time on the server's clock.
func (p *processors) look(at time.Duration) {
	if p.most <= 1 {
		return
	}
	cpu := processCPU()
	if n := p.fit((cpu - p.cpu).Seconds() / max(at-p.at, time.Millisecond).Seconds()); n != p.now {
		p.set(n)
	}
	p.cpu, p.at = cpu, at
}

// fit returns how many processors there should be, used being how many were
// busy since the last look.
func (p *processors) fit(used float64) int {
	switch n := float64(p.now); {
	case used > n*busyShare && p.now < p.most:
		p.busy, p.calm = p.busy+1, 0
	case p.now > 1 && used < (n-1)*calmShare:
		p.busy, p.calm = 0, p.calm+1
	default:
		p.busy, p.calm = 0, 0
	}
	switch {
	case p.busy >= busyLooks:
		p.busy = 0
		return min(2*p.now, p.most)
	case p.calm >= calmLooks:
		p.calm = 0
		return p.now - 1
	}
	return p.now
}

// processCPU returns the CPU time of the process so far.
func processCPU() time.Duration {
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use) // cannot fail for the own process
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
