package lualib

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

var tableFunctions = map[string]lua.LGFunction{
	"concat": tabConcat, "foreach": tabForeach, "foreachi": tabForeachi, "getn": tabGetn, "insert": tabInsert,
	"maxn": tabMaxn, "remove": tabRemove, "setn": tabSetn, "sort": tabSort,
}

// tableLen is # of a table.
func tableLen(t *lua.LTable) int {
	n := t.Len()
	if n < maxArrayIndex-1 {
		return n
	}
	// Beyond, what would be an array is not one to gopher-lua.
	for step := 1; ; step *= 2 {
		if t.RawGet(lua.LNumber(n+step)) == lua.LNil {
			low, high := n+step/2, n+step
			for high-low > 1 {
				if m := (low + high) / 2; t.RawGet(lua.LNumber(m)) == lua.LNil {
					high = m
				} else {
					low = m
				}
			}
			return low
		}
	}
}

func tabGetn(l *lua.LState) int {
	return pushNumber(l, float64(tableLen(contents(l, checkTable(l, 1)))))
}

func tabSetn(l *lua.LState) int {
	checkTable(l, 1)
	fail(l, "'setn' is obsolete")
	return 0
}

func tabMaxn(l *lua.LState) int {
	t := contents(l, checkTable(l, 1))
	largest := 0.0
	each(t, func(k, _ lua.LValue) bool {
		if n, ok := k.(lua.LNumber); ok && float64(n) > largest {
			largest = float64(n)
		}
		return true
	})
	return pushNumber(l, largest)
}

// each calls fn for the entries of a table until it says no.
func each(t *lua.LTable, fn func(k, v lua.LValue) bool) {
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if !fn(k, v) {
			return
		}
	}
}

func checkFunction(l *lua.LState, n int) *lua.LFunction {
	fn, ok := l.Get(n).(*lua.LFunction)
	if !ok {
		argTypeError(l, n, "function")
	}
	return fn
}

func tabForeach(l *lua.LState) int {
	t := contents(l, checkTable(l, 1))
	fn := checkFunction(l, 2)
	var result lua.LValue
	each(t, func(k, v lua.LValue) bool {
		result = of(l).call1(l, fn, k, v)
		return result == lua.LNil
	})
	if result == nil || result == lua.LNil {
		return 0
	}
	return push(l, result)
}

func tabForeachi(l *lua.LState) int {
	t := contents(l, checkTable(l, 1))
	n := tableLen(t)
	fn := checkFunction(l, 2)
	for i := 1; i <= n; i++ {
		if v := of(l).call1(l, fn, lua.LNumber(i), t.RawGet(lua.LNumber(i))); v != lua.LNil {
			return push(l, v)
		}
	}
	return 0
}

func tabConcat(l *lua.LState) int {
	separator := optString(l, 2, "")
	t := contents(l, checkTable(l, 1))
	from := optInt(l, 3, 1)
	to := 0
	if absent(l, 4) {
		to = tableLen(t)
	} else {
		to = checkInt(l, 4)
	}
	s := of(l)
	var b strings.Builder
	for i := from; i <= to; i++ {
		v := t.RawGet(lua.LNumber(i))
		part, ok := toString(v)
		if !ok {
			fail(l, "invalid value (%s) at index %d in table for 'concat'", typeName(v), i)
		}
		if i > from {
			s.take(l, len(separator))
			tooLarge(l, b.Len()+len(separator))
			b.WriteString(separator)
		}
		s.take(l, len(part))
		tooLarge(l, b.Len()+len(part))
		b.WriteString(part)
		s.work(l, 1)
	}
	return pushString(l, b.String())
}

func tabInsert(l *lua.LState) int {
	t := checkTable(l, 1)
	e := tableLen(contents(l, t)) + 1
	switch l.GetTop() {
	case 2:
		writable(l, t).RawSet(lua.LNumber(e), l.Get(2))
	case 3:
		at := checkInt(l, 2)
		writable(l, t)
		if at == e {
			t.RawSet(lua.LNumber(e), l.Get(3))
			return 0
		}
		for i := max(e, at); i > at; i-- {
			t.RawSet(lua.LNumber(i), t.RawGet(lua.LNumber(i-1)))
			of(l).work(l, 1)
		}
		t.RawSet(lua.LNumber(at), l.Get(3))
	default:
		fail(l, "wrong number of arguments to 'insert'")
	}
	return 0
}

func tabRemove(l *lua.LState) int {
	t := checkTable(l, 1)
	e := tableLen(contents(l, t))
	at := optInt(l, 2, e)
	if at < 1 || at > e {
		return 0
	}
	writable(l, t)
	v := t.RawGet(lua.LNumber(at))
	if e < maxArrayIndex-1 {
		// Nothing lies behind e: gopher-lua's own keeps the array short, which a
		// later # is glad of.
		t.Remove(at)
		return push(l, v)
	}
	for i := at; i < e; i++ {
		t.RawSet(lua.LNumber(i), t.RawGet(lua.LNumber(i+1)))
		of(l).work(l, 1)
	}
	t.RawSet(lua.LNumber(e), lua.LNil)
	return push(l, v)
}

func tabSort(l *lua.LState) int {
	t := checkTable(l, 1)
	n := tableLen(contents(l, t))
	if !absent(l, 2) {
		checkFunction(l, 2)
	}
	s := sorter{l: l, t: t, fn: l.Get(2)}
	s.sort(1, n)
	return 0
}

// sorter sorts a table in place, by the quicksort whose comparisons scripts can
// watch: median of three, the smaller part first.
type sorter struct {
	l  *lua.LState
	t  *lua.LTable
	fn lua.LValue
}

func (s *sorter) get(i int) lua.LValue { return contents(s.l, s.t).RawGet(lua.LNumber(i)) }

func (s *sorter) set(i int, v lua.LValue) { writable(s.l, s.t).RawSet(lua.LNumber(i), v) }

func (s *sorter) less(a, b lua.LValue) bool {
	steps := 1
	if a, ok := a.(lua.LString); ok {
		if b, ok := b.(lua.LString); ok {
			steps += min(len(a), len(b))
		}
	}
	of(s.l).work(s.l, steps)
	if s.fn != lua.LNil {
		return lua.LVAsBool(of(s.l).call1(s.l, s.fn, a, b))
	}
	return lessThan(s.l, a, b)
}

// order swaps two elements if the second is less than the first.
func (s *sorter) order(i, j int) bool {
	a, b := s.get(i), s.get(j)
	if !s.less(b, a) {
		return false
	}
	s.set(i, b)
	s.set(j, a)
	return true
}

func (s *sorter) sort(low, high int) {
	for low < high {
		s.order(low, high)
		if high-low == 1 {
			return
		}
		middle := (low + high) / 2
		if !s.order(low, middle) {
			s.order(middle, high)
		}
		if high-low == 2 {
			return
		}
		pivot, last := s.get(middle), s.get(high-1)
		s.set(middle, last)
		s.set(high-1, pivot)
		i := s.part(low, high, pivot)
		a, b := s.get(high-1), s.get(i)
		s.set(high-1, b)
		s.set(i, a)
		if i-low < high-i {
			s.sort(low, i-1)
			low = i + 1
		} else {
			s.sort(i+1, high)
			high = i - 1
		}
	}
}

// part moves what is less than the pivot before what is not.
func (s *sorter) part(low, high int, pivot lua.LValue) int {
	i, j := low, high-1
	for {
		var a, b lua.LValue
		for {
			i++
			if a = s.get(i); !s.less(a, pivot) {
				break
			}
			if i > high {
				fail(s.l, "invalid order function for sorting")
			}
		}
		for {
			j--
			if b = s.get(j); !s.less(pivot, b) {
				break
			}
			if j < low {
				fail(s.l, "invalid order function for sorting")
			}
		}
		if j < i {
			return i
		}
		s.set(i, b)
		s.set(j, a)
	}
}

// lessThan is a < b.
func lessThan(l *lua.LState, a, b lua.LValue) bool {
	switch a.(type) {
	case lua.LNumber, lua.LString:
		if a.Type() == b.Type() {
			return l.LessThan(a, b)
		}
	default:
		if a.Type() == b.Type() {
			if m := metaField(l, a, "__lt"); m != lua.LNil && l.RawEqual(m, metaField(l, b, "__lt")) {
				return lua.LVAsBool(of(l).call1(l, m, a, b))
			}
			raise(l, lua.LString("attempt to compare two "+typeName(a)+" values"))
		}
	}
	raise(l, lua.LString("attempt to compare "+typeName(a)+" with "+typeName(b)))
	return false
}
