package exec

import (
	"fmt"
	"runtime"
	"runtime/metrics"

	"kevy/resp"
)

const (
	// maxScriptBytes is by how much the heap may grow while a script runs, beyond
	// what its own writes account for: what it keeps in Lua.
	maxScriptBytes = 512 << 20
	// looksPerMeasure is after how many looks the heap is measured, which takes a
	// microsecond, and measureBytes after how many bytes of replies at the latest.
	looksPerMeasure = 16
	measureBytes    = 32 << 20
	// A write is taken to need so many bytes for each byte of its arguments, and so
	// many besides.
	bytesPerWritten = 4
	bytesPerWrite   = 1 << 10
)

// scriptMemory bounds what a script keeps in memory. Lua's own values cannot be
// counted one by one; but while a script runs nobody else changes the store, so
// that the heap's growth is its own.
type scriptMemory struct {
	looks int
	taken int64 // bytes of replies since the last measure
	may   int64 // the size of the heap at which the script is looked at in earnest
	bound int64 // what of it may be alive then
}

// took notes a reply that was handed to the script.
func (m *scriptMemory) took(bytes int) { m.taken += int64(bytes) }

// grows notes a write, which makes the store itself larger.
func (m *scriptMemory) grows(args [][]byte) {
	n := int64(bytesPerWrite)
	for _, a := range args {
		n += bytesPerWritten * int64(len(a))
	}
	m.may += n
	m.bound += n
}

// due reports whether the heap should be measured at once.
func (m *scriptMemory) due() bool { return m.taken >= measureBytes }

// look measures the heap once in a while and says whether the script has taken
// too much.
func (m *scriptMemory) look() error {
	m.looks++
	if m.looks%looksPerMeasure != 1 && !m.due() {
		return nil
	}
	m.taken = 0
	size := heapBytes()
	if m.looks == 1 {
		m.may += size + maxScriptBytes
		m.bound = m.may
		return nil
	}
	if size < m.may {
		return nil
	}
	// Much of it may be garbage, which only a collection tells.
	runtime.GC()
	if size = heapBytes(); size >= m.bound {
		return &resp.Error{Code: "ERR", Text: fmt.Sprintf("the script takes more than %d bytes of memory", int64(maxScriptBytes))}
	}
	m.may = max(m.may, size+maxScriptBytes)
	return nil
}

// heapBytes returns what the heap's objects take, garbage included that has not
// been found yet.
func heapBytes() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
