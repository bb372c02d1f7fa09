package alarm

import (
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAlarm(t *testing.T) {
	rang := make(chan time.Time, 1)
	a := New(func() { rang <- time.Now() })
	defer a.Stop()
	for _, after := range []time.Duration{0, time.Microsecond, 2 * time.Millisecond} {
		began := time.Now()
		a.Set(after)
		select {
		case at := <-rang:
			if at.Sub(began) < after {
				t.Errorf("set to %v it goes off after %v", after, at.Sub(began))
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("set to %v it does not go off", after)
		}
	}
}

func TestSleep(t *testing.T) {
	s := NewSleeper()
	for _, d := range []time.Duration{-1, 0, 1, 100 * time.Microsecond, 3 * time.Millisecond} {
		began := time.Now()
		if s.Sleep(d); time.Since(began) < d {
			t.Errorf("Sleep(%v) took %v", d, time.Since(began))
		}
	}
	s.Close()
	began := time.Now()
	if s.Sleep(time.Millisecond); time.Since(began) < time.Millisecond {
		t.Error("a sleeper that was closed does not sleep")
	}
	began = time.Now()
	if (&Sleeper{}).Sleep(time.Millisecond); time.Since(began) < time.Millisecond {
		t.Error("a sleeper without a timer does not sleep")
	}
}

func TestPause(t *testing.T) {
	writes := uint64(7)
	r := NewRest(func() uint64 { return writes })
	defer r.Close()
	const worked = 400 * time.Microsecond
	if got := r.pause(worked); got != worked/restIdlePart {
		t.Errorf("while nobody writes: %v", got)
	}
	writes++
	if got := r.pause(worked); got != worked {
		t.Errorf("beside a write: %v", got)
	}
	writes++
	if got := r.pause(time.Second); got != restSliceMost {
		t.Errorf("after a second of waiting: %v", got)
	}
	idle := NewRest(nil)
	defer idle.Close()
	if got := idle.pause(worked); got != worked/restIdlePart {
		t.Errorf("without writes: %v", got)
	}
	r.since = time.Now().Add(-time.Second)
	writes++
	if r.Look(); r.slice < restSliceMost {
		t.Errorf("after a rest of %v the work goes on for %v", restSliceMost, r.slice)
	}
}

// TestConnectionsBesideWork measures how long a connection is kept waiting for an
// answer by work on the only processor.
func TestConnectionsBesideWork(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r := NewRest(nil)
		defer r.Close()
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			default:
			}
			for began := time.Now(); time.Since(began) < 50*time.Microsecond; {
			}
			r.Look()
		}
	}()
	got := median(t, 100)
	close(quit)
	<-done
	// Without a rest it is 10 ms and more.
	if got > 5*time.Millisecond {
		t.Errorf("half of the answers took %v", got)
	}
}

// median asks a server of its own so often.
func median(t *testing.T, times int) time.Duration {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for b := make([]byte, 1); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for b := make([]byte, 1); len(took) < times; {
		began := time.Now()
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(b); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	c.Close()
	<-ended
	slices.Sort(took)
	return took[len(took)/2]
}

func TestSuspendedRest(t *testing.T) {
	r := NewWorkRest(nil)
	defer r.Close()
	r.since = time.Now().Add(-time.Minute)
	r.Suspend()
	time.Sleep(20 * time.Millisecond)
	r.Resume()
	if worked := time.Since(r.since); worked < time.Minute || worked > time.Minute+10*time.Second {
		t.Errorf("it has worked for %v", worked)
	}
	r.worked = 0
	r.Resume()
	if worked := time.Since(r.since); worked > 10*time.Second {
		t.Errorf("what went on meanwhile counts as %v of work", worked)
	}
	if got := r.pause(time.Minute); got != restWorkMost/restIdlePart {
		t.Errorf("after a minute of work: %v", got)
	}
}
