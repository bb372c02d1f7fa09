package script

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"kevy/internal/op"
	"kevy/internal/script/lualib"
	"kevy/resp"
	"kevy/shard"
)

// loadTimeout is how long loading a library may take.
const loadTimeout = 500 * time.Millisecond

// library is a library of functions that is loaded into the state for them.
type library struct {
	name      string
	code      []byte
	functions []*function
	bytes     int // that it takes beside its code
}

// function is a function of a library.
type function struct {
	*lualib.Function
	flags Flags
}

// libraries are those that the store keeps, loaded. They are used with every shard
// locked.
type libraries struct {
	state     *lualib.State // nil before the first library
	version   uint64        // of the store's libraries that these are
	byName    map[string]*library
	functions map[string]*function // by their names in lower case: FCALL knows no case
}

func noLibraries() libraries {
	return libraries{byName: map[string]*library{}, functions: map[string]*function{}}
}

// find returns the function that FCALL names, nil if there is none.
func (l *libraries) find(name []byte) *function {
	var lower [64]byte
	folded := lower[:0]
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		folded = append(folded, c)
	}
	return l.functions[string(folded)]
}

// sync makes the libraries those of the store, which others change too: recovery
// does, and DEBUG RELOAD.
func (f *Family) sync(tx *shard.Tx) *libraries {
	l := &f.libraries
	kept, version := tx.Libraries()
	if version == l.version {
		return l
	}
	old := l.byName
	l.byName, l.functions = map[string]*library{}, map[string]*function{}
	l.version = version
	for _, k := range kept {
		lib := old[k.Name]
		if lib == nil || !bytes.Equal(lib.code, k.Code) {
			var err *resp.Error
			if lib, err = f.build(l, k.Code); err != nil {
				// It was loaded once, by this program or by Redis: it stays, and has no functions.
				f.runner.LogScript(lualib.LogWarning, fmt.Sprintf("the library of functions %q cannot be loaded: %v", k.Name, err))
				lib = &library{name: k.Name, code: k.Code}
			}
		}
		l.put(lib)
	}
	f.count()
	return l
}

// close frees the state.
func (l *libraries) close() {
	if l.state != nil {
		l.state.Close()
	}
}

// countState notes what the state for functions takes.
func (f *Family) countState() {
	bytes := int64(0)
	if f.libraries.state != nil {
		bytes = lualib.StateBytes
	}
	f.functionsBytes.Store(bytes)
}

// count notes how many libraries and functions there are, and what they take.
func (f *Family) count() {
	f.countState()
	f.libraryCount.Store(int64(len(f.libraries.byName)))
	f.functionCount.Store(int64(len(f.libraries.functions)))
	total := 0
	for _, lib := range f.libraries.byName {
		total += lib.bytes
	}
	f.libraryBytes.Store(int64(total))
	readers := map[string]bool{}
	for name, fn := range f.libraries.functions {
		if fn.flags&NoWrites != 0 {
			readers[name] = true
		}
	}
	f.readers.Store(&readers)
}

// writesNothing reports whether FCALL of a function changes nothing. It is asked
// without a lock.
func (f *Family) writesNothing(args [][]byte) bool {
	readers := f.readers.Load()
	return readers != nil && (*readers)[strings.ToLower(string(args[1]))]
}

// Open loads the libraries that the store holds. tx holds every shard.
func (f *Family) Open(tx *shard.Tx) { f.sync(tx) }

func (l *libraries) put(lib *library) {
	l.remove(lib.name)
	l.byName[lib.name] = lib
	for _, fn := range lib.functions {
		l.functions[strings.ToLower(fn.Name)] = fn
	}
}

func (l *libraries) remove(name string) {
	lib := l.byName[name]
	if lib == nil {
		return
	}
	for _, fn := range lib.functions {
		delete(l.functions, strings.ToLower(fn.Name))
	}
	delete(l.byName, name)
}

// clash returns the name of a function of lib that another library than the one it
// replaces has; "" if there is none.
func (l *libraries) clash(lib *library) string {
	replaced := l.byName[lib.name]
	for _, fn := range lib.functions {
		other := l.functions[strings.ToLower(fn.Name)]
		if other == nil {
			continue
		}
		if replaced == nil || !replaced.has(other) {
			return fn.Name
		}
	}
	return ""
}

func (lib *library) has(fn *function) bool {
	for _, own := range lib.functions {
		if own == fn {
			return true
		}
	}
	return false
}

// build compiles a library and lets it register its functions, in the state of l.
func (f *Family) build(l *libraries, code []byte) (*library, *resp.Error) {
	name, body, err := libraryHead(code)
	if err != nil {
		return nil, err
	}
	program, failed := lualib.CompileLibrary("user_function", body)
	if failed != nil {
		return nil, resp.Errorf("ERR", "Error compiling function: %v", failed)
	}
	lib := &library{name: name, code: bytes.Clone(code), bytes: scriptBytes + program.Bytes()}
	if l.state == nil {
		l.state = lualib.NewFunctions()
		f.countState()
	}
	loaded, failed := l.state.Load(program, &loader{f.runner, time.Now().Add(loadTimeout)}, func(fn *lualib.Function) *resp.Error {
		if !validName(fn.Name) {
			return errName
		}
		flags, ok := flagsNamed(fn.Flags)
		if !ok {
			return errFlag
		}
		lib.functions = append(lib.functions, &function{fn, flags})
		return nil
	})
	if failed != nil {
		return nil, resp.Errorf("ERR", "Error registering functions: %v", failed)
	}
	if len(loaded) == 0 {
		return nil, resp.Errorf("ERR", "No functions registered")
	}
	return lib, nil
}

var (
	errName = resp.Errorf("ERR", "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long")
	errFlag = resp.Errorf("ERR", "unknown flag given")
)

func flagsNamed(names []string) (flags Flags, ok bool) {
	for _, n := range names {
		f := flagNamed(n)
		if f == 0 {
			return 0, false
		}
		flags |= f
	}
	return flags, true
}

// validName reports whether a library or a function may have that name.
func validName(name string) bool {
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' {
			return false
		}
	}
	return name != ""
}

// libraryHead reads the first line of a library. body is the rest, its line end
// included.
func libraryHead(code []byte) (name string, body []byte, _ *resp.Error) {
	if !bytes.HasPrefix(code, []byte("#!")) {
		return "", nil, resp.Errorf("ERR", "Missing library metadata")
	}
	end := bytes.IndexByte(code, '\n')
	if end < 0 || bytes.IndexByte(code[:end], 0) >= 0 {
		return "", nil, resp.Errorf("ERR", "Invalid library metadata")
	}
	parts, ok := op.Words(string(code[:end]))
	if !ok {
		return "", nil, resp.Errorf("ERR", "Invalid library metadata")
	}
	named := false
	for _, part := range parts[1:] {
		switch {
		case len(part) < 5 || !strings.EqualFold(part[:5], "name="):
			return "", nil, resp.Errorf("ERR", "Invalid metadata value given: %s", part)
		case named:
			return "", nil, resp.Errorf("ERR", "Invalid metadata value, name argument was given multiple times")
		}
		name, named = part[5:], true
	}
	switch {
	case !named:
		return "", nil, resp.Errorf("ERR", "Library name was not given")
	case !validName(name):
		return "", nil, errName
	case !strings.EqualFold(parts[0], "#!lua"):
		return "", nil, resp.Errorf("ERR", "Engine '%s' not found", parts[0][2:])
	}
	return name, code[end:], nil
}

// loader is the host of a library that is being loaded.
type loader struct {
	runner Runner
	until  time.Time
}

func (*loader) Call([][]byte, int) []byte {
	return []byte("-ERR no command can be called while a library is loaded\r\n")
}
func (l *loader) Log(level int, text string)    { l.runner.LogScript(level, text) }
func (*loader) Permitted([][]byte) (bool, bool) { return false, false }
func (l *loader) Tick() error {
	if time.Now().After(l.until) {
		return errLoadTimeout
	}
	return nil
}

var errLoadTimeout = resp.Errorf("ERR", "FUNCTION LOAD timeout")
