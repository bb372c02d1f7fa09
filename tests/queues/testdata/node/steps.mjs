// What the programs of both queues share: steps that are named, waits for a
// condition, and the run that the test ends the server under.
import { createInterface } from 'node:readline'

export const [, , mode, port] = process.argv
export const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null, retryStrategy: () => 50 }

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

const patienceMs = 60000

// until waits for a condition, and says what it last was.
export async function until(what, condition) {
  const deadline = Date.now() + patienceMs
  for (;;) {
    const got = await condition()
    if (got === true) return
    if (Date.now() > deadline) throw new Error(`${what}: still ${JSON.stringify(got)}`)
    await sleep(10)
  }
}

export function same(what, got, want) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
}

// steps runs each step with the name of a queue of its own.
export async function steps(all) {
  for (const [name, step] of Object.entries(all)) {
    try {
      await step(name.replaceAll(' ', '-'))
    } catch (err) {
      console.log(`failed ${name}: ${err.stack}`)
      process.exit(1)
    }
    console.log(`ok ${name}`)
  }
}

// kindOf is what the job of a number is: most are plain, some wait, some fail the
// first time, some have a priority.
export function kindOf(i) {
  return ['plain', 'plain', 'delayed', 'plain', 'failing', 'plain', 'urgent', 'plain'][i % 8]
}

const outstanding = 60

// stillMs is how long nothing may change until what is active is left alone.
const stillMs = 1500

// Runs counts how often the handler of each job has begun.
export class Runs {
  begun = new Map()
  finished = 0
  running = 0

  async handle(i) {
    const n = (this.begun.get(i) ?? 0) + 1
    this.begun.set(i, n)
    this.running++
    await sleep(60 + (i % 60))
    this.running--
    if (kindOf(i) === 'failing' && n === 1) throw new Error('the first time fails')
    this.finished++
    return i
  }

  // produce adds jobs until the test says stop, and prints how far they are.
  // A job whose add fails is added again under the same id.
  async produce(add) {
    let stopped = false
    createInterface({ input: process.stdin }).on('line', (line) => { stopped = true; this.early = line === 'stop early' })
    let jobs = 0
    let told = -1
    const tell = () => { if (this.finished !== told) console.log(`done ${(told = this.finished)}`) }
    while (!stopped) {
      while (!stopped && jobs - this.finished < outstanding) {
        const i = jobs++
        for (let added = false; !added; ) {
          try {
            await add(i, kindOf(i))
            added = true
          } catch (err) {
            console.error(`add ${i}: ${err.message}`)
            await sleep(50)
          }
        }
        tell()
      }
      tell()
      await sleep(5)
    }
    return jobs
  }

  // settled reports whether all is done that a report waits for. What stays active
  // while no handler runs was given to a worker that has not heard of it.
  settled(jobs, { completed, active, failed }) {
    if (failed > 0) throw new Error(`${failed} jobs failed`)
    if (completed === jobs) return true
    const state = `${completed} ${active} ${this.running}`
    if (!this.early || this.running > 0 || completed + active !== jobs || state !== this.state) {
      this.state = state
      this.since = Date.now()
    }
    return Date.now() - this.since > stillMs
  }

  report(jobs, completed, active, recorded) {
    let again = 0
    for (const [i, n] of this.begun) again += Math.max(0, n - (kindOf(i) === 'failing' ? 2 : 1))
    const there = new Set([...completed, ...active])
    let lost = 0
    for (let i = 0; i < jobs; i++) if (!there.has(`job-${i}`)) lost++
    console.log(`report ${JSON.stringify({ jobs, lost, completed: completed.length, left: active.length, recorded, again })}`)
  }
}
