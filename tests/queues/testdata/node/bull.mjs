// Bull: as bullmq.mjs.
import Queue from 'bull'
import { connection, mode, Runs, same, sleep, steps, until } from './steps.mjs'

const options = { redis: { ...connection, enableReadyCheck: false } }

// withQueue gives a step its queue, and closes all that it opens on it. Each is a
// worker once it has a handler.
async function withQueue(name, step) {
  const opened = []
  const open = (more) => {
    const q = new Queue(name, { ...options, ...more })
    opened.push(q)
    return q
  }
  await step(open(), open)
  await Promise.all(opened.map((q) => q.close(true)))
}

const works = (q, concurrency, handler) => void q.process('*', concurrency, handler).catch(() => {})

const flow = {
  'enqueue': (name) => withQueue(name, async (queue) => {
    works(queue, 1, async (job) => ({ twice: job.data.n * 2 }))
    const job = await queue.add({ n: 21 })
    same('the result', await job.finished(), { twice: 42 })
    same('the state', await job.getState(), 'completed')
  }),
  'concurrent workers': (name) => withQueue(name, async (queue, open) => {
    const ran = []
    const seen = new Set()
    for (let w = 0; w < 4; w++) works(open(), 5, async (job) => { ran.push(job.data.i); seen.add(w); await sleep(2) })
    await queue.addBulk(Array.from({ length: 300 }, (_, i) => ({ data: { i } })))
    await until('completed', async () => (await queue.getCompletedCount()) === 300 || (await queue.getJobCounts()))
    same('each once', ran.sort((a, b) => a - b), Array.from({ length: 300 }, (_, i) => i))
    if (seen.size < 2) throw new Error('one worker ran all')
  }),
  'delay': (name) => withQueue(name, async (queue) => {
    const ran = []
    works(queue, 1, async (job) => { ran.push({ name: job.name, after: Date.now() - job.timestamp, due: job.timestamp + job.opts.delay }) })
    const delays = { late: 700, soon: 200 }
    for (const [job, delay] of Object.entries(delays)) await queue.add(job, {}, { delay })
    await until('all ran', () => ran.length === 2 || ran)
    same('by due time', ran, ran.toSorted((a, b) => a.due - b.due))
    for (const { name, after } of ran) if (after < delays[name]) throw new Error(`${name} ran after ${after} ms`)
  }),
  'promoted': (name) => withQueue(name, async (queue) => {
    const ran = []
    works(queue, 1, async (job) => { ran.push(job.name) })
    const job = await queue.add('far', {}, { delay: 3600000 })
    await job.promote()
    await until('it ran', () => ran.length === 1 || ran)
  }),
  'retry with backoff': (name) => withQueue(name, async (queue) => {
    const at = []
    works(queue, 1, async () => { at.push(Date.now()); if (at.length < 3) throw new Error(`no ${at.length}`); return 'third' })
    const job = await queue.add({}, { attempts: 5, backoff: 100 })
    await until('completed', async () => (await job.isCompleted()) || at.length)
    const after = await queue.getJob(job.id)
    same('attempts, result', [after.attemptsMade, after.returnvalue, after.stacktrace.length], [2, 'third', 2])
    if (at[1] - at[0] < 95 || at[2] - at[1] < 95) throw new Error(`backoff: ${at}`)
  }),
  'fail, and retry by hand': (name) => withQueue(name, async (queue) => {
    let broken = true
    works(queue, 1, async () => { if (broken) throw new Error('broken'); return 'mended' })
    const job = await queue.add({})
    await until('failed', async () => (await job.isFailed()) || job.getState())
    const failed = await queue.getJob(job.id)
    same('the reason', failed.failedReason, 'broken')
    broken = false
    await failed.retry()
    await until('completed', async () => (await job.isCompleted()) || job.getState())
    same('none failed', await queue.getFailedCount(), 0)
  }),
  'pause and resume': (name) => withQueue(name, async (queue) => {
    const ran = []
    works(queue, 1, async (job) => { ran.push(job.name) })
    await queue.pause()
    for (let i = 0; i < 5; i++) await queue.add(`n${i}`, {})
    await sleep(200)
    same('none ran', ran, [])
    same('five wait', await queue.getPausedCount(), 5)
    await queue.resume()
    await until('all ran', () => ran.length === 5 || ran)
  }),
  'repeat': (name) => withQueue(name, async (queue) => {
    const ran = []
    works(queue, 1, async (job) => { ran.push(job.data.k) })
    await queue.add('tick', { k: 'every' }, { repeat: { every: 100 } })
    await queue.add('tick', { k: 'cron' }, { repeat: { cron: '* * * * * *' } })
    await until('ran often', () => (ran.filter((k) => k === 'every').length >= 5 && ran.filter((k) => k === 'cron').length >= 2) || ran)
    same('repeated', await queue.getRepeatableCount(), 2)
    for (const { key } of await queue.getRepeatableJobs()) await queue.removeRepeatableByKey(key)
    same('repeated', await queue.getRepeatableCount(), 0)
  }),
  'priorities': (name) => withQueue(name, async (queue) => {
    await queue.pause()
    for (const priority of [3, 1, 2, 4, 1]) await queue.add(`p${priority}`, {}, { priority })
    await queue.add('last come', {}, { lifo: true })
    await queue.resume()
    const ran = []
    works(queue, 1, async (job) => { ran.push(job.name) })
    await until('all ran', () => ran.length === 6 || ran)
    same('the order', ran, ['last come', 'p1', 'p1', 'p2', 'p3', 'p4'])
  }),
  'rate limit': (name) => withQueue(name, async (_, open) => {
    const queue = open({ limiter: { max: 2, duration: 300 } })
    const at = []
    works(queue, 1, async () => { at.push(Date.now()) })
    await queue.addBulk(Array.from({ length: 6 }, () => ({ data: {} })))
    await until('all ran', () => at.length === 6 || at)
    if (at[5] - at[0] < 500) throw new Error(`too fast: ${at}`)
  }),
  'stalled jobs': (name) => withQueue(name, async (queue, open) => {
    const ran = []
    let stalled = 0
    let release
    const held = new Promise((resolve) => (release = resolve))
    const loser = open({ settings: { lockDuration: 300, lockRenewTime: 3600000, stalledInterval: 0 } })
    works(loser, 1, async () => { ran.push('lost'); await held })
    const job = await queue.add({})
    await until('it runs', () => ran.length === 1 || ran)
    const other = open({ settings: { stalledInterval: 200, maxStalledCount: 2 } })
    other.on('stalled', () => stalled++)
    works(other, 1, async () => { ran.push('again'); return 'by another' })
    await until('completed', async () => (await job.isCompleted()) || job.getState())
    release()
    await sleep(50)
    same('runs', ran, ['lost', 'again'])
    same('stalled', stalled, 1)
    same('the result', (await queue.getJob(job.id)).returnvalue, 'by another')
    same('completed', await queue.getCompletedCount(), 1)
  }),
  'progress, logs and events': (name) => withQueue(name, async (queue, open) => {
    const heard = []
    const listener = open()
    for (const e of ['active', 'progress', 'completed']) listener.on(`global:${e}`, () => heard.push(e))
    await listener.isReady()
    // Nothing of Bull tells when it has subscribed to all: until then it hears nothing.
    works(queue, 1, async (job) => { await job.progress(50); await job.log('half'); await job.update({ n: 2 }) })
    let job
    await until('events', async () => {
      heard.length = 0
      job = await queue.add({ n: 1 })
      await job.finished()
      await sleep(50)
      return heard.join() === 'active,progress,completed' || heard
    })
    same('logs', (await queue.getJobLogs(job.id)).logs, ['half'])
    same('data', (await queue.getJob(job.id)).data, { n: 2 })
  }),
  'keeping, cleaning, removing': (name) => withQueue(name, async (_, open) => {
    const queue = open({ metrics: { maxDataPoints: 10 } })
    works(queue, 1, async () => {})
    for (let i = 0; i < 20; i++) await queue.add({}, { removeOnComplete: 3 })
    await until('all ran', async () => {
      const { meta } = await queue.getMetrics('completed')
      return meta.count >= 20 || meta
    })
    same('kept', await queue.getCompletedCount(), 3)
    same('cleaned', (await queue.clean(0, 'completed')).length, 3)
    await queue.pause()
    await queue.add({}, { jobId: 'mine' })
    await queue.add({}, { jobId: 'mine' })
    same('one waits', await queue.getPausedCount(), 1)
    await (await queue.getJob('mine')).remove()
    await queue.empty()
    await queue.obliterate({ force: true })
    same('nothing left', await queue.client.keys(`bull:${name}:*`), [])
  }),
}

// A job has attempts left, as a completion that meets a server which is loading,
// as redis-server says, counts as a failure of the job.
async function kills() {
  const name = 'kills'
  const runs = new Runs()
  const queue = new Queue(name, options)
  const settings = { lockDuration: 10000, stalledInterval: 2000, maxStalledCount: 1000, retryProcessDelay: 50, drainDelay: 1, guardInterval: 500 }
  const workers = Array.from({ length: 3 }, () => new Queue(name, { ...options, settings, metrics: { maxDataPoints: 10 } }))
  for (const w of workers) works(w, 4, (job) => runs.handle(job.data.i))
  const kinds = { delayed: { delay: 100 }, failing: { backoff: 50 }, urgent: { priority: 1 } }
  const jobs = await runs.produce((i, kind) => queue.add(kind, { i }, { jobId: `job-${i}`, attempts: 1000, ...kinds[kind] }))
  let counts
  await until('all completed', async () => runs.settled(jobs, (counts = await queue.getJobCounts())) || { jobs, ...counts })
  const ids = async (found) => (await found).map((job) => job.id)
  runs.report(jobs, await ids(queue.getCompleted(0, -1)), await ids(queue.getActive(0, -1)), Number((await queue.getMetrics('completed')).meta.count))
}

if (mode === 'kills') await kills()
else await steps(flow)
process.exit(0)
