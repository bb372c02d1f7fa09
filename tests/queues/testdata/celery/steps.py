"""Goes through what Celery offers, with worker processes of its own."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback

PATIENCE = 60
HERE = os.path.dirname(os.path.abspath(__file__))


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while True:
        got = condition()
        if got is True:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: still {got}")
        time.sleep(0.05)


def same(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {got!r}, want {want!r}")


class Workers:
    """Workers are processes that run until stop."""

    def __init__(self):
        self.running = []

    def start(self, *arguments):
        """start starts a process of Celery."""
        process = subprocess.Popen([sys.executable, "-m", "celery", "-A", "jobs", *arguments], cwd=HERE, stdout=sys.stderr, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        self.running.append(process)
        return process

    def work(self, name, *arguments):
        """work starts a worker, and waits until it answers."""
        process = self.start("worker", "--pool=threads", "--concurrency=4", f"--hostname={name}@test", "--loglevel=warning", *arguments)

        def answers():
            same(f"{name} has not ended", process.poll(), None)
            return bool(jobs.app.control.ping([f"{name}@test"], timeout=1))

        until(f"{name} answers", answers)
        return process

    def stop(self):
        for process in self.running:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.running = []


def notes():
    """notes are the lines that tasks have noted, but for ticks: a worker that is ended
    may have had one, which another runs much later."""
    try:
        with open(jobs.NOTES) as lines:
            return [line for line in lines.read().splitlines() if line != "tick"]
    except FileNotFoundError:
        return []


def forget_notes():
    if os.path.exists(jobs.NOTES):
        os.unlink(jobs.NOTES)


def enqueue(_):
    same("the result", jobs.add.delay(20, 22).get(timeout=PATIENCE), 42)


def concurrent_workers(workers):
    workers.work("second")
    results = [jobs.note.delay(str(i)) for i in range(200)]
    for r in results:
        r.get(timeout=PATIENCE)
    same("each once", sorted(notes(), key=int), [str(i) for i in range(200)])


def delay(_):
    begin = time.monotonic()
    late = jobs.note.apply_async(["late"], countdown=1.5)
    late.get(timeout=PATIENCE)
    if time.monotonic() - begin < 1.5:
        raise AssertionError("it came early")


def retry(_):
    same("retries", jobs.third.delay().get(timeout=PATIENCE), 2)


def fail(_):
    result = jobs.broken.delay()
    try:
        result.get(timeout=PATIENCE)
    except ValueError as error:
        same("the error", str(error), "broken")
    same("the state", result.state, "FAILURE")


def pause_and_resume(workers):
    control = jobs.app.control
    control.cancel_consumer("celery", reply=True, timeout=PATIENCE, limit=len(workers.running))
    time.sleep(0.5)
    results = [jobs.note.delay(str(i)) for i in range(5)]
    time.sleep(1)
    same("none ran", notes(), [])
    control.add_consumer("celery", reply=True, timeout=PATIENCE, limit=len(workers.running))
    for r in results:
        r.get(timeout=PATIENCE)


def parts_and_wholes(_):
    from celery import chain, chord, group

    same("a chain", chain(jobs.add.s(1, 2), jobs.add.s(3), jobs.add.s(4)).apply_async().get(timeout=PATIENCE), 10)
    same("a group", group(jobs.add.s(i, i) for i in range(10)).apply_async().get(timeout=PATIENCE), [2 * i for i in range(10)])
    same("a chord", chord((jobs.add.s(i, i) for i in range(10)), jobs.total.s()).apply_async().get(timeout=PATIENCE), 90)


def repeat(workers):
    beat = workers.start("beat", "--loglevel=warning", "--schedule", os.path.join(os.path.dirname(jobs.NOTES), "schedule"))
    until("ticks", lambda: jobs.count("tick") >= 2 or jobs.count("tick"))
    beat.kill()
    beat.wait()


def nobody_waits():
    """nobody_waits waits until the server has seen that no worker is there: what it pops
    for one that has just been killed is lost, with any server."""
    until("nobody waits", lambda: jobs.app.backend.client.info("clients")["blocked_clients"] == 0)


def priorities(workers):
    workers.stop()
    nobody_waits()
    for priority, what in ((5, "c"), (0, "a"), (9, "d"), (3, "b")):
        jobs.note.apply_async([what], priority=priority)
    workers.work("one", "--concurrency=1")
    until("all ran", lambda: len(notes()) == 4 or notes())
    same("the order", notes(), ["a", "b", "c", "d"])


def revoked(workers):
    result = jobs.note.apply_async(["never"], countdown=2)
    jobs.app.control.revoke(result.id, reply=True, timeout=PATIENCE, limit=len(workers.running))
    until("it is revoked", lambda: result.state == "REVOKED" or result.state)
    same("none ran", notes(), [])


def stalled_jobs(workers):
    workers.stop()
    nobody_waits()
    loser = workers.work("loser")
    result = jobs.held.delay()
    until("it runs", lambda: jobs.count("held") == 1 or notes())
    loser.kill()
    loser.wait()
    # A worker looks for what is not acknowledged as it starts, and then for 100 s not again.
    time.sleep(jobs.VISIBILITY_SECONDS + 0.5)
    workers.work("other")
    same("the result", result.get(timeout=PATIENCE), "by another")
    same("runs", notes(), ["held", "held"])


# In the short flow go those that start no further process.
SHORT = [enqueue, delay, retry, fail, pause_and_resume, parts_and_wholes, revoked]
STEPS = [enqueue, concurrent_workers, delay, retry, fail, pause_and_resume, parts_and_wholes, repeat, priorities, revoked, stalled_jobs]


def main():
    workers = Workers()
    try:
        workers.work("first")
        for step in SHORT if sys.argv[1] == "short" else STEPS:
            name = step.__name__.replace("_", " ")
            forget_notes()
            try:
                step(workers)
            except Exception:
                print(f"failed {name}: {traceback.format_exc()}", flush=True)
                return 1
            print(f"ok {name}", flush=True)
        return 0
    finally:
        workers.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ["QUEUE_PORT"] = sys.argv[2]
        os.environ["QUEUE_NOTES"] = os.path.join(directory, "notes")
        import jobs

        sys.exit(main())
