// Package lualib is the Lua that scripts and functions run in: a state of
// gopher-lua with the libraries of redis-server 7, its sandbox, and the way from
// replies to Lua values and back.
//
// What is outside of Lua (commands, the log, who may do what, time and memory
// that a script may take) is behind [Host]. The package knows no store and no
// connection.
//
// A [State] serves one script at a time. A [Program] is compiled once and may run
// in any number of states.
package lualib
