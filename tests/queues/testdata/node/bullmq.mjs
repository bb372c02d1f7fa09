// BullMQ: `flow` goes through what it offers, `kills` runs until it is told to
// stop, while the server ends and comes back.
import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { connection, mode, Runs, same, sleep, steps, until } from './steps.mjs'

const quiet = (e) => e.on('error', () => {})

// withQueue gives a step its queue, and closes what it has opened.
async function withQueue(name, step) {
  const opened = []
  const open = (x) => (opened.push(x), quiet(x))
  const queue = open(new Queue(name, { connection }))
  const worker = (handler, options) => open(new Worker(name, handler, { connection, ...options }))
  await step(queue, worker, open)
  await Promise.all(opened.map((x) => x.close(true)))
}

const flow = {
  'enqueue': (name) => withQueue(name, async (queue, worker, open) => {
    const events = open(new QueueEvents(name, { connection }))
    await events.waitUntilReady()
    worker(async (job) => ({ twice: job.data.n * 2 }))
    const job = await queue.add('double', { n: 21 })
    same('the result', await job.waitUntilFinished(events, 60000), { twice: 42 })
    same('the state', await job.getState(), 'completed')
  }),
  'concurrent workers': (name) => withQueue(name, async (queue, worker) => {
    const ran = []
    const seen = new Set()
    for (let w = 0; w < 4; w++) worker(async (job) => { ran.push(job.data.i); seen.add(w); await sleep(2) }, { concurrency: 5 })
    await queue.addBulk(Array.from({ length: 300 }, (_, i) => ({ name: 'n', data: { i } })))
    await until('completed', async () => (await queue.getCompletedCount()) === 300 || (await queue.getJobCounts()))
    same('each once', ran.sort((a, b) => a - b), Array.from({ length: 300 }, (_, i) => i))
    if (seen.size < 2) throw new Error('one worker ran all')
  }),
  'delay': (name) => withQueue(name, async (queue, worker) => {
    const ran = []
    worker(async (job) => { ran.push({ name: job.name, after: Date.now() - job.timestamp, due: job.timestamp + job.opts.delay }) }, { concurrency: 1 })
    const delays = { late: 700, soon: 200 }
    for (const [job, delay] of Object.entries(delays)) await queue.add(job, {}, { delay })
    await until('all ran', () => ran.length === 2 || ran)
    same('by due time', ran, ran.toSorted((a, b) => a.due - b.due))
    for (const { name, after } of ran) if (after < delays[name]) throw new Error(`${name} ran after ${after} ms`)
  }),
  'delay changed and promoted': (name) => withQueue(name, async (queue, worker) => {
    const ran = []
    worker(async (job) => { ran.push(job.name) })
    const far = await queue.add('far', {}, { delay: 3600000 })
    const promoted = await queue.add('promoted', {}, { delay: 3600000 })
    await far.changeDelay(50)
    await promoted.promote()
    await until('both ran', () => ran.length === 2 || ran)
  }),
  'retry with backoff': (name) => withQueue(name, async (queue, worker) => {
    const at = []
    worker(async () => { at.push(Date.now()); if (at.length < 3) throw new Error(`no ${at.length}`); return 'third' })
    const job = await queue.add('x', {}, { attempts: 5, backoff: { type: 'exponential', delay: 100 } })
    await until('completed', async () => (await job.isCompleted()) || at.length)
    const after = await queue.getJob(job.id)
    same('attempts, result, stack traces', [after.attemptsMade, after.returnvalue, after.stacktrace.length], [3, 'third', 2])
    if (at[1] - at[0] < 95 || at[2] - at[1] < 195) throw new Error(`backoff: ${at}`)
  }),
  'fail, and retry by hand': (name) => withQueue(name, async (queue, worker) => {
    let broken = true
    worker(async () => { if (broken) throw new Error('broken'); return 'mended' })
    const job = await queue.add('x', {}, { attempts: 1 })
    await until('failed', async () => (await job.isFailed()) || job.getState())
    const failed = await queue.getJob(job.id)
    same('the reason', failed.failedReason, 'broken')
    broken = false
    await failed.retry()
    await until('completed', async () => (await job.isCompleted()) || job.getState())
    same('none failed', await queue.getFailedCount(), 0)
  }),
  'pause and resume': (name) => withQueue(name, async (queue, worker) => {
    const ran = []
    worker(async (job) => { ran.push(job.name) })
    await queue.pause()
    for (let i = 0; i < 5; i++) await queue.add(`n${i}`, {})
    await sleep(200)
    same('none ran', ran, [])
    const counts = await queue.getJobCounts('paused', 'waiting')
    same('five wait', counts.paused + counts.waiting, 5)
    await queue.resume()
    await until('all ran', () => ran.length === 5 || ran)
  }),
  'repeat': (name) => withQueue(name, async (queue, worker) => {
    const ran = []
    worker(async (job) => { ran.push(job.data.k) })
    await queue.upsertJobScheduler('every', { every: 100 }, { name: 'tick', data: { k: 'every' } })
    await queue.upsertJobScheduler('cron', { pattern: '* * * * * *' }, { name: 'tick', data: { k: 'cron' } })
    await until('ran often', () => (ran.filter((k) => k === 'every').length >= 5 && ran.filter((k) => k === 'cron').length >= 2) || ran)
    same('schedulers', await queue.getJobSchedulersCount(), 2)
    same('removed', [await queue.removeJobScheduler('every'), await queue.removeJobScheduler('cron')], [true, true])
    same('schedulers', await queue.getJobSchedulersCount(), 0)
  }),
  'priorities': (name) => withQueue(name, async (queue, worker) => {
    await queue.pause()
    for (const priority of [3, 1, 2, 0, 1]) await queue.add(`p${priority}`, {}, { priority })
    const low = await queue.add('changed', {}, { priority: 9 })
    await low.changePriority({ priority: 2 })
    await queue.resume()
    const ran = []
    worker(async (job) => { ran.push(job.name) }, { concurrency: 1 })
    await until('all ran', () => ran.length === 6 || ran)
    same('the order', ran, ['p0', 'p1', 'p1', 'p2', 'changed', 'p3'])
  }),
  'parents and children': (name) => withQueue(name, async (queue, worker, open) => {
    const producer = open(new FlowProducer({ connection }))
    worker(async (job) => {
      if (job.name !== 'parent') return job.data.n
      return Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0)
    })
    const children = [1, 2, 3, 4].map((n) => ({ name: 'child', queueName: name, data: { n } }))
    const { job } = await producer.add({ name: 'parent', queueName: name, children })
    await until('completed', async () => (await job.isCompleted()) || job.getState())
    same('the sum', (await queue.getJob(job.id)).returnvalue, 10)
  }),
  'rate limit': (name) => withQueue(name, async (queue, worker) => {
    const at = []
    worker(async () => { at.push(Date.now()) }, { limiter: { max: 2, duration: 300 } })
    await queue.addBulk(Array.from({ length: 6 }, () => ({ name: 'x', data: {} })))
    await until('all ran', () => at.length === 6 || at)
    if (at[5] - at[0] < 500) throw new Error(`too fast: ${at}`)
  }),
  'stalled jobs': (name) => withQueue(name, async (queue, worker) => {
    const ran = []
    let stalled = 0
    let release
    const held = new Promise((resolve) => (release = resolve))
    worker(async () => { ran.push('lost'); await held }, { lockDuration: 300, skipLockRenewal: true, skipStalledCheck: true })
    const job = await queue.add('x', {})
    await until('it runs', () => ran.length === 1 || ran)
    worker(async () => { ran.push('again'); return 'by another' }, { stalledInterval: 200, maxStalledCount: 2 }).on('stalled', () => stalled++)
    await until('completed', async () => (await job.isCompleted()) || job.getState())
    release()
    await sleep(50)
    same('runs', ran, ['lost', 'again'])
    same('stalled', stalled, 1)
    same('the result', (await queue.getJob(job.id)).returnvalue, 'by another')
    same('completed', await queue.getCompletedCount(), 1)
  }),
  'progress, logs and events': (name) => withQueue(name, async (queue, worker, open) => {
    const events = open(new QueueEvents(name, { connection, lastEventId: '0-0' }))
    const heard = []
    for (const e of ['waiting', 'active', 'progress', 'completed']) events.on(e, () => heard.push(e))
    worker(async (job) => { await job.updateProgress(50); await job.log('half'); await job.updateData({ n: 2 }) })
    const job = await queue.add('x', { n: 1 })
    await until('events', () => heard.includes('completed') || heard)
    same('in order', heard, ['waiting', 'active', 'progress', 'completed'])
    same('logs', (await queue.getJobLogs(job.id)).logs, ['half'])
    same('data', (await queue.getJob(job.id)).data, { n: 2 })
  }),
  'deduplication': (name) => withQueue(name, async (queue) => {
    const a = await queue.add('x', {}, { deduplication: { id: 'one' } })
    const b = await queue.add('x', {}, { deduplication: { id: 'one' } })
    same('the same job', b.id, a.id)
    const c = await queue.add('x', {}, { jobId: 'mine' })
    await queue.add('x', {}, { jobId: 'mine' })
    same('its id', c.id, 'mine')
    same('two jobs', await queue.getWaitingCount(), 2)
  }),
  'keeping, cleaning, removing': (name) => withQueue(name, async (queue, worker) => {
    worker(async () => {}, { removeOnComplete: { count: 3 }, metrics: { maxDataPoints: 10 } })
    for (let i = 0; i < 20; i++) await queue.add('x', {})
    await until('all ran', async () => {
      const { meta } = await queue.getMetrics('completed')
      return meta.count >= 20 || meta
    })
    same('kept', await queue.getCompletedCount(), 3)
    same('cleaned', (await queue.clean(0, 10, 'completed')).length, 3)
    await queue.pause()
    await queue.add('x', {})
    await queue.drain(true)
    await queue.obliterate({ force: true })
    const client = new Redis(connection)
    same('nothing left', await client.keys(`bull:${name}:*`), [])
    client.disconnect()
  }),
}

async function kills() {
  const name = 'kills'
  const runs = new Runs()
  const queue = quiet(new Queue(name, { connection }))
  const workers = Array.from({ length: 3 }, () => quiet(new Worker(name, (job) => runs.handle(job.data.i), {
    connection, concurrency: 4, lockDuration: 10000, stalledInterval: 2000, maxStalledCount: 1000, runRetryDelay: 50, drainDelay: 1,
    metrics: { maxDataPoints: 10 },
  })))
  const options = { delayed: { delay: 100 }, failing: { backoff: 50 }, urgent: { priority: 1 } }
  const jobs = await runs.produce((i, kind) => queue.add(kind, { i }, { jobId: `job-${i}`, attempts: 1000, ...options[kind] }))
  let counts
  await until('all completed', async () => runs.settled(jobs, (counts = await queue.getJobCounts())) || { jobs, ...counts })
  const ids = async (found) => (await found).map((job) => job.id)
  runs.report(jobs, await ids(queue.getCompleted(0, -1)), await ids(queue.getActive(0, -1)), (await queue.getMetrics('completed')).meta.count)
  await Promise.all(workers.map((w) => w.close(true)))
  await queue.close()
}

if (mode === 'kills') await kills()
else await steps(flow)
process.exit(0)
