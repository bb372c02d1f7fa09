package lualib

import (
	"fmt"
	"strconv"
)

// Limits of Lua 5.1's compiler.
const (
	maxLocals   = 200 // local variables of a function
	maxUpvalues = 60  // variables of enclosing functions that a function uses
	maxLevels   = 200 // of syntax within each other
)

// Limits of our own, which keep a chunk from taking all of the stack, the memory or
// the time: gopher-lua's compiler goes down a tree that is as deep as a chain is
// long, and looks for constants, variables and what can be folded one by one.
const (
	maxTokens = 1 << 20 // of a chunk
	// maxInRow is how many operators, fields, calls or elseifs may follow one another.
	maxInRow = 1000
	// maxCompileSteps bounds what the compiler looks at, one by one.
	maxCompileSteps = 1 << 27
)

// steps notes what the compiler will look at.
func (p *parser) steps(n int) {
	p.compileSteps += n
	if p.compileSteps > maxCompileSteps {
		p.fail(tooComplex, "", false)
	}
}

// tooComplex is what Lua says of functions that have too many registers.
const tooComplex = "function or expression too complex"

// constant notes the use of a constant, for which the compiler looks through those
// that the function has.
func (p *parser) constant(v any) {
	at, ok := p.fn.constants[v]
	if !ok {
		at = len(p.fn.constants)
		p.fn.constants[v] = at
	}
	p.steps(at)
}

// nameKind is what an expression is called by in errors.
type nameKind uint8

const (
	noName nameKind = iota
	localName
	upvalueName
	globalName
	fieldName
	methodName
)

var nameKinds = [...]string{"", "local", "upvalue", "global", "field", "method"}

// named is the name of a value that an operation works on, if it has one.
type named struct {
	kind nameKind
	name string
}

// siteKind is what an instruction does.
type siteKind uint8

const (
	plainSite siteKind = iota
	callSite
	forSite // the call of a generic for
	indexSite
	arithmeticSite
)

// site is a place in the source that an instruction comes from. gopher-lua keeps
// one integer an instruction, the line; here it is the number of a site, so that
// errors can name what they are about.
type site struct {
	line int
	kind siteKind
	a, b named // what is called or indexed; both operands
	// operands are those of a chain of ..
	operands []named
}

// function is what the parser knows of a function around the code it reads.
type function struct {
	parent   *function
	line     int // where it is defined, 0 for the main chunk
	varargs  bool
	block    *block
	nlocals  int
	upvalues map[string]bool
	// depth is in how many blocks of the compiler what is read is: an elseif is one in
	// those before it.
	depth int
	// constants are numbered as they come.
	constants map[any]int
}

// block is a scope. Names of locals are made unique, so that gopher-lua's
// compiler, which has a name visible a statement too early, finds the right one.
type block struct {
	parent    *block
	breakable bool
	names     []localVariable
}

type localVariable struct{ name, unique string }

func (p *parser) openFunction(line int) {
	p.fn = &function{parent: p.fn, line: line, upvalues: map[string]bool{}, constants: map[any]int{}}
	p.openBlock(false)
}

func (p *parser) closeFunction() { p.fn = p.fn.parent }

func (p *parser) openBlock(breakable bool) {
	p.fn.block = &block{parent: p.fn.block, breakable: breakable}
	p.fn.depth++
	p.steps(p.fn.depth)
}

func (p *parser) closeBlock() {
	p.fn.depth--
	p.fn.nlocals -= len(p.fn.block.names)
	p.fn.block = p.fn.block.parent
}

// declare makes a local variable visible and returns its unique name.
func (p *parser) declare(name string) string {
	unique := p.unique(name)
	p.show(name, unique)
	return unique
}

// unique returns the name that a local variable will have.
func (p *parser) unique(name string) string {
	p.locals++
	return name + "@" + strconv.Itoa(p.locals)
}

// show makes a local variable visible.
func (p *parser) show(name, unique string) {
	p.fn.block.names = append(p.fn.block.names, localVariable{name, unique})
	p.fn.nlocals++
}

// room fails if the function cannot have n more variables.
func (p *parser) room(n int) {
	if p.fn.nlocals+n > maxLocals {
		p.limit(maxLocals, "local variables")
	}
}

func (p *parser) limit(n int, what string) {
	text := fmt.Sprintf("main function has more than %d %s", n, what)
	if p.fn.line != 0 {
		text = fmt.Sprintf("function at line %d has more than %d %s", p.fn.line, n, what)
	}
	p.fail(text, "", false)
}

// resolve finds what a name stands for, and the name that the compiler is given.
func (p *parser) resolve(name string) (nameKind, string) {
	for f := p.fn; f != nil; f = f.parent {
		p.steps(1 + f.depth)
		for b := f.block; b != nil; b = b.parent {
			p.steps(len(b.names))
			for i := len(b.names) - 1; i >= 0; i-- {
				v := b.names[i]
				if v.name != name {
					continue
				}
				if f == p.fn {
					return localName, v.unique
				}
				for g := p.fn; g != f; g = g.parent {
					g.upvalues[v.unique] = true
					if len(g.upvalues) > maxUpvalues {
						p.limit(maxUpvalues, "upvalues")
					}
				}
				return upvalueName, v.unique
			}
		}
	}
	return globalName, name
}
