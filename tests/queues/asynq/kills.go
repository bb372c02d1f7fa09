package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// maxOutstanding is how many jobs are waiting or running at a time.
const maxOutstanding = 60

// stillFor is how long nothing may change until what is active is left alone.
const stillFor = 1500 * time.Millisecond

// runs counts how often the handler of each job has begun.
type runs struct {
	mu       sync.Mutex
	begun    map[int]int // guarded by mu
	finished atomic.Int64
	running  atomic.Int64
}

func failing(i int) bool { return i%8 == 4 }

func (r *runs) ProcessTask(_ context.Context, task *asynq.Task) error {
	i, err := strconv.Atoi(string(task.Payload()))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.begun[i]++
	n := r.begun[i]
	r.mu.Unlock()
	r.running.Add(1)
	time.Sleep(time.Duration(60+i%60) * time.Millisecond)
	r.running.Add(-1)
	if failing(i) && n == 1 {
		return errors.New("the first time fails")
	}
	r.finished.Add(1)
	return nil
}

func kills() error {
	const name = "kills"
	r := &runs{begun: map[int]int{}}
	var workers []*asynq.Server
	for range 3 {
		w := asynq.NewServer(server, asynq.Config{
			Concurrency: 4, Queues: map[string]int{name: 1}, Logger: silent{},
			RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 50 * time.Millisecond },
			DelayedTaskCheckInterval: 100 * time.Millisecond, TaskCheckInterval: 100 * time.Millisecond,
		})
		if err := w.Start(r); err != nil {
			return err
		}
		workers = append(workers, w)
	}
	client := asynq.NewClient(server)
	defer client.Close()
	inspector := asynq.NewInspector(server)
	defer inspector.Close()

	stop := make(chan struct{})
	early := false // written before stop is closed
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		early = line == "stop early\n"
		close(stop)
	}()
	jobs := produce(client, name, r, stop)

	var info *asynq.QueueInfo
	var state [3]int
	var since time.Time
	err := until("all completed", leasePatience, func() (bool, any) {
		got, err := inspector.GetQueueInfo(name)
		if err != nil {
			return false, err
		}
		info = got
		// What is active while no handler runs was given to a worker that has not
		// heard of it; it comes back when its lease is over.
		if now := [3]int{info.Completed, info.Active, int(r.running.Load())}; now != state || !early || now[2] > 0 || now[0]+now[1] != jobs {
			state, since = now, time.Now()
		}
		return time.Since(since) > stillFor || info.Completed == jobs, fmt.Sprintf("%+v", *info)
	})
	if err != nil {
		return err
	}
	there := map[string]bool{}
	completed, err := list(inspector.ListCompletedTasks, name, there)
	if err != nil {
		return err
	}
	left, err := list(inspector.ListActiveTasks, name, there)
	if err != nil {
		return err
	}
	for _, w := range workers {
		w.Shutdown()
	}
	report := struct {
		Jobs      int `json:"jobs"`
		Lost      int `json:"lost"`
		Completed int `json:"completed"`
		Left      int `json:"left"`
		Recorded  int `json:"recorded"`
		Again     int `json:"again"`
	}{Jobs: jobs, Completed: completed, Left: left, Recorded: info.ProcessedTotal - info.FailedTotal}
	for i := range jobs {
		if !there[id(i)] {
			report.Lost++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, n := range r.begun {
		wanted := 1
		if failing(i) {
			wanted = 2
		}
		report.Again += max(0, n-wanted)
	}
	line, err := json.Marshal(report)
	if err != nil {
		return err
	}
	fmt.Printf("report %s\n", line)
	return nil
}

// list adds the ids of all tasks of a kind, and returns how many there are.
func list(of func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error), queue string, ids map[string]bool) (n int, err error) {
	const pageSize = 100
	for page := 1; ; page++ {
		tasks, err := of(queue, asynq.Page(page), asynq.PageSize(pageSize))
		if err != nil {
			return n, err
		}
		for _, task := range tasks {
			ids[task.ID] = true
			n++
		}
		if len(tasks) < pageSize {
			return n, nil
		}
	}
}

func id(i int) string { return "job-" + strconv.Itoa(i) }

// produce adds jobs until it is told to stop, and prints how far they are. A job
// whose add fails is added again under the same id.
func produce(client *asynq.Client, name string, r *runs, stop chan struct{}) int {
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	jobs, told := 0, int64(-1)
	tell := func() {
		if n := r.finished.Load(); n != told {
			fmt.Printf("done %d\n", n)
			told = n
		}
	}
	for !stopped() {
		for !stopped() && jobs-int(r.finished.Load()) < maxOutstanding {
			i := jobs
			jobs++
			options := []asynq.Option{asynq.Queue(name), asynq.TaskID(id(i)), asynq.MaxRetry(100), asynq.Retention(time.Hour)}
			if i%8 == 2 {
				options = append(options, asynq.ProcessIn(100*time.Millisecond))
			}
			for {
				_, err := client.Enqueue(asynq.NewTask("job", []byte(strconv.Itoa(i))), options...)
				if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
					break
				}
				fmt.Fprintf(os.Stderr, "enqueue %d: %v\n", i, err)
				time.Sleep(50 * time.Millisecond)
			}
			tell()
		}
		tell()
		time.Sleep(5 * time.Millisecond)
	}
	return jobs
}
