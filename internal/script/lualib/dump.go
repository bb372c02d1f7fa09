package lualib

import (
	"encoding/binary"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// dumpHeader begins a dump, as one of Lua 5.1: the signature, the version and format 0.
// No source may begin so, and compile takes nothing but source: a dump is good for
// comparing and counting, as in Redis, which loads none either.
const dumpHeader = "\x1bLuaQ\x00"

func strDump(l *lua.LState) int {
	fn, ok := l.Get(1).(*lua.LFunction)
	if !ok {
		argTypeError(l, 1, "function")
	}
	if fn.IsG {
		fail(l, "unable to dump given function")
	}
	b := appendProto([]byte(dumpHeader), fn.Proto)
	of(l).take(l, len(b))
	tooLarge(l, len(b))
	return pushString(l, string(b))
}

// appendProto appends the code of a function, its constants and the functions within it:
// what of it is the same wherever it stands.
func appendProto(b []byte, p *lua.FunctionProto) []byte {
	b = append(b, p.NumUpvalues, p.NumParameters, p.IsVarArg, p.NumUsedRegisters)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Code)))
	for _, instruction := range p.Code {
		b = binary.LittleEndian.AppendUint32(b, instruction)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Constants)))
	for _, v := range p.Constants {
		b = append(b, byte(v.Type()))
		switch v := v.(type) {
		case lua.LBool:
			if v {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		case lua.LNumber:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
		case lua.LString:
			b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
			b = append(b, v...)
		}
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.FunctionPrototypes)))
	for _, child := range p.FunctionPrototypes {
		b = appendProto(b, child)
	}
	return b
}
