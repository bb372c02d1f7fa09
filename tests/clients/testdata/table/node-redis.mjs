// A row of the table for node-redis: node-redis.mjs HOST PORT PROTOCOL USER PASSWORD [CA CERT KEY].
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { BasicClientSideCache, WatchError, createClient, defineScript } from 'redis'

const [host, port, protocol, username, password, ca, cert, key] = process.argv.slice(2)
const tls = ca && { tls: true, ca: readFileSync(ca), cert: readFileSync(cert), key: readFileSync(key) }
const lua = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
const options = {
  RESP: Number(protocol), username, password, name: 'a-client', socket: { host, port: Number(port), ...tls },
  scripts: { count: defineScript({ SCRIPT: lua, NUMBER_OF_KEYS: 1, parseCommand: (parser, key, n) => (parser.pushKey(key), parser.push(n)), transformReply: undefined }) },
}
const opened = []
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

async function open(other = {}) {
  const client = createClient({ ...options, ...other })
  client.on('error', () => {}) // it connects again by itself
  await client.connect()
  opened.push(client)
  return client
}

const step = name => console.log(name)
const refused = (promise, code) => assert.rejects(promise, error => error.message.startsWith(code))

async function eventually(what, ready) {
  for (const end = Date.now() + 60_000; !(await ready()); await sleep(10)) assert(Date.now() < end, what)
}

const client = await open()
const other = await open()

assert.equal(await client.clientGetName(), 'a-client')
assert.equal(await client.aclWhoAmI(), username)
assert((await client.sendCommand(['CLIENT', 'INFO'])).includes(` resp=${protocol}`))
await refused(open({ password: 'wrong', socket: { ...options.socket, reconnectStrategy: false } }), 'WRONGPASS')
await refused(client.get('other'), 'NOPERM')
await refused(client.flushAll(), 'NOPERM')
step('connect')

const many = Array.from({ length: 5000 }, () => client.incr('app:n'))
const bad = refused(client.lPush('app:n', 'x'), 'WRONGTYPE')
const last = client.incr('app:n')
assert.equal((await Promise.all(many))[4999], 5000)
await bad
assert.equal(await last, 5001)
step('pipeline')

assert.deepEqual(await client.multi().set('app:a', '1').incr('app:a').exec(), ['OK', 2])
await client.watch('app:a')
await other.set('app:a', 'theirs')
await assert.rejects(client.multi().set('app:a', 'mine').exec(), error => error instanceof WatchError)
await assert.rejects(client.multi().set('app:a', 'mine').set('other', 'mine').exec())
assert.equal(await client.get('app:a'), 'theirs')
step('transaction')

for (const [verb, name, publish] of [['subscribe', 'app:channel', 'publish'], ['pSubscribe', 'app:*', 'publish'], ['sSubscribe', 'app:channel', 'sPublish']]) {
  const subscriber = await open()
  let listener
  const message = new Promise(resolve => { listener = (...args) => resolve(args) })
  await subscriber[verb](name, listener)
  assert.equal(await other[publish]('app:channel', 'hello'), 1)
  assert.deepEqual(await message, ['hello', 'app:channel'])
  subscriber.destroy()
}
step('pub/sub')

if (protocol === '3') {
  const clientSideCache = new BasicClientSideCache({ ttl: 0, maxEntries: 0, evictPolicy: 'LRU' })
  const cached = await open({ clientSideCache })
  for (let i = 0; i < 3; i++) assert.equal(await cached.get('app:a'), 'theirs')
  assert.equal(clientSideCache.stats().hitCount, 2)
  await other.set('app:a', 'newer')
  await eventually('the cache forgets', async () => (await cached.get('app:a')) === 'newer')
  const hits = clientSideCache.stats().hitCount
  assert.equal(await cached.get('app:a'), 'newer')
  assert.equal(clientSideCache.stats().hitCount, hits + 1)
  cached.destroy()
} else {
  const listener = await open()
  const id = String(await listener.clientId())
  let told
  const invalid = new Promise(resolve => { told = resolve })
  await listener.subscribe('__redis__:invalidate', told)
  await client.sendCommand(['CLIENT', 'TRACKING', 'ON', 'REDIRECT', id])
  assert.equal(await client.get('app:a'), 'theirs')
  await other.set('app:a', 'newer')
  assert.deepEqual(await invalid, ['app:a'])
  await client.sendCommand(['CLIENT', 'TRACKING', 'OFF'])
  listener.destroy()
}
await other.set('app:a', 'theirs')
step('caching')

await refused(client.evalSha('0'.repeat(40)), 'NOSCRIPT')
assert.equal(await client.count('app:count', '5'), 5)
assert.equal(await client.count('app:count', '5'), 10)
await refused(client.count('app:a', '1'), 'ERR value is not an integer or out of range script: ')
step('script')

const job = client.blPop('app:queue', 60)
await eventually('BLPOP', async () => (await other.info('clients')).includes('blocked_clients:1\r\n'))
await other.rPush('app:queue', 'job')
assert.deepEqual({ ...await job }, { key: 'app:queue', element: 'job' })
assert.equal(await client.blPop('app:queue', 0.02), null)
step('blocking pop')

const value = Buffer.alloc(8 << 20, Buffer.from(Array.from({ length: 256 }, (_, i) => i)))
assert.equal(await client.set('app:big', value), 'OK')
assert(value.equals(await client.withTypeMapping({ 36: Buffer }).get('app:big')))
step('big values')

assert.equal(await other.sendCommand(['CLIENT', 'KILL', 'ID', String(await client.clientId())]), 1)
await eventually('after CLIENT KILL', () => client.set('app:kept', 'v').catch(() => false))
console.log('restart')
await input.next()
await eventually('after a restart', () => client.ping().catch(() => false))
assert.equal(await client.get('app:kept'), 'v')
// One that is just connecting goes on with it after destroy, and keeps node from its end.
await eventually('the other one after a restart', () => other.ping().catch(() => false))
step('reconnect')

for (const client of opened) if (client.isOpen) client.destroy()
process.stdin.destroy()
