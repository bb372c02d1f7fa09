package ds

// Kind is the type of a value. The numbers are fixed: they may be stored.
type Kind uint8

// The kinds of values, as TYPE names them.
const (
	KindString Kind = 1
	KindList   Kind = 2
	KindSet    Kind = 3
	KindZSet   Kind = 4
	KindHash   Kind = 5
	KindStream Kind = 6
)

// String returns the name that TYPE replies.
func (k Kind) String() string {
	switch k {
	case KindString:
		return "string"
	case KindList:
		return "list"
	case KindSet:
		return "set"
	case KindZSet:
		return "zset"
	case KindHash:
		return "hash"
	case KindStream:
		return "stream"
	}
	return "none"
}

// Object is a collection that an entry holds instead of a string.
type Object interface {
	// Kind is the type of the collection.
	Kind() Kind
	// Len is the number of elements.
	Len() int
	// Encoding is the representation in the words of OBJECT ENCODING of Redis.
	Encoding() string
	// Fork returns a copy that shares structure with the original. Both may be written afterwards; each copies what it
	// is the first to write. Fork counts as a mutation for who may call it, but readers of the original in other
	// goroutines (walks of a frozen view) are not disturbed.
	Fork() Object
	// MemBytes estimates the memory that the collection takes, in bytes. It does not walk the collection.
	MemBytes() int
}

// Limits are the sizes up to which collections keep their compact encodings, by the settings of Redis 7.0 that have
// the same names. Conversion goes one way: a collection that has outgrown its compact encoding never returns to it.
type Limits struct {
	HashMaxListpackEntries int // fields
	HashMaxListpackValue   int // bytes of a field or of a value
	ZSetMaxListpackEntries int // members
	ZSetMaxListpackValue   int // bytes of a member
	SetMaxIntsetEntries    int // members
	ListMaxListpackSize    int // of one chunk of a list: elements if positive, -1 … -5 for 4, 8, 16, 32, 64 KiB
	StreamNodeMaxBytes     int // of one block of a stream; 0 is no limit
	StreamNodeMaxEntries   int // of one block of a stream, deleted ones included; 0 is no limit
}

// DefaultLimits returns the defaults of Redis 7.0.
func DefaultLimits() Limits {
	return Limits{
		HashMaxListpackEntries: 512,
		HashMaxListpackValue:   64,
		ZSetMaxListpackEntries: 128,
		ZSetMaxListpackValue:   64,
		SetMaxIntsetEntries:    512,
		ListMaxListpackSize:    -2,
		StreamNodeMaxBytes:     4096,
		StreamNodeMaxEntries:   100,
	}
}

// The names of OBJECT ENCODING that collections use.
const (
	encodingListpack   = "listpack"
	encodingListpackEx = "listpackex" // of Redis 7.4
	encodingHashtable  = "hashtable"
	encodingIntset     = "intset"
	encodingQuicklist  = "quicklist"
	encodingSkiplist   = "skiplist"
	encodingStream     = "stream"
)
