// A row of the table for ioredis: ioredis.mjs HOST PORT PROTOCOL USER PASSWORD [CA CERT KEY].
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import Redis from 'ioredis'

const [host, port, protocol, username, password, ca, cert, key] = process.argv.slice(2)
const tls = ca && { ca: readFileSync(ca), cert: readFileSync(cert), key: readFileSync(key) }
const options = { host, port: Number(port), protocol: Number(protocol), username, password, connectionName: 'a-client', ...(tls && { tls }) }
const opened = []
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

function open(other = {}) {
  const client = new Redis({ ...options, ...other })
  client.on('error', () => {}) // it connects again by itself
  opened.push(client)
  return client
}

const step = name => console.log(name)
const refused = (promise, code) => assert.rejects(promise, error => error.message.startsWith(code))

async function eventually(what, ready) {
  for (const end = Date.now() + 60_000; !(await ready()); await sleep(10)) assert(Date.now() < end, what)
}

const client = open()
const other = open()

assert.equal(await client.client('GETNAME'), 'a-client')
assert.equal(await client.acl('WHOAMI'), username)
assert((await client.client('INFO')).includes(` resp=${protocol}`))
const stranger = open({ password: 'wrong', retryStrategy: null, maxRetriesPerRequest: 0 })
const failure = new Promise(resolve => stranger.once('error', resolve))
stranger.ping().catch(() => {})
assert.match((await failure).message, /WRONGPASS/)
await refused(client.get('other'), 'NOPERM')
await refused(client.flushall(), 'NOPERM')
step('connect')

const pipeline = client.pipeline()
for (let i = 0; i < 5000; i++) pipeline.incr('app:n')
const replies = await pipeline.lpush('app:n', 'x').incr('app:n').exec()
assert.match(replies[5000][0].message, /^WRONGTYPE/)
assert.deepEqual(replies[5001], [null, 5001])
step('pipeline')

assert.deepEqual(await client.multi().set('app:a', 1).incr('app:a').exec(), [[null, 'OK'], [null, 2]])
await client.watch('app:a')
await other.set('app:a', 'theirs')
assert.equal(await client.multi().set('app:a', 'mine').exec(), null)
await refused(client.multi().set('app:a', 'mine').set('other', 'mine').exec(), 'EXECABORT')
assert.equal(await client.get('app:a'), 'theirs')
step('transaction')

for (const [verb, name, event, publish] of [
  ['subscribe', 'app:channel', 'message', 'publish'],
  ['psubscribe', 'app:*', 'pmessage', 'publish'],
  ['ssubscribe', 'app:channel', 'smessage', 'spublish'],
]) {
  const subscriber = open()
  assert.equal(await subscriber[verb](name), 1)
  const message = new Promise(resolve => subscriber.once(event, (...args) => resolve(args.slice(-2))))
  assert.equal(await other[publish]('app:channel', 'hello'), 1)
  assert.deepEqual(await message, ['app:channel', 'hello'])
  subscriber.disconnect()
}
step('pub/sub')

{
  // It has no cache of its own, and drops what it does not know: messages of the channel it takes in RESP2.
  const listener = open({ protocol: 2 })
  const id = await listener.client('ID')
  await listener.subscribe('__redis__:invalidate')
  const invalid = new Promise(resolve => listener.once('message', (...args) => resolve(args.map(String))))
  assert.equal(await client.client('TRACKING', 'ON', 'REDIRECT', id), 'OK')
  assert.equal(await client.get('app:a'), 'theirs')
  await other.set('app:a', 'newer')
  assert.deepEqual(await invalid, ['__redis__:invalidate', 'app:a'])
  assert.equal(await client.client('TRACKING', 'OFF'), 'OK')
  const own = open()
  assert.equal(await own.client('TRACKING', 'ON'), 'OK')
  assert.equal(await own.get('app:a'), 'newer')
  await other.set('app:a', 'theirs')
  assert.equal(await own.get('app:a'), 'theirs')
}
step('caching')

await refused(client.evalsha('0'.repeat(40), 0), 'NOSCRIPT')
client.defineCommand('count', { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" })
assert.equal(await client.count('app:count', 5), 5)
assert.equal(await client.count('app:count', 5), 10)
await refused(client.count('app:a', 1), 'ERR value is not an integer or out of range script: ')
step('script')

const job = client.blpop('app:queue', 60)
await eventually('BLPOP', async () => (await other.info('clients')).includes('blocked_clients:1\r\n'))
await other.rpush('app:queue', 'job')
assert.deepEqual(await job, ['app:queue', 'job'])
assert.equal(await client.blpop('app:queue', 0.02), null)
step('blocking pop')

const value = Buffer.alloc(8 << 20, Buffer.from(Array.from({ length: 256 }, (_, i) => i)))
assert.equal(await client.set('app:big', value), 'OK')
assert(value.equals(await client.getBuffer('app:big')))
step('big values')

assert.equal(await other.client('KILL', 'ID', await client.client('ID')), 1)
assert.equal(await client.set('app:kept', 'v'), 'OK')
console.log('restart')
await input.next()
assert.equal(await client.get('app:kept'), 'v')
step('reconnect')

for (const client of opened) client.disconnect()
process.stdin.destroy()
