// Package config holds every setting of the server: their names, types,
// defaults and bounds, the redis.conf syntax and command line they are read
// from, and CONFIG GET and CONFIG SET.
//
// Settings have the names, forms and bounds of redis-server 7.0. A field of
// Config stands for each setting that something in this program reads; Load on
// it is one atomic load, so it may stand on a hot path. Settings that are only
// accepted, so that an existing redis.conf works, have no field.
//
// docs/config.md is derived from the registry.
package config

//go:generate go run ./gendoc ../../docs/config.md
