package admin

import (
	"kevy/internal/command"
	"kevy/resp"
)

// debugProtocol answers a value of each type of the protocol.
func debugProtocol(c *command.Ctx, _ Server) {
	w := c.W
	switch kind := c.Args[2]; {
	case command.EqualFold(kind, "STRING"):
		w.BulkString("Hello World")
	case command.EqualFold(kind, "INTEGER"):
		w.Int(12345)
	case command.EqualFold(kind, "DOUBLE"):
		w.Double(3.141)
	case command.EqualFold(kind, "BIGNUM"):
		w.BigNumber("1234567999999999999999999999999999999")
	case command.EqualFold(kind, "NULL"):
		w.Null()
	case command.EqualFold(kind, "ARRAY"):
		w.Array(3)
		for i := range 3 {
			w.Int(int64(i))
		}
	case command.EqualFold(kind, "SET"):
		w.Set(3)
		for i := range 3 {
			w.Int(int64(i))
		}
	case command.EqualFold(kind, "MAP"):
		w.Map(3)
		for i := range 3 {
			w.Int(int64(i))
			w.Bool(i == 1)
		}
	case command.EqualFold(kind, "ATTRIB"):
		if w.Proto() == 3 {
			w.Raw([]byte("|1\r\n"))
			w.BulkString("key-popularity")
			w.Array(2)
			w.BulkString("key:123")
			w.Int(90)
		}
		w.BulkString("Some real reply following the attribute")
	case command.EqualFold(kind, "PUSH"):
		if w.Proto() != 3 {
			w.Error(resp.Errorf("ERR", "RESP2 is not supported by this command"))
			return
		}
		w.Push(2)
		w.BulkString("server-cpu-usage")
		w.Int(42)
		w.BulkString("Some real reply following the push reply")
	case command.EqualFold(kind, "TRUE"):
		w.Bool(true)
	case command.EqualFold(kind, "FALSE"):
		w.Bool(false)
	case command.EqualFold(kind, "VERBATIM"):
		w.Verbatim("txt", "This is a verbatim\nstring")
	default:
		w.Error(resp.Errorf("ERR", "Wrong protocol type name. Please use one of the following: "+
			"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"))
	}
}
