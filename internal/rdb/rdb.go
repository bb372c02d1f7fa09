// Package rdb is Redis's own binary format: the files that SAVE and BGSAVE
// write, and the payloads of DUMP and RESTORE.
//
// It reads every encoding of the versions 1 to 12 (Redis 8.0) and writes the
// lowest version that holds a value: 10, which Redis 7.0 reads, and 12 for a hash
// whose fields expire. Every value is taken apart to its last byte, so what is
// damaged is found here and not by a command later. The format is that of
// redis-server 7.0.15 and 7.4; Redis documents it in its own source (rdb.c,
// listpack.c, ziplist.c, zipmap.c, intset.c) and, for the listpack, in
// github.com/antirez/listpack.
package rdb

import (
	"errors"
	"fmt"

	"kevy/internal/ds"
)

// Versions of the format.
const (
	// MaxVersion is the newest version that is read.
	MaxVersion = 12
	// version is what everything is written in that Redis 7.0 knows.
	version = 10
	// fieldExpiryVersion is what a hash is written in whose fields expire.
	fieldExpiryVersion = 12
	// checksumVersion is the first one whose files end with a checksum.
	checksumVersion = 5
)

// Types of values. The numbers are on disk.
const (
	typeString          = 0
	typeList            = 1
	typeSet             = 2
	typeZSet            = 3
	typeHash            = 4
	typeZSet2           = 5
	typeModulePreGA     = 6
	typeModule2         = 7
	typeHashZipmap      = 9
	typeListZiplist     = 10
	typeSetIntset       = 11
	typeZSetZiplist     = 12
	typeHashZiplist     = 13
	typeListQuicklist   = 14
	typeStream          = 15
	typeHashListpack    = 16
	typeZSetListpack    = 17
	typeListQuicklist2  = 18
	typeStream2         = 19
	typeSetListpack     = 20
	typeStream3         = 21
	typeHashExpiryPreGA = 22
	typeHashListpackPre = 23
	typeHashExpiry      = 24
	typeHashListpackEx  = 25
)

// Opcodes that stand in a file where a type could.
const (
	opSlotInfo      = 244
	opFunction      = 245
	opFunctionPreGA = 246
	opModuleAux     = 247
	opIdle          = 248
	opFreq          = 249
	opAux           = 250
	opResizeDB      = 251
	opExpireMs      = 252
	opExpireSec     = 253
	opSelectDB      = 254
	opEOF           = 255
)

// Encodings of strings: the low bits of a length whose top two bits are set.
const (
	encInt8  = 0
	encInt16 = 1
	encInt32 = 2
	encLZF   = 3
)

// Containers of the nodes of a list.
const (
	nodePlain  = 1
	nodePacked = 2
)

// maxTextBytes is the longest string, key or packed node that is read.
const maxTextBytes = ds.MaxValueBytes

// errEmpty says that a collection has no element. Such a key cannot be; old
// versions of Redis could write one.
var errEmpty = errors.New("the value is empty")

// damage says what of the encoded bytes is not right.
type damage struct{ reason string }

func (d *damage) Error() string { return d.reason }

func damaged(format string, args ...any) error {
	return &damage{reason: fmt.Sprintf(format, args...)}
}

// IsDamage reports whether an error says that encoded bytes are not right,
// rather than that they could not be read or held.
func IsDamage(err error) bool {
	var d *damage
	return errors.As(err, &d) || errors.Is(err, errEmpty)
}

// Unsupported is an error about something that the format holds and a store of
// ours does not.
type Unsupported struct {
	What   string
	Advice string // what the owner of the data can do
}

func (u *Unsupported) Error() string { return u.What + ": " + u.Advice }
