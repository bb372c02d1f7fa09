package lualib

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// constantPrefix begins the text of string constants that stand for functions
// while a chunk is compiled. No script can know it.
var constantPrefix = "\x00" + rand.Text() + "\x00"

// chunkName is what gopher-lua puts in front of its errors.
const chunkName = "\x01"

// chunk is what errors need to know of compiled source.
type chunk struct {
	source string // as debug.getinfo has it: "@user_script"
	name   string // as errors print it: user_script
	sites  []site
}

// Program is compiled Lua. It is immutable and may run in any number of states.
type Program struct {
	proto *lua.FunctionProto
	// library is what the functions of a library become once it has been loaded; nil
	// for a script.
	library *lua.FunctionProto
}

// Compile compiles a script that errors call name, such as user_script. The
// error's text is that of Lua's compiler.
func Compile(name string, source []byte) (*Program, error) {
	proto, err := compile(string(source), "@"+name, foldAll)
	if err != nil {
		return nil, err
	}
	return &Program{proto: proto}, nil
}

// CompileLibrary compiles a library of functions, which Load runs once.
func CompileLibrary(name string, source []byte) (*Program, error) {
	proto, err := compile(string(source), "@"+name, foldNothing)
	if err != nil {
		return nil, err
	}
	library, err := compile(string(source), "@"+name, foldAll)
	if err != nil {
		return nil, err
	}
	return &Program{proto, library}, nil
}

// loaded makes the functions of a library what they are from now on. Both protos
// are of one source, so that they have the same functions and upvalues.
func loaded(p, library *lua.FunctionProto) {
	children := p.FunctionPrototypes
	for i, child := range library.FunctionPrototypes {
		loaded(children[i], child)
	}
	*p = *library
	p.FunctionPrototypes = children
}

// folding says which functions of libraries are constants where they are called by
// their names.
type folding int

const (
	foldAll folding = iota
	// foldNothing is for a library while it is loaded: it sees next to none of them.
	foldNothing
	// foldNotRedis is for what loadstring is given: redis is another table while a
	// library is loaded.
	foldNotRedis
)

// compile compiles source whose name is as loadstring takes it.
func compile(source, name string, fold folding) (*lua.FunctionProto, error) {
	c := &chunk{source: name, name: chunkID(name, maxIDBytes)}
	syntaxName := chunkID(name, maxSyntaxIDBytes)
	stmts, sites, err := parseChunk(source, syntaxName, func(path string) bool {
		if fold == foldNothing || fold == foldNotRedis && strings.HasPrefix(path, "redis.") {
			return false
		}
		return builtins[path] != nil
	})
	if err != nil {
		return nil, err
	}
	c.sites = sites
	proto, err := lua.Compile(stmts, chunkName)
	if err != nil || leaps(proto) {
		// What it refuses are functions with too many registers, and jumps too far.
		last := 1
		if len(sites) > 1 {
			last = sites[len(sites)-1].line
		}
		return nil, &syntaxError{fmt.Sprintf("%s:%d: %s", syntaxName, last, tooComplex)}
	}
	// Only functions within a chunk have the table arg; to make it costs more than a
	// short script.
	proto.IsVarArg &^= lua.VarArgNeedsArg
	finish(proto, &lua.LUserData{Value: c})
	return proto, nil
}

// maxJump is how many instructions a jump can leave out.
const maxJump = 1<<17 - 1

// leaps reports whether a function may have a numeric for whose body is too long to
// jump over: that is the one jump whose length the compiler does not check.
func leaps(p *lua.FunctionProto) bool {
	if len(p.Code) > maxJump && slices.ContainsFunc(p.Code, func(instruction uint32) bool { return int(instruction>>26) == lua.OP_FORPREP }) {
		return true
	}
	return slices.ContainsFunc(p.FunctionPrototypes, leaps)
}

// finish puts functions in the place of the constants that stand for them, and
// the chunk behind them all. The compiler leaves each function, however short, room for
// hundreds of instructions, which goes: scripts are kept.
func finish(p *lua.FunctionProto, c *lua.LUserData) {
	for i, v := range p.Constants {
		s, ok := v.(lua.LString)
		if path, is := strings.CutPrefix(string(s), constantPrefix); ok && is {
			p.Constants[i] = builtins[path]
		}
	}
	p.Constants = append(slices.Clip(p.Constants), c)
	p.Code, p.DbgSourcePositions, p.FunctionPrototypes = slices.Clone(p.Code), slices.Clone(p.DbgSourcePositions), slices.Clone(p.FunctionPrototypes)
	p.DbgLocals, p.DbgCalls, p.DbgUpvalues = slices.Clone(p.DbgLocals), slices.Clone(p.DbgCalls), slices.Clone(p.DbgUpvalues)
	for _, child := range p.FunctionPrototypes {
		finish(child, c)
	}
}

// chunkOf returns the chunk that a function of Lua is from.
func chunkOf(fn *lua.LFunction) *chunk {
	k := fn.Proto.Constants
	return k[len(k)-1].(*lua.LUserData).Value.(*chunk)
}

// How long the name of a chunk may be in errors, and in those of the compiler.
const (
	maxIDBytes       = 60
	maxSyntaxIDBytes = 80
)

// chunkID is a chunk's name as errors print it, in less than maxBytes.
func chunkID(source string, maxBytes int) string {
	switch {
	case strings.HasPrefix(source, "="):
		return source[1:min(len(source), maxBytes)]
	case strings.HasPrefix(source, "@"):
		source = source[1:]
		room := maxBytes - len(" '...' ") - 1
		if len(source) > room {
			return "..." + source[len(source)-room:]
		}
		return source
	}
	line, _, _ := strings.Cut(source, "\n")
	line, _, _ = strings.Cut(line, "\r")
	room := maxBytes - len(` [string "..."] `) - 1
	if len(line) > room {
		return `[string "` + line[:room] + `..."]`
	}
	if len(line) < len(source) {
		return `[string "` + line + `..."]`
	}
	return `[string "` + line + `"]`
}
