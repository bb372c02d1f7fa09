// Package clients uses the server as its clients do, through their own programs, unchanged: redis-cli,
// redis-benchmark and python3-redis. Package goredis below it does the same for go-redis.
package clients
