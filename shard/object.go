package shard

import (
	"kevy/internal/ds"
)

// view returns the collection that the key holds for reading: the zero T if
// there is no key, ErrWrongType if it holds something else.
func view[T ds.Object](tx *Tx, key []byte) (o T, err error) {
	e := tx.lookup(key)
	if e == nil {
		tx.missed(key)
		return o, nil
	}
	tx.hits++
	o, ok := e.Object().(T)
	if !ok {
		return o, ErrWrongType
	}
	tx.used(e)
	return o, nil
}

// writable returns the collection that the key holds for changing. A missing
// key gets the one that create makes, or, with a nil create, yields the zero T.
func writable[T ds.Object](tx *Tx, sh *Shard, d *database, key []byte, create func() T) (o T, err error) {
	e := tx.lookup(key)
	if e == nil {
		if create == nil {
			return o, nil
		}
		tx.save(sh, key)
		o = create()
		tx.used(d.keys.PutObject(key, o))
		tx.created(key)
		return o, nil
	}
	if _, ok := e.Object().(T); !ok {
		return o, ErrWrongType
	}
	tx.save(sh, key)
	e = d.keys.Mutable(key)
	tx.used(e)
	return e.Object().(T), nil
}

// dropIfEmpty removes a key whose collection lost its last element: as in
// Redis, that needs no op of its own.
func (d *database) dropIfEmpty(key []byte, o ds.Object) {
	if o.Len() == 0 {
		d.drop(key)
	}
}
