// Command asynq does with asynq what the programs in testdata/node do with their
// queues: `flow` goes through what it offers, `kills` runs until it is told to
// stop, while the server ends and comes back.
//
// It is a module of its own, so that what asynq needs stays out of kevy's.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/hibiken/asynq"
)

// patience is how long a step waits for what must come.
const patience = 60 * time.Second

// leasePatience is how long it may take until all is handled: a lease lasts 30 s,
// and once a minute asynq looks for those that ended 30 s ago.
const leasePatience = 4 * time.Minute

var server asynq.RedisClientOpt

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: asynq flow|short|kills PORT")
		os.Exit(2)
	}
	server.Addr = "127.0.0.1:" + os.Args[2]
	// A reply comes late where the disk is slow; asynq's own 3 s would try again.
	server.ReadTimeout = 20 * time.Second
	var err error
	switch os.Args[1] {
	case "flow", "short":
		err = flow()
	case "kills":
		err = kills()
	default:
		err = fmt.Errorf("%q is none of flow, short and kills", os.Args[1])
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// until waits for a condition; what it returns says how far it is.
func until(what string, patience time.Duration, condition func() (bool, any)) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		done, got := condition()
		if done {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: still %v", what, got)
		}
	}
}

// silent is a log for what asynq says about lost connections.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}
