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
//
// Source is read by a parser of the package's own into gopher-lua's syntax tree,
// and every library is its own, so that texts, numbers and errors are those of
// redis-server 7.0.15: testdata/corpus has what was compared. What stays different:
//
//   - pairs, next and what they serve (cjson.encode and cmsgpack.pack of several
//     keys, maps and sets in replies) go through a table in the order in which keys
//     came; Lua 5.1's order is that of its hash table.
//   - A table with holes has several lengths. Here # is its last element's index,
//     in Lua 5.1 it depends on how the table grew.
//   - next with a key that the table does not have begins anew instead of failing.
//   - string.dump answers the code of gopher-lua. As in Redis none is loaded.
//   - A script may hold [MaxMemoryBytes] and a string 512 MiB; below a protected
//     call fewer calls may nest. Lua 5.1 ends with the memory of the machine.
//   - A chunk has at most 2^20 tokens, and at most 1,000 operators, fields, calls or
//     elseifs in a row; a function that has some ten thousand constants may be too
//     complex. Of an error's text 1 MiB is sent.
//   - A function has room for 200 values, variables and temporaries together,
//     instead of 250.
//   - coroutine.yield is a function of Lua as far as errors say where they were
//     raised, and collectgarbage collects nothing.
//   - math.asin, acos, atan, sinh and the like may differ in the last place.
package lualib
