package main

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"kevy/changes"
)

// value is what a key holds: one of the fields is set.
type value struct {
	expireMs int64 // Unix milliseconds, 0 if never
	str      []byte
	hash     map[string]*field
	list     [][]byte
	set      map[string]struct{}
	zset     map[string]float64
}

type field struct {
	value    []byte
	expireMs int64
}

// apply does what an op says. mu is held. Keys and fields are never removed by
// this program's clock: the server sends a DEL or an HDEL.
func (m *mirror) apply(args [][]byte) error {
	op, err := changes.DecodeOp(args)
	if err != nil {
		return err
	}
	switch op := op.(type) {
	case changes.Set:
		v := &value{str: op.Value}
		if old := m.keys[string(op.Key)]; op.KeepTTL && old != nil {
			v.expireMs = old.expireMs
		} else if !op.Deadline.IsZero() {
			v.expireMs = op.Deadline.UnixMilli()
		}
		m.keys[string(op.Key)] = v
	case changes.SetRange:
		v := m.key(op.Key)
		if end := int(op.Offset) + len(op.Bytes); end > len(v.str) {
			v.str = append(slices.Clip(v.str), make([]byte, end-len(v.str))...)
		}
		copy(v.str[op.Offset:], op.Bytes)
	case changes.Del:
		delete(m.keys, string(op.Key))
	case changes.PExpireAt:
		m.key(op.Key).expireMs = op.Deadline.UnixMilli()
	case changes.Persist:
		m.key(op.Key).expireMs = 0
	case changes.FlushDB, changes.FlushAll:
		clear(m.keys)
	case changes.HSet, changes.HDel, changes.HPExpireAt, changes.HPersist:
		m.applyHash(op)
	case changes.SAdd:
		for _, e := range op.Members {
			m.key(op.Key).addMember(string(e))
		}
	case changes.SRem:
		for _, e := range op.Members {
			delete(m.key(op.Key).set, string(e))
		}
		m.dropEmpty(op.Key)
	case changes.ZAdd:
		for _, e := range op.Members {
			m.key(op.Key).score(string(e.Member), e.Score)
		}
	case changes.ZRem:
		for _, e := range op.Members {
			delete(m.key(op.Key).zset, string(e))
		}
		m.dropEmpty(op.Key)
	default:
		return m.applyList(op)
	}
	return nil
}

// key returns what a key holds, a new value if it is not there.
func (m *mirror) key(key []byte) *value {
	v := m.keys[string(key)]
	if v == nil {
		v = &value{}
		m.keys[string(key)] = v
	}
	return v
}

// dropEmpty removes a collection whose last element has gone.
func (m *mirror) dropEmpty(key []byte) {
	if v := m.keys[string(key)]; len(v.hash)+len(v.list)+len(v.set)+len(v.zset) == 0 {
		delete(m.keys, string(key))
	}
}

func (v *value) addMember(member string) {
	if v.set == nil {
		v.set = map[string]struct{}{}
	}
	v.set[member] = struct{}{}
}

func (v *value) score(member string, score float64) {
	if v.zset == nil {
		v.zset = map[string]float64{}
	}
	v.zset[member] = score
}

func (m *mirror) applyHash(op changes.Op) {
	deadline := func(key []byte, fields [][]byte, ms int64) {
		for _, name := range fields {
			if f := m.key(key).hash[string(name)]; f != nil {
				f.expireMs = ms
			}
		}
	}
	switch op := op.(type) {
	case changes.HSet:
		v := m.key(op.Key)
		if v.hash == nil {
			v.hash = map[string]*field{}
		}
		for _, f := range op.Fields {
			v.hash[string(f.Field)] = &field{value: f.Value}
		}
	case changes.HDel:
		for _, f := range op.Fields {
			delete(m.key(op.Key).hash, string(f))
		}
		m.dropEmpty(op.Key)
	case changes.HPExpireAt:
		deadline(op.Key, op.Fields, op.Deadline.UnixMilli())
	case changes.HPersist:
		deadline(op.Key, op.Fields, 0)
	}
}

func (m *mirror) applyList(op changes.Op) error {
	var key []byte
	switch op := op.(type) {
	case changes.LPush:
		key = op.Key
		for _, e := range op.Elements {
			m.key(key).list = slices.Insert(m.key(key).list, 0, e)
		}
	case changes.RPush:
		key = op.Key
		m.key(key).list = append(m.key(key).list, op.Elements...)
	case changes.LPop:
		key = op.Key
		m.key(key).list = m.key(key).list[min(op.Count, int64(len(m.key(key).list))):]
	case changes.RPop:
		key = op.Key
		l := m.key(key).list
		m.key(key).list = l[:max(int64(len(l))-op.Count, 0)]
	case changes.LSet:
		key = op.Key
		l := m.key(key).list
		l[fromEnd(op.Index, len(l))] = op.Element
	case changes.LInsert:
		key = op.Key
		l := m.key(key).list
		if i := slices.IndexFunc(l, func(e []byte) bool { return bytes.Equal(e, op.Pivot) }); i >= 0 {
			if !op.Before {
				i++
			}
			m.key(key).list = slices.Insert(l, i, op.Element)
		}
	case changes.LRem:
		key = op.Key
		m.key(key).list = without(m.key(key).list, op.Element, op.Count)
	case changes.LTrim:
		key = op.Key
		l := m.key(key).list
		start, stop := max(fromEnd(op.Start, len(l)), 0), min(fromEnd(op.Stop, len(l))+1, len(l))
		m.key(key).list = l[min(start, len(l)):max(stop, min(start, len(l)))]
	default:
		return fmt.Errorf("this mirror does not copy %s", op.Verb())
	}
	m.dropEmpty(key)
	return nil
}

// fromEnd returns an index that may count from the end as one that does not.
func fromEnd(i int64, n int) int {
	if i < 0 {
		i += int64(n)
	}
	return int(i)
}

// without removes elements equal to e: the first count, the last if it is
// negative, all if it is 0.
func without(list [][]byte, e []byte, count int64) [][]byte {
	if count < 0 {
		slices.Reverse(list)
		list = without(list, e, -count)
		slices.Reverse(list)
		return list
	}
	n := int64(0)
	return slices.DeleteFunc(list, func(other []byte) bool {
		if (count > 0 && n == count) || !bytes.Equal(other, e) {
			return false
		}
		n++
		return true
	})
}

// digest returns what the key adds to the digest.
func (v *value) digest(key []byte) changes.KeyDigest {
	switch {
	case v.hash != nil:
		return changes.HashDigest(key, func(yield func(changes.HashField) bool) {
			for name, f := range v.hash {
				if !yield(changes.HashField{Name: []byte(name), Value: f.value, ExpireMs: f.expireMs}) {
					return
				}
			}
		}, v.expireMs)
	case v.list != nil:
		return changes.ListDigest(key, slices.Values(v.list), v.expireMs)
	case v.set != nil:
		return changes.SetDigest(key, iter.Seq[[]byte](func(yield func([]byte) bool) {
			for e := range v.set {
				if !yield([]byte(e)) {
					return
				}
			}
		}), v.expireMs)
	case v.zset != nil:
		return changes.SortedSetDigest(key, func(yield func([]byte, float64) bool) {
			for e, score := range v.zset {
				if !yield([]byte(e), score) {
					return
				}
			}
		}, v.expireMs)
	}
	return changes.StringDigest(key, v.str, v.expireMs)
}
