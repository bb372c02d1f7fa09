package shard

import (
	"bytes"
	"fmt"
	"slices"

	"kevy/internal/op"
)

// Library is a library of functions: code that is kept, in the log too, and that
// others run. Nothing here looks into it beyond its name.
type Library struct {
	Name string
	Code []byte // nobody changes it
}

// libraries are a store's, guarded by the locks of all shards together: who holds
// one of them may read, who holds all may change.
type libraries struct {
	byName []Library // in the order of their names
	// version changes whenever they do.
	version uint64
}

func (l *libraries) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(l.byName, name, func(x Library, name string) int { return bytes.Compare([]byte(x.Name), []byte(name)) })
}

// Libraries returns the libraries by name, and a number that changes whenever they
// do. The slice is never changed; the Tx holds a shard.
func (tx *Tx) Libraries() (libs []Library, version uint64) {
	return tx.set.functions.byName, tx.set.functions.version
}

// LoadLibrary keeps a library, in the place of one of the same name (op FUNCTION
// LOAD REPLACE). The name is that in its first line. code is copied. All shards
// must be held.
func (tx *Tx) LoadLibrary(code []byte) error {
	tx.mustHoldAll()
	name, err := op.LibraryName(code)
	if err != nil {
		return err
	}
	tx.recordFunction(4, "LOAD")
	if !tx.replay {
		tx.commit.ArgString("REPLACE")
		tx.commit.Arg(code)
		tx.commit.End()
	}
	l := &tx.set.functions
	lib := Library{Name: string(name), Code: bytes.Clone(code)}
	at, found := l.find(lib.Name)
	l.byName = slices.Clone(l.byName)
	if found {
		l.byName[at] = lib
	} else {
		l.byName = slices.Insert(l.byName, at, lib)
	}
	l.version++
	return nil
}

// DeleteLibrary removes a library (op FUNCTION DELETE) and reports whether there
// was one. All shards must be held.
func (tx *Tx) DeleteLibrary(name string) bool {
	tx.mustHoldAll()
	l := &tx.set.functions
	at, found := l.find(name)
	if !found {
		return false
	}
	tx.recordFunction(3, "DELETE")
	if !tx.replay {
		tx.commit.ArgString(name)
		tx.commit.End()
	}
	l.byName = slices.Delete(slices.Clone(l.byName), at, at+1)
	l.version++
	return true
}

// FlushLibraries removes all libraries (op FUNCTION FLUSH). All shards must be
// held.
func (tx *Tx) FlushLibraries() {
	tx.mustHoldAll()
	tx.recordFunction(2, "FLUSH")
	if !tx.replay {
		tx.commit.End()
	}
	tx.set.functions.byName = nil
	tx.set.functions.version++
}

// recordFunction begins the op of a change of libraries with n arguments.
func (tx *Tx) recordFunction(n int, what string) {
	if tx.replay {
		return
	}
	tx.commit.Begin(op.Function, tx.db, op.EveryStream, tx.cause, n)
	tx.commit.ArgString(what)
}

// applyFunction is apply for the op FUNCTION.
func (tx *Tx) applyFunction(args [][]byte) error {
	switch what := string(args[1]); {
	case what == "LOAD" && len(args) == 4 && string(args[2]) == "REPLACE":
		return tx.LoadLibrary(args[3])
	case what == "DELETE" && len(args) == 3:
		tx.DeleteLibrary(string(args[2]))
	case what == "FLUSH" && len(args) == 2:
		tx.FlushLibraries()
	default:
		return fmt.Errorf("FUNCTION %.64q with %d arguments", what, len(args))
	}
	return nil
}

// RebuildLibrary records the op that brings a library back.
func RebuildLibrary(c *op.Commit, lib Library) {
	c.Begin(op.Function, 0, op.EveryStream, op.User, 4)
	c.ArgString("LOAD")
	c.ArgString("REPLACE")
	c.Arg(lib.Code)
	c.End()
}
