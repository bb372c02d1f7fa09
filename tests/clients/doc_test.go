// Package clients uses the server as its clients do, through their own programs, unchanged: redis-cli,
// redis-benchmark, prometheus-redis-exporter, and the libraries of the table in docs/clients.md. Package goredis
// below it goes through all commands of go-redis.
package clients
