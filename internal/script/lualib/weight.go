package lualib

import (
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// StateBytes is about what a State occupies that runs nothing: its libraries and the
// stacks of its threads.
const StateBytes = 92 << 10

// Bytes is about what the program occupies.
func (p *Program) Bytes() int {
	c := p.chunk()
	n := int(unsafe.Sizeof(*p)+unsafe.Sizeof(*c)) + cap(c.sites)*int(unsafe.Sizeof(site{}))
	for i := range c.sites {
		n += len(c.sites[i].operands) * int(unsafe.Sizeof(named{}))
	}
	return n + protoBytes(p.proto)
}

func (p *Program) chunk() *chunk {
	k := p.proto.Constants
	return k[len(k)-1].(*lua.LUserData).Value.(*chunk)
}

func protoBytes(p *lua.FunctionProto) int {
	const text, word = int(unsafe.Sizeof("")), int(unsafe.Sizeof(0))
	n := int(unsafe.Sizeof(*p)) + 4*cap(p.Code) + word*cap(p.DbgSourcePositions) + 2*text*cap(p.Constants)
	for _, v := range p.Constants {
		// Strings are there by themselves and as values.
		n += word
		if s, ok := v.(lua.LString); ok {
			n += text + len(s)
		}
	}
	for _, l := range p.DbgLocals {
		n += int(unsafe.Sizeof(*l)) + word + len(l.Name)
	}
	n += cap(p.DbgCalls)*int(unsafe.Sizeof(lua.DbgCall{})) + text*cap(p.DbgUpvalues)
	for _, child := range p.FunctionPrototypes {
		n += word + protoBytes(child)
	}
	return n
}
