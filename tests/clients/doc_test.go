// Package clients uses the server as its clients do: through go-redis, redis-cli, redis-benchmark and
// python3-redis, each as a program or library of its own and unchanged.
package clients
