// Package goredis uses the server through go-redis, unchanged, over RESP2 and RESP3.
package goredis
