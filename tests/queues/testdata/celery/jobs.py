"""The tasks that worker processes of Celery run, and where they note it."""

import os
import time

from celery import Celery

PORT = os.environ["QUEUE_PORT"]
NOTES = os.environ["QUEUE_NOTES"]

# VISIBILITY_SECONDS is when a task that was not acknowledged goes to another worker.
VISIBILITY_SECONDS = 3

app = Celery("jobs", broker=f"redis://127.0.0.1:{PORT}/0", backend=f"redis://127.0.0.1:{PORT}/1")
app.conf.update(
    broker_transport_options={"visibility_timeout": VISIBILITY_SECONDS, "queue_order_strategy": "priority", "priority_steps": list(range(10)), "polling_interval": 0.1},
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    beat_schedule={"tick": {"task": "jobs.note", "schedule": 1.0, "args": ["tick"]}},
)


def add_note(what):
    """add_note adds a line to the notes, whole even beside other processes."""
    with open(NOTES, "a") as notes:
        notes.write(f"{what}\n")


def count(what):
    """count is how many lines of the notes are so."""
    try:
        with open(NOTES) as notes:
            return notes.read().splitlines().count(str(what))
    except FileNotFoundError:
        return 0


@app.task
def note(what):
    add_note(what)
    return what


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=5)
def third(self):
    add_note("third")
    if count("third") < 3:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task
def broken():
    raise ValueError("broken")


@app.task
def held():
    """held stays for ever in the process that has it first."""
    add_note("held")
    while count("held") < 2:
        time.sleep(0.05)
    return "by another"
