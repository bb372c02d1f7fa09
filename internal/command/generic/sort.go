package generic

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

func sort() *command.Spec {
	return &command.Spec{
		Name: "sort", Arity: -2, Flags: command.Write | command.TellsMisses | command.DenyOOM,
		Category: command.CatSet | command.CatSortedSet | command.CatList | command.CatDangerous,
		Keys: []command.KeySpec{sortedKey, patternKeys, {
			Flags: command.OW | command.Update, Unknown: true, Find: storedKey,
			Notes: "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array",
		}},
		Reach: sortReach,
		Group: "generic", Since: "1.0.0", Complexity: "O(N+M*log(M)) for N elements of which M are answered",
		Syntax:  sortSyntax + " [STORE destination]",
		Summary: "Answers or stores the elements of a list, set or sorted set in order, or what keys that are named after them hold.",
		Differences: "Texts are compared byte by byte, whatever the locale. BY and GET with a pattern hold every shard while the command " +
			"runs, unless a hash tag before the * says which one.",
		Run: func(c *command.Ctx) { runSort(c, true) },
	}
}

func sortRO() *command.Spec {
	return &command.Spec{
		Name: "sort_ro", Arity: -2, Flags: command.ReadOnly,
		Category: command.CatSet | command.CatSortedSet | command.CatList | command.CatDangerous,
		Keys:     []command.KeySpec{sortedKey, patternKeys},
		Reach:    sortReach,
		Group:    "generic", Since: "7.0.0", Complexity: "O(N+M*log(M)) for N elements of which M are answered",
		Syntax:      sortSyntax,
		Summary:     "SORT without STORE: a command that reads.",
		Differences: "As for SORT.",
		Run:         func(c *command.Ctx) { runSort(c, false) },
	}
}

const sortSyntax = "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]"

var (
	sortedKey   = command.Range(1, 0, 1, command.RO|command.Access)
	patternKeys = command.KeySpec{
		Flags: command.RO | command.Access, Unknown: true,
		Notes: "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
	}
)

// storedKey finds the key of the last STORE as COMMAND GETKEYS of Redis does:
// it steps over what BY, GET and LIMIT take, and not over what STORE does.
func storedKey(args [][]byte) (found []int) {
	for i := 2; i < len(args); i++ {
		switch {
		case command.EqualFold(args[i], "LIMIT"):
			i += 2
		case command.EqualFold(args[i], "GET"), command.EqualFold(args[i], "BY"):
			i++
		case command.EqualFold(args[i], "STORE") && i+1 < len(args):
			found = []int{i + 1}
		}
	}
	return found
}

// sortReach says where the command may look and what it may store: whatever
// stands behind STORE, and what the patterns behind BY and GET can become.
func sortReach(args [][]byte) (keys [][]byte, all bool) {
	for i := 2; i+1 < len(args); i++ {
		switch next := args[i+1]; {
		case command.EqualFold(args[i], "STORE"):
			keys = append(keys, next)
		case command.EqualFold(args[i], "BY"), command.EqualFold(args[i], "GET"):
			p := parsePattern(next)
			switch {
			case !p.named():
			case p.tagged():
				keys = append(keys, p.prefix)
			default:
				return nil, true
			}
		}
	}
	return keys, false
}

// pattern is what BY or GET names a value by: the element itself, or the key,
// or the field of a hash, that is prefix, element and suffix.
type pattern struct {
	element        bool // #
	star           bool
	prefix, suffix []byte
	field          []byte // of a hash, if it is not empty
}

// parsePattern reads a pattern. As in Redis, which reads it as C's text, what
// decides about its form ends with a zero byte.
func parsePattern(b []byte) pattern {
	text := command.CText(b)
	if string(text) == "#" {
		return pattern{element: true}
	}
	at := bytes.IndexByte(text, '*')
	if at < 0 {
		return pattern{}
	}
	p := pattern{star: true, prefix: b[:at], suffix: b[at+1:]}
	if arrow := bytes.Index(text[at+1:], []byte("->")); arrow >= 0 && at+1+arrow+2 < len(text) {
		p.suffix, p.field = p.suffix[:arrow], p.suffix[arrow+2:]
	}
	return p
}

// named reports whether the pattern leads to other keys. One without a * leads
// nowhere.
func (p *pattern) named() bool { return p.star }

// tagged reports whether a hash tag before the element decides which shard the
// keys are in.
func (p *pattern) tagged() bool {
	open := bytes.IndexByte(p.prefix, '{')
	return open >= 0 && bytes.IndexByte(p.prefix[open+1:], '}') > 0
}

// lookup returns what the pattern names for an element. scratch keeps the key.
func (p *pattern) lookup(tx *shard.Tx, elem []byte, scratch *[]byte) (value []byte, ok bool) {
	if p.element {
		return elem, true
	}
	if !p.star {
		return nil, false
	}
	key := append(append(append((*scratch)[:0], p.prefix...), elem...), p.suffix...)
	*scratch = key
	if len(p.field) > 0 {
		h, err := tx.Hash(key)
		if err != nil {
			return nil, false
		}
		return h.Get(p.field)
	}
	value, ok, err := tx.String(key)
	return value, ok && err == nil
}

// sorting is what SORT is told.
type sorting struct {
	descending, alpha bool
	by                pattern
	byPattern         bool // elements are compared by what the pattern names
	unsorted          bool // BY without a *
	gets              []pattern
	offset, count     int64 // count is negative for all
	store             bool
	destination       []byte
}

// reader is a session whose user may not be allowed to read every key.
type reader interface {
	ReadsEveryKey(spec *command.Spec, args [][]byte) bool
}

// readsEveryKey reports whether the session may read what BY and GET name, which
// are no arguments that its rights could be asked for.
func readsEveryKey(c *command.Ctx) bool {
	r, ok := c.Session.(reader)
	return !ok || r.ReadsEveryKey(c.Spec, c.Args)
}

var (
	errMayNotBy  = resp.Errorf("ERR", "BY option of SORT denied due to insufficient ACL permissions.")
	errMayNotGet = resp.Errorf("ERR", "GET option of SORT denied due to insufficient ACL permissions.")
)

func parseSorting(c *command.Ctx, a *command.Args, stores bool) (s sorting) {
	s.count = -1
	for a.More() {
		switch {
		case a.Is("ASC"):
			s.descending = false
		case a.Is("DESC"):
			s.descending = true
		case a.Is("ALPHA"):
			s.alpha = true
		case a.Len() > 2 && a.Is("LIMIT"):
			s.offset, s.count = a.Int(), a.Int()
		case stores && a.Len() > 1 && a.Is("STORE"):
			s.store, s.destination = true, a.Bytes()
		case a.Len() > 1 && a.Is("BY"):
			s.by = parsePattern(a.Bytes())
			if s.by.named() && !readsEveryKey(c) {
				a.Fail(errMayNotBy)
			}
			s.byPattern = true
			// A BY that names nothing stays in force, whatever comes after it.
			s.unsorted = s.unsorted || !s.by.named()
		case a.Len() > 1 && a.Is("GET"):
			s.gets = append(s.gets, parsePattern(a.Bytes()))
			if !readsEveryKey(c) {
				a.Fail(errMayNotGet)
			}
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	return s
}

// window returns the part of n elements that is answered, last before first if
// that is none.
func (s *sorting) window(n int) (first, last int) {
	first = int(min(max(s.offset, 0), int64(n)))
	count := int(min(max(s.count, -1), int64(n)))
	last = n - 1
	if count >= 0 {
		last = min(first+count-1, last)
	}
	if first >= n {
		return n, n - 1
	}
	return first, last
}

var errNoDouble = &resp.Error{Code: "ERR", Text: "One or more scores can't be converted into double"}

func runSort(c *command.Ctx, stores bool) {
	a := c.Scan(2)
	s := parseSorting(c, &a, stores)
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	var elems command.Members
	n, whole, err := s.gather(c, &elems)
	if err != nil {
		c.W.Err(err)
		return
	}
	first, last := s.window(n)
	if !whole {
		first, last = 0, elems.Len()-1
	}
	order, ok := s.order(c, &elems, first, last)
	if !ok {
		c.W.Error(errNoDouble)
		return
	}
	if s.store {
		s.storeResult(c, &elems, order[first:last+1])
		return
	}
	s.reply(c, &elems, order[first:last+1])
}

// gather collects the elements of the key and returns how many it has. Where
// they are not going to be sorted, those outside of the window are left out:
// whole is false then.
func (s *sorting) gather(c *command.Ctx, elems *command.Members) (n int, whole bool, err error) {
	key := c.Key(1)
	kind, ok := c.Tx.Kind(key)
	if !ok {
		return 0, true, nil
	}
	appendElem := func(elem []byte) bool {
		elems.Append(elem)
		return true
	}
	switch kind {
	case shard.KindList:
		l, err := c.Tx.List(key)
		n = l.Len()
		first, count := 0, n
		if s.unsorted {
			first, count = s.inPlace(n)
		}
		l.Each(first, count, s.unsorted && s.descending, appendElem)
		return n, !s.unsorted, err
	case shard.KindZSet:
		c.Tx.MarkSkiplist(key)
		z, err := c.Tx.ZSet(key)
		n = z.Len()
		first, count := 0, n
		if s.unsorted {
			first, count = s.inPlace(n)
		}
		z.EachRank(first, count, s.unsorted && s.descending, func(member []byte, _ float64) bool { return appendElem(member) })
		return n, !s.unsorted, err
	case shard.KindSet:
		set, err := c.Tx.SetOf(key)
		if s.unsorted && (s.store || c.Scripted) {
			// What is stored does not depend on how the set is kept, nor does a script.
			s.unsorted, s.alpha, s.byPattern = false, true, false
		}
		set.Each(appendElem)
		return set.Len(), true, err
	}
	return 0, true, command.ErrWrongType
}

// inPlace returns where the window of n elements begins that are answered in
// the order that they have, counted from the first one, and its length.
func (s *sorting) inPlace(n int) (from, count int) {
	first, last := s.window(n)
	if s.descending {
		return n - 1 - first, last - first + 1
	}
	return first, last - first + 1
}

// sortable is an element with what it is compared by.
type sortable struct {
	index int // of the element, in the order in which they came
	score float64
	text  []byte
	found bool // there is something to compare it by
}

// order returns the elements so that those from first to last are in their
// places; ok is false if one of them is compared by what is no number.
func (s *sorting) order(c *command.Ctx, elems *command.Members, first, last int) (list []sortable, ok bool) {
	list = make([]sortable, elems.Len())
	ok = true
	var key []byte
	for i := range list {
		e := &list[i]
		e.index = i
		if s.unsorted {
			continue
		}
		e.text, e.found = elems.At(i), true
		if s.byPattern {
			if e.text, e.found = s.by.lookup(c.Tx, e.text, &key); !e.found {
				continue
			}
		}
		if !s.alpha {
			var number bool
			if e.score, number = sortScore(e.text); !number {
				ok = false
			}
		}
	}
	if s.unsorted || !ok {
		return list, ok
	}
	compare := s.compare(elems)
	if s.byPattern && (first != 0 || last != len(list)-1) {
		command.PartialSort(list, first, last, compare)
		return list, true
	}
	slices.SortFunc(list, func(a, b sortable) int {
		if order := compare(a, b); order != 0 {
			return order
		}
		return cmp.Compare(a.index, b.index)
	})
	return list, true
}

// smallestNormal is the smallest double that has all its digits.
const smallestNormal = 0x1p-1022

// sortScore reads a number as C's strtod does: blanks before it are skipped, no
// text at all is 0. A number too small to keep its digits is out of range.
func sortScore(b []byte) (score float64, ok bool) {
	b = command.CText(b)
	if len(b) == 0 {
		return 0, true
	}
	score, ok = command.ParseFloat(bytes.TrimLeft(b, " \t\n\v\f\r"))
	return score, ok && (score == 0 || math.Abs(score) >= smallestNormal)
}

// compare returns the order of the elements.
func (s *sorting) compare(elems *command.Members) func(a, b sortable) int {
	var compare func(a, b sortable) int
	switch {
	case !s.alpha:
		compare = func(a, b sortable) int {
			switch {
			case a.score > b.score:
				return 1
			case a.score < b.score:
				return -1
			}
			return bytes.Compare(elems.At(a.index), elems.At(b.index))
		}
	case s.store:
		compare = func(a, b sortable) int { return byText(a, b, bytes.Compare) }
	default:
		compare = func(a, b sortable) int { return byText(a, b, compareCText) }
	}
	if s.descending {
		return func(a, b sortable) int { return -compare(a, b) }
	}
	return compare
}

// byText puts elements without a key of their own first.
func byText(a, b sortable, compare func(a, b []byte) int) int {
	switch {
	case a.found && b.found:
		return compare(a.text, b.text)
	case a.found:
		return 1
	case b.found:
		return -1
	}
	return 0
}

// compareCText compares as Redis does what it answers, as C's texts, which end
// with a zero byte; what it stores it compares whole.
func compareCText(a, b []byte) int { return bytes.Compare(command.CText(a), command.CText(b)) }

func (s *sorting) reply(c *command.Ctx, elems *command.Members, list []sortable) {
	var key []byte
	c.W.Array(len(list) * max(len(s.gets), 1))
	for i := range list {
		elem := elems.At(list[i].index)
		if len(s.gets) == 0 {
			c.W.Bulk(elem)
		}
		for j := range s.gets {
			if value, ok := s.gets[j].lookup(c.Tx, elem, &key); ok {
				c.W.Bulk(value)
			} else {
				c.W.Null()
			}
		}
	}
}

// storeResult stores the elements, or what is got for them: an empty text where
// there is nothing.
func (s *sorting) storeResult(c *command.Ctx, elems *command.Members, list []sortable) {
	var key []byte
	var out command.Members // gathered first: the destination may be a key that is read
	for i := range list {
		elem := elems.At(list[i].index)
		if len(s.gets) == 0 {
			out.Append(elem)
		}
		for j := range s.gets {
			value, _ := s.gets[j].lookup(c.Tx, elem, &key)
			out.Append(value)
		}
	}
	command.StoreList(c.Tx, s.destination, &out, "sortstore")
	c.W.Int(int64(out.Len()))
}
