package lualib

import lua "github.com/yuin/gopher-lua"

// A read-only table is two: what scripts see has no entries, so that every read
// goes on to what it has, and every write to an error, by a metatable that scripts
// do not see. Functions of libraries look through it.
type readonly struct {
	contents *lua.LTable
	// meta is the metatable that scripts see, nil if there is none.
	meta *lua.LTable
}

// protect returns a read-only table with these contents, and with this metatable
// for scripts.
func (s *State) protect(contents, meta *lua.LTable) *lua.LTable {
	t := newTable(0, 0)
	hidden := newTable(0, 2)
	hidden.RawSetString("__index", contents)
	hidden.RawSetString("__newindex", refuseWrite)
	t.Metatable = hidden
	s.readonly[t] = readonly{contents, meta}
	return t
}

const readonlyText = "Attempt to modify a readonly table"

var refuseWrite = builtin(func(l *lua.LState) int {
	fail(l, readonlyText)
	return 0
})

// contents returns the table that has the entries of t: itself, unless it is
// read-only.
func contents(l *lua.LState, t *lua.LTable) *lua.LTable {
	if t.Metatable == lua.LNil {
		return t
	}
	if r, ok := of(l).readonly[t]; ok {
		return r.contents
	}
	return t
}

// writable returns t, or fails if it is read-only.
func writable(l *lua.LState, t *lua.LTable) *lua.LTable {
	if t.Metatable != lua.LNil {
		if _, ok := of(l).readonly[t]; ok {
			raise(l, lua.LString(readonlyText))
		}
	}
	return t
}

// rawMetatable is the metatable of a value as scripts see it, nil if there is none.
func rawMetatable(l *lua.LState, v lua.LValue) *lua.LTable {
	switch v := v.(type) {
	case *lua.LTable:
		if v.Metatable == lua.LNil {
			return nil
		}
		if r, ok := of(l).readonly[v]; ok {
			return r.meta
		}
		mt, _ := v.Metatable.(*lua.LTable)
		return mt
	case lua.LString:
		return of(l).stringMeta
	}
	return nil
}
