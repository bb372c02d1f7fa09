package rdb

import (
	"math"
	"strconv"

	"kevy/internal/command"
	"kevy/internal/ds"
	"kevy/shard"
)

// decoder builds values of their encoded bytes. A collection is built whole, so
// that a value with a fault in it is never seen.
type decoder struct {
	src    *source
	limits *ds.Limits

	text []byte // scratch of text: a number, or what was compressed
	kept []byte // scratch of keep

	block blockItems // scratch of streamBlock
	entry [][]byte   // scratch of streamEntry
}

// str reads a string. It is valid until the next one is read.
func (d *decoder) str() ([]byte, error) {
	n, special, err := d.src.number()
	if err != nil {
		return nil, err
	}
	if !special {
		if n > maxTextBytes {
			return nil, damaged("a string of %d bytes is longer than can be", n)
		}
		return d.src.take(n)
	}
	switch n {
	case encInt8, encInt16, encInt32:
		b, err := d.src.take(1 << n)
		if err != nil {
			return nil, err
		}
		d.text = strconv.AppendInt(d.text[:0], littleEndian(b), 10)
		return d.text, nil
	case encLZF:
		return d.compressed()
	}
	return nil, damaged("a string has the unknown encoding %d", n)
}

func (d *decoder) compressed() ([]byte, error) {
	packed, err := d.src.length()
	if err != nil {
		return nil, err
	}
	size, err := d.src.length()
	if err != nil {
		return nil, err
	}
	if packed > maxTextBytes || size > maxTextBytes || size > uint64(maxInflated(int(packed))) {
		return nil, damaged("a string of %d bytes cannot be compressed to %d", size, packed)
	}
	b, err := d.src.take(packed)
	if err != nil {
		return nil, err
	}
	if cap(d.text) < int(size) || cap(d.text) > keptBytes {
		d.text = make([]byte, 0, size)
	}
	d.text, err = decompress(d.text[:0], b, int(size))
	return d.text, err
}

// keep copies a string that must outlive the next one.
func (d *decoder) keep(b []byte) []byte {
	if cap(d.kept) > keptBytes {
		d.kept = nil
	}
	d.kept = append(d.kept[:0], b...)
	return d.kept
}

// value reads a value of a type. What it returns of a string is valid until the
// next read. errEmpty answers a collection without elements.
func (d *decoder) value(typ byte) (v shard.Value, err error) {
	if typ == typeString {
		v.Text, err = d.str()
		return v, err
	}
	o, err := d.object(typ)
	if err == nil && o.Len() == 0 && o.Kind() != ds.KindStream {
		err = errEmpty
	}
	return shard.Value{Object: o}, err
}

func (d *decoder) object(typ byte) (ds.Object, error) {
	switch typ {
	case typeList, typeListZiplist, typeListQuicklist, typeListQuicklist2:
		l := ds.NewList()
		l.SetLimits(d.limits)
		return l, d.list(typ, l)
	case typeSet, typeSetIntset, typeSetListpack:
		s := ds.NewSet()
		return s, d.set(typ, s)
	case typeZSet, typeZSet2, typeZSetZiplist, typeZSetListpack:
		z := ds.NewZSet()
		return z, d.zset(typ, z)
	case typeHash, typeHashZipmap, typeHashZiplist, typeHashListpack:
		h := ds.NewHash()
		return h, d.hash(typ, h)
	case typeHashExpiry, typeHashExpiryPreGA, typeHashListpackEx, typeHashListpackPre:
		h := ds.NewHash()
		return h, d.expiringHash(typ, h)
	case typeStream, typeStream2, typeStream3:
		s := ds.NewStream()
		return s, d.stream(typ, s)
	case typeModule2:
		id, err := d.src.length()
		if err != nil {
			return nil, err
		}
		return nil, moduleValue(id)
	case typeModulePreGA:
		return nil, &Unsupported{What: "a value of a Redis module, written by a release candidate of Redis 4", Advice: "delete the key there"}
	}
	return nil, damaged("there is no type %d of values", typ)
}

func moduleValue(id uint64) error {
	return &Unsupported{
		What:   "a value of the Redis module type " + moduleName(id),
		Advice: "there are no modules here; delete the key there, or store it as a type of Redis's own",
	}
}

// packed reads a packed encoding and calls fn for each of its elements.
func (d *decoder) packed(each func(b []byte, fn func(item []byte) error) error, fn func(item []byte) error) error {
	b, err := d.str()
	if err != nil {
		return err
	}
	return each(b, fn)
}

// elements reads a number and calls fn so many times; each call reads at least a
// byte, so that a number that is too large ends with the bytes.
func (d *decoder) elements(fn func() error) error {
	n, err := d.src.length()
	for ; n > 0 && err == nil; n-- {
		err = fn()
	}
	return err
}

func (d *decoder) list(typ byte, l *ds.List) error {
	push := func(item []byte) error {
		l.PushBack(item)
		return nil
	}
	switch typ {
	case typeListZiplist:
		return d.packed(eachZiplist, push)
	case typeListQuicklist:
		return d.elements(func() error { return d.packed(eachZiplist, push) })
	}
	return d.elements(func() error {
		if typ == typeListQuicklist2 {
			container, err := d.src.length()
			switch {
			case err != nil:
				return err
			case container == nodePacked:
				return d.packed(eachListpack, push)
			case container != nodePlain:
				return damaged("a list has nodes of the unknown kind %d", container)
			}
		}
		item, err := d.str()
		if err == nil {
			l.PushBack(item)
		}
		return err
	})
}

func (d *decoder) set(typ byte, s *ds.Set) error {
	add := func(member []byte) error {
		if !s.Add(member, d.limits) {
			return damaged("a set holds a member twice")
		}
		return nil
	}
	switch typ {
	case typeSetListpack:
		return d.packed(eachListpack, add)
	case typeSetIntset:
		b, err := d.str()
		if err != nil {
			return err
		}
		return eachInt(b, func(v int64) error {
			var text [20]byte
			return add(strconv.AppendInt(text[:0], v, 10))
		})
	}
	return d.elements(func() error {
		member, err := d.str()
		if err != nil {
			return err
		}
		return add(member)
	})
}

func (d *decoder) zset(typ byte, z *ds.ZSet) error {
	add := func(member []byte, score float64) error {
		if score != score {
			return damaged("a member of a sorted set has no number as its score")
		}
		if score == 0 {
			score = 0 // -0 is the same score and another number
		}
		if !z.Set(member, score, d.limits) {
			return damaged("a sorted set holds a member twice")
		}
		return nil
	}
	switch typ {
	case typeZSetListpack, typeZSetZiplist:
		each := eachListpack
		if typ == typeZSetZiplist {
			each = eachZiplist
		}
		return d.pairs(each, func(member, text []byte) error {
			score, ok := command.ParseFloatClamped(text)
			if !ok {
				return damaged("a member of a sorted set has no number as its score")
			}
			return add(member, score)
		})
	}
	return d.elements(func() error {
		member, err := d.str()
		if err != nil {
			return err
		}
		member = d.keep(member)
		score, err := d.score(typ)
		if err != nil {
			return err
		}
		return add(member, score)
	})
}

// score reads the score of a sorted set that is not packed: eight bytes, or, as
// it was before Redis 4, text behind one byte with its length, of which the
// largest stand for what is no number and the infinities.
func (d *decoder) score(typ byte) (float64, error) {
	if typ == typeZSet2 {
		bits, err := d.src.uint64LE()
		return math.Float64frombits(bits), err
	}
	n, err := d.src.byte()
	if err != nil {
		return 0, err
	}
	switch n {
	case 255:
		return math.Inf(-1), nil
	case 254:
		return math.Inf(1), nil
	case 253:
		return math.NaN(), nil
	}
	text, err := d.src.take(uint64(n))
	if err != nil {
		return 0, err
	}
	score, ok := command.ParseFloatClamped(text)
	if !ok {
		return 0, damaged("a member of a sorted set has no number as its score")
	}
	return score, nil
}

// pairs reads a packed encoding whose elements come in twos.
func (d *decoder) pairs(each func(b []byte, fn func(item []byte) error) error, fn func(a, b []byte) error) error {
	var first []byte
	odd := false
	err := d.packed(each, func(item []byte) error {
		if odd = !odd; odd {
			first = d.keep(item) // an integer's text is gone with the next one
			return nil
		}
		return fn(first, item)
	})
	if err == nil && odd {
		return damaged("the last element has no partner")
	}
	return err
}

func (d *decoder) hash(typ byte, h *ds.Hash) error {
	add := func(field, value []byte) error {
		if !h.Set(field, value, d.limits) {
			return damaged("a hash holds a field twice")
		}
		return nil
	}
	switch typ {
	case typeHashZipmap:
		return d.pairs(eachZipmap, add)
	case typeHashZiplist:
		return d.pairs(eachZiplist, add)
	case typeHashListpack:
		return d.pairs(eachListpack, add)
	}
	return d.elements(func() error {
		field, value, err := d.field()
		if err != nil {
			return err
		}
		return add(field, value)
	})
}

// field reads the name and the value of a field. They are valid until the next
// read.
func (d *decoder) field() (name, value []byte, err error) {
	if name, err = d.str(); err != nil {
		return nil, nil, err
	}
	name = d.keep(name)
	value, err = d.str()
	return name, value, err
}

// expiringHash reads a hash whose fields have deadlines, 0 for none. Those of a
// packed one are its third elements; otherwise they stand before the field and,
// but in the release candidates of Redis 7.4, count from the earliest one, which
// comes first and has number 1.
func (d *decoder) expiringHash(typ byte, h *ds.Hash) error {
	var earliest uint64
	if typ == typeHashExpiry || typ == typeHashListpackEx {
		var err error
		if earliest, err = d.src.uint64LE(); err != nil {
			return err
		}
	}
	add := func(field, value []byte, at uint64) error {
		if at > shard.MaxFieldDeadlineMs {
			return damaged("a field of a hash expires at %d, which is no time", at)
		}
		if !h.Set(field, value, d.limits) {
			return damaged("a hash holds a field twice")
		}
		if at != 0 {
			h.SetDeadline(field, int64(at))
		}
		return nil
	}
	if typ == typeHashListpackEx || typ == typeHashListpackPre {
		return d.expiringListpack(add)
	}
	return d.elements(func() error {
		at, err := d.src.length()
		if err != nil {
			return err
		}
		if typ == typeHashExpiry && at != 0 {
			if earliest > shard.MaxFieldDeadlineMs || at > shard.MaxFieldDeadlineMs {
				return damaged("a field of a hash expires %d ms after %d, which is no time", at, earliest)
			}
			at += earliest - 1
		}
		field, value, err := d.field()
		if err != nil {
			return err
		}
		return add(field, value, at)
	})
}

// expiringListpack reads fields, values and deadlines one after another.
func (d *decoder) expiringListpack(add func(field, value []byte, at uint64) error) error {
	var field, value []byte
	n := 0
	err := d.packed(eachListpack, func(item []byte) error {
		n++
		switch n % 3 {
		case 1:
			field = d.keep(item)
			return nil
		case 2:
			value = append(value[:0], item...)
			return nil
		}
		at, ok := parseInt(item)
		if !ok || at < 0 {
			return damaged("the deadline of a field is no time")
		}
		return add(field, value, uint64(at))
	})
	if err == nil && n%3 != 0 {
		return damaged("the last field has no deadline")
	}
	return err
}

// moduleName returns the name that a module type has in its number: nine
// characters of six bits each, above ten bits of a version.
func moduleName(id uint64) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var name [9]byte
	for i := len(name) - 1; i >= 0; i-- {
		name[i] = letters[id>>(10+6*(len(name)-1-i))&63]
	}
	return string(name[:])
}

// skipModule reads over what a module wrote: numbers and strings, each behind
// its kind, until one that ends them.
func (d *decoder) skipModule() error {
	for {
		kind, err := d.src.length()
		if err != nil {
			return err
		}
		switch kind {
		case 0:
			return nil
		case 1, 2: // integers
			_, err = d.src.length()
		case 3: // a float
			_, err = d.src.take(4)
		case 4: // a double
			_, err = d.src.take(8)
		case 5:
			_, err = d.str()
		default:
			err = damaged("a module's value has a part of the unknown kind %d", kind)
		}
		if err != nil {
			return err
		}
	}
}

// parseInt reads the text of an integer in its one canonical form.
func parseInt(b []byte) (int64, bool) { return command.ParseInt(b) }
