package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

// scene is what a step works with: a queue of its own, and what its handlers ran.
type scene struct {
	queue     string
	client    *asynq.Client
	inspector *asynq.Inspector
	workers   []*asynq.Server

	mu  sync.Mutex
	ran []string // guarded by mu
}

// note adds to what ran, and returns how often that is there now.
func (s *scene) note(what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, what)
	for _, r := range s.ran {
		if r == what {
			n++
		}
	}
	return n
}

func (s *scene) noted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ran)
}

// work starts a worker on the queues, or on the step's own.
func (s *scene) work(concurrency int, queues map[string]int, handler func(ctx context.Context, payload string) error, change ...func(*asynq.Config)) error {
	config := asynq.Config{
		Concurrency: concurrency, Queues: queues, StrictPriority: true, Logger: silent{},
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 50 * time.Millisecond },
		DelayedTaskCheckInterval: 50 * time.Millisecond, TaskCheckInterval: 50 * time.Millisecond,
		// What still runs at the end of a step is not waited for.
		ShutdownTimeout: 100 * time.Millisecond,
	}
	if queues == nil {
		config.Queues = map[string]int{s.queue: 1}
	}
	for _, c := range change {
		c(&config)
	}
	w := asynq.NewServer(server, config)
	s.workers = append(s.workers, w)
	return w.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		return handler(ctx, string(task.Payload()))
	}))
}

func (s *scene) add(payload string, options ...asynq.Option) (*asynq.TaskInfo, error) {
	return s.client.Enqueue(asynq.NewTask("x", []byte(payload)), append([]asynq.Option{asynq.Queue(s.queue)}, options...)...)
}

func (s *scene) addAll(payloads ...string) error {
	for _, p := range payloads {
		if _, err := s.add(p, asynq.Retention(time.Hour)); err != nil {
			return err
		}
	}
	return nil
}

// awaitRuns waits until the handlers have run so often.
func (s *scene) awaitRuns(n int) error {
	return until(fmt.Sprintf("%d runs", n), patience, func() (bool, any) { return len(s.noted()) >= n, s.noted() })
}

// awaitState waits until a task is in a state.
func (s *scene) awaitState(id string, want asynq.TaskState) error {
	return until("the state "+want.String(), patience, func() (bool, any) {
		info, err := s.inspector.GetTaskInfo(s.queue, id)
		if err != nil {
			return false, err
		}
		return info.State == want, info.State.String()
	})
}

func same[T any](what string, got, want T) error {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		return fmt.Errorf("%s: %s, want %s", what, g, w)
	}
	return nil
}

func flow() error {
	steps := []struct {
		name string
		run  func(*scene) error
	}{
		{"enqueue", enqueue}, {"concurrent workers", concurrent}, {"delay", delay}, {"retry", retry}, {"fail, and run by hand", fail},
		{"pause and resume", pause}, {"repeat", repeat}, {"priorities", priorities}, {"groups", groups}, {"unique and cancelled", unique}, {"deadline", deadline},
	}
	for _, step := range steps {
		s := &scene{queue: step.name, client: asynq.NewClient(server), inspector: asynq.NewInspector(server)}
		err := step.run(s)
		for _, w := range s.workers {
			w.Shutdown()
		}
		s.client.Close()
		s.inspector.Close()
		if err != nil {
			return fmt.Errorf("failed %s: %w", step.name, err)
		}
		fmt.Printf("ok %s\n", step.name)
	}
	return nil
}

func enqueue(s *scene) error {
	err := s.work(1, nil, func(ctx context.Context, payload string) error {
		s.note(payload)
		return nil
	})
	if err != nil {
		return err
	}
	info, err := s.add("p", asynq.Retention(time.Hour))
	if err != nil {
		return err
	}
	if err := s.awaitState(info.ID, asynq.TaskStateCompleted); err != nil {
		return err
	}
	if err := same("runs", s.noted(), []string{"p"}); err != nil {
		return err
	}
	servers, err := s.inspector.Servers()
	if err != nil {
		return err
	}
	return same("servers", len(servers), 1)
}

func concurrent(s *scene) error {
	for range 4 {
		err := s.work(5, nil, func(_ context.Context, payload string) error {
			time.Sleep(2 * time.Millisecond)
			s.note(payload)
			return nil
		})
		if err != nil {
			return err
		}
	}
	want := map[string]bool{}
	for i := range 300 {
		p := strconv.Itoa(i)
		want[p] = true
		if err := s.addAll(p); err != nil {
			return err
		}
	}
	err := until("300 completed", patience, func() (bool, any) {
		info, err := s.inspector.GetQueueInfo(s.queue)
		if err != nil {
			return false, err
		}
		return info.Completed == 300 && info.ProcessedTotal == 300 && info.MemoryUsage > 0, *info
	})
	if err != nil {
		return err
	}
	ran := s.noted()
	slices.Sort(ran)
	return same("each once", ran, slices.Sorted(maps.Keys(want)))
}

func delay(s *scene) error {
	begin := time.Now()
	var late time.Duration
	err := s.work(1, nil, func(_ context.Context, payload string) error {
		if payload == "late" {
			late = time.Since(begin)
		}
		s.note(payload)
		return nil
	})
	if err != nil {
		return err
	}
	// asynq's deadlines are whole seconds.
	for payload, in := range map[string]time.Duration{"late": 3 * time.Second, "soon": time.Second} {
		if _, err := s.add(payload, asynq.ProcessIn(in)); err != nil {
			return err
		}
	}
	far, err := s.add("by hand", asynq.ProcessIn(time.Hour))
	if err != nil {
		return err
	}
	if err := s.awaitState(far.ID, asynq.TaskStateScheduled); err != nil {
		return err
	}
	if err := s.inspector.RunTask(s.queue, far.ID); err != nil {
		return err
	}
	if err := s.awaitRuns(3); err != nil {
		return err
	}
	if late < 2*time.Second {
		return fmt.Errorf("the late one ran after %v", late)
	}
	return nil
}

func retry(s *scene) error {
	err := s.work(1, nil, func(_ context.Context, payload string) error {
		if n := s.note(payload); n < 3 {
			return fmt.Errorf("no %d", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	info, err := s.add("x", asynq.MaxRetry(5), asynq.Retention(time.Hour))
	if err != nil {
		return err
	}
	if err := s.awaitState(info.ID, asynq.TaskStateCompleted); err != nil {
		return err
	}
	info, err = s.inspector.GetTaskInfo(s.queue, info.ID)
	if err != nil {
		return err
	}
	return same("retries and the last error", []any{info.Retried, info.LastErr}, []any{2, "no 2"})
}

func fail(s *scene) error {
	err := s.work(1, nil, func(_ context.Context, payload string) error {
		if s.note(payload) == 1 {
			return fmt.Errorf("broken: %w", asynq.SkipRetry)
		}
		return nil
	})
	if err != nil {
		return err
	}
	info, err := s.add("x", asynq.Retention(time.Hour))
	if err != nil {
		return err
	}
	if err := s.awaitState(info.ID, asynq.TaskStateArchived); err != nil {
		return err
	}
	if err := s.inspector.RunTask(s.queue, info.ID); err != nil {
		return err
	}
	if err := s.awaitState(info.ID, asynq.TaskStateCompleted); err != nil {
		return err
	}
	n, err := s.inspector.DeleteAllCompletedTasks(s.queue)
	if err != nil {
		return err
	}
	return same("deleted", n, 1)
}

func pause(s *scene) error {
	if err := s.addAll("before"); err != nil {
		return err
	}
	if err := s.inspector.PauseQueue(s.queue); err != nil {
		return err
	}
	err := s.work(1, nil, func(_ context.Context, payload string) error {
		s.note(payload)
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.addAll("a", "b"); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	if err := same("none ran", s.noted(), []string{}); err != nil {
		return err
	}
	info, err := s.inspector.GetQueueInfo(s.queue)
	if err != nil {
		return err
	}
	if err := same("paused with three", []any{info.Paused, info.Pending}, []any{true, 3}); err != nil {
		return err
	}
	if err := s.inspector.UnpauseQueue(s.queue); err != nil {
		return err
	}
	return s.awaitRuns(3)
}

func repeat(s *scene) error {
	err := s.work(1, nil, func(_ context.Context, payload string) error {
		s.note(payload)
		return nil
	})
	if err != nil {
		return err
	}
	scheduler := asynq.NewScheduler(server, &asynq.SchedulerOpts{Logger: silent{}})
	if _, err := scheduler.Register("@every 1s", asynq.NewTask("x", []byte("tick")), asynq.Queue(s.queue)); err != nil {
		return err
	}
	if err := scheduler.Start(); err != nil {
		return err
	}
	defer scheduler.Shutdown()
	if err := s.awaitRuns(2); err != nil {
		return err
	}
	return until("its entry", patience, func() (bool, any) {
		entries, err := s.inspector.SchedulerEntries()
		return err == nil && len(entries) == 1 && entries[0].Spec == "@every 1s", err
	})
}

func priorities(s *scene) error {
	low, high := s.queue+" low", s.queue+" high"
	for _, add := range []struct{ payload, queue string }{{"c", low}, {"b", s.queue}, {"a", high}, {"d", low}} {
		if _, err := s.add(add.payload, asynq.Queue(add.queue)); err != nil {
			return err
		}
	}
	err := s.work(1, map[string]int{high: 3, s.queue: 2, low: 1}, func(_ context.Context, payload string) error {
		s.note(payload)
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.awaitRuns(4); err != nil {
		return err
	}
	return same("the order", s.noted(), []string{"a", "b", "c", "d"})
}

func groups(s *scene) error {
	err := s.work(1, nil, func(_ context.Context, payload string) error {
		s.note(payload)
		return nil
	}, func(c *asynq.Config) {
		c.GroupGracePeriod, c.GroupMaxDelay, c.GroupMaxSize = time.Second, 10*time.Second, 5
		c.GroupAggregator = asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask("x", []byte(strconv.Itoa(len(tasks))))
		})
	})
	if err != nil {
		return err
	}
	for i := range 5 {
		if _, err := s.add(strconv.Itoa(i), asynq.Group("g")); err != nil {
			return err
		}
	}
	if err := s.awaitRuns(1); err != nil {
		return err
	}
	return same("one of five", s.noted(), []string{"5"})
}

func unique(s *scene) error {
	info, err := s.add("x", asynq.Unique(time.Hour))
	if err != nil {
		return err
	}
	if _, err := s.add("x", asynq.Unique(time.Hour)); !errors.Is(err, asynq.ErrDuplicateTask) {
		return fmt.Errorf("the second: %v", err)
	}
	if _, err := s.add("y", asynq.TaskID(info.ID)); !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("the same id: %v", err)
	}
	err = s.work(1, nil, func(ctx context.Context, payload string) error {
		s.note(payload)
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if err := s.awaitRuns(1); err != nil {
		return err
	}
	// Who shall hear it may not have subscribed yet.
	err = until("it is cancelled", patience, func() (bool, any) {
		if err := s.inspector.CancelProcessing(info.ID); err != nil {
			return false, err
		}
		return len(s.noted()) >= 2, s.noted()
	})
	if err != nil {
		return err
	}
	return s.inspector.CancelProcessing(info.ID)
}

func deadline(s *scene) error {
	err := s.work(1, nil, func(ctx context.Context, payload string) error {
		if s.note(payload) == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	if err != nil {
		return err
	}
	info, err := s.add("x", asynq.Timeout(time.Second), asynq.Retention(time.Hour))
	if err != nil {
		return err
	}
	return s.awaitState(info.ID, asynq.TaskStateCompleted)
}
