package kafka

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"kevy/internal/op"
)

// The value of a record in a changelog is JSON that holds the whole value of its
// key:
//
//	{"type":"string","value":"v","expires-ms":1790000000000}
//	{"type":"hash","value":{"f":"v"},"field-expires-ms":{"f":1790000000000}}
//	{"type":"list","value":["a","b"]}
//	{"type":"set","value":["a","b"]}
//	{"type":"zset","value":[["a",1],["b",2.5]]}
//	{"type":"stream","ops":[["XADD","5-1","f","v"],…]}
//
// A string that is not UTF-8 is {"base64":"…"}; a hash with such a field name has
// its value, and its expiries, as a list of pairs. The score of a member is a text where it is
// infinite. A stream is given by the ops that rebuild it, without the
// key, because its groups and what they have pending have no other form.

// appendValue appends the value that ops rebuild, RESP commands of the key back
// to back as package shard makes them.
func appendValue(dst, ops []byte) ([]byte, error) {
	var (
		kind     string
		elems    [][]byte // of a hash and a sorted set two an element
		expires  []byte
		deadline [][2][]byte
		stream   [][][]byte
	)
	for len(ops) > 0 {
		n, args, err := op.ReadCommand(ops, nil)
		if err != nil {
			return dst, err
		}
		ops = ops[n:]
		rest := args[min(2, len(args)):]
		switch string(args[0]) {
		case "SET":
			kind, elems = "string", rest[:1]
			if len(rest) == 3 {
				expires = rest[2]
			}
		case "HSET":
			kind, elems = "hash", append(elems, rest...)
		case "RPUSH":
			kind, elems = "list", append(elems, rest...)
		case "SADD":
			kind, elems = "set", append(elems, rest...)
		case "ZADD":
			kind, elems = "zset", append(elems, rest...)
		case "PEXPIREAT":
			expires = rest[0]
		case "HPEXPIREAT":
			for _, field := range rest[3:] {
				deadline = append(deadline, [2][]byte{field, rest[0]})
			}
		case "XGROUP":
			kind, stream = "stream", append(stream, append(args[:2:2], args[3:]...))
		case "XADD", "XDEL", "XTRIM", "XSETID", "XCLAIM", "XACK":
			kind, stream = "stream", append(stream, append(args[:1:1], rest...))
		default:
			return dst, fmt.Errorf("no value is rebuilt by %s", args[0])
		}
	}
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, '"')
	switch kind {
	case "string":
		dst = appendText(append(dst, `,"value":`...), elems[0])
	case "hash":
		pairs := make([][2][]byte, 0, len(elems)/2)
		for i := 0; i+1 < len(elems); i += 2 {
			pairs = append(pairs, [2][]byte{elems[i], elems[i+1]})
		}
		dst = appendPairs(append(dst, `,"value":`...), pairs, appendText)
		if len(deadline) > 0 {
			dst = appendPairs(append(dst, `,"field-expires-ms":`...), deadline, func(d, v []byte) []byte { return append(d, v...) })
		}
	case "list", "set":
		dst = appendTexts(append(dst, `,"value":`...), elems)
	case "zset":
		dst = append(dst, `,"value":[`...)
		for i := 0; i+1 < len(elems); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendText(append(dst, '['), elems[i+1])
			dst = appendScore(append(dst, ','), elems[i])
			dst = append(dst, ']')
		}
		dst = append(dst, ']')
	case "stream":
		dst = append(dst, `,"ops":[`...)
		for i, args := range stream {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendTexts(dst, args)
		}
		dst = append(dst, ']')
	default:
		return dst, errors.New("no ops of a value")
	}
	if expires != nil {
		dst = append(append(dst, `,"expires-ms":`...), expires...)
	}
	return append(dst, '}'), nil
}

// appendText appends a JSON string, or its base64 form.
func appendText(dst, text []byte) []byte {
	if !utf8.Valid(text) {
		dst = append(dst, `{"base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, text)
		return append(dst, `"}`...)
	}
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

func appendTexts(dst []byte, texts [][]byte) []byte {
	dst = append(dst, '[')
	for i, t := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, t)
	}
	return append(dst, ']')
}

// appendPairs appends an object, or a list of pairs where a name is not UTF-8.
func appendPairs(dst []byte, pairs [][2][]byte, value func(dst, v []byte) []byte) []byte {
	object := true
	for _, p := range pairs {
		object = object && utf8.Valid(p[0])
	}
	open, mid, end := byte('{'), byte(':'), byte('}')
	if !object {
		open, mid, end = '[', ',', ']'
	}
	dst = append(dst, open)
	for i, p := range pairs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if !object {
			dst = append(dst, '[')
		}
		dst = appendText(dst, p[0])
		dst = value(append(dst, mid), p[1])
		if !object {
			dst = append(dst, ']')
		}
	}
	return append(dst, end)
}

func appendScore(dst, score []byte) []byte {
	if json.Valid(score) {
		return append(dst, score...)
	}
	return appendText(dst, score) // inf, -inf
}

// opsOf returns the ops that give key the value of a record, each with its verb
// and its key.
func opsOf(key, record []byte) ([][][]byte, error) {
	var v struct {
		Type         string
		Value        json.RawMessage
		Ops          [][]text
		ExpiresMs    json.Number     `json:"expires-ms"`
		FieldExpires json.RawMessage `json:"field-expires-ms"`
	}
	dec := json.NewDecoder(bytes.NewReader(record))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var ops [][][]byte
	add := func(verb string, args ...[]byte) { ops = append(ops, append([][]byte{[]byte(verb), key}, args...)) }
	switch v.Type {
	case "string":
		var s text
		if err := json.Unmarshal(v.Value, &s); err != nil {
			return nil, err
		}
		if v.ExpiresMs != "" {
			add("SET", s, []byte("PXAT"), []byte(v.ExpiresMs))
			return ops, nil
		}
		add("SET", s)
		return ops, nil
	case "list", "set":
		var elems []text
		if err := json.Unmarshal(v.Value, &elems); err != nil {
			return nil, err
		}
		args := make([][]byte, len(elems))
		for i, e := range elems {
			args[i] = e
		}
		add(map[string]string{"list": "RPUSH", "set": "SADD"}[v.Type], args...)
	case "zset":
		var members [][2]text
		if err := json.Unmarshal(v.Value, &members); err != nil {
			return nil, err
		}
		args := make([][]byte, 0, 2*len(members))
		for _, m := range members {
			args = append(args, m[1], m[0])
		}
		add("ZADD", args...)
	case "hash":
		fields, err := pairsOf(v.Value)
		if err != nil {
			return nil, err
		}
		args := make([][]byte, 0, 2*len(fields))
		for _, f := range fields {
			args = append(args, f[0], f[1])
		}
		add("HSET", args...)
		if v.FieldExpires != nil {
			fields, err := pairsOf(v.FieldExpires)
			if err != nil {
				return nil, err
			}
			for _, f := range fields {
				add("HPEXPIREAT", f[1], []byte("FIELDS"), []byte("1"), f[0])
			}
		}
	case "stream":
		for _, parts := range v.Ops {
			if len(parts) == 0 || !bytes.HasPrefix(parts[0], []byte{'X'}) {
				return nil, errors.New("an op that is none of a stream")
			}
			at := 1 // where the key belongs
			if string(parts[0]) == "XGROUP" {
				at = min(2, len(parts))
			}
			args := make([][]byte, 0, len(parts)+1)
			for _, p := range parts[:at] {
				args = append(args, p)
			}
			args = append(args, key)
			for _, p := range parts[at:] {
				args = append(args, p)
			}
			ops = append(ops, args)
		}
	default:
		return nil, fmt.Errorf("a value of type %q", v.Type)
	}
	if v.ExpiresMs != "" {
		add("PEXPIREAT", []byte(v.ExpiresMs))
	}
	return ops, nil
}

// text is a JSON string, a number as it is written, or the base64 form.
type text []byte

func (t *text) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		var s string
		err := json.Unmarshal(b, &s)
		*t = []byte(s)
		return err
	case '{':
		var v struct{ Base64 []byte }
		err := json.Unmarshal(b, &v)
		*t = v.Base64
		if *t == nil {
			*t = []byte{}
		}
		return err
	}
	if _, err := strconv.ParseFloat(string(b), 64); err != nil {
		return fmt.Errorf("%s is no text", b)
	}
	*t = append([]byte(nil), b...)
	return nil
}

// pairsOf reads an object in the order in which it is written, or a list of
// pairs.
func pairsOf(b []byte) ([][2]text, error) {
	if len(b) > 0 && b[0] == '[' {
		var pairs [][2]text
		err := json.Unmarshal(b, &pairs)
		return pairs, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var pairs [][2]text
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		s, ok := name.(string)
		if !ok {
			return nil, errors.New("an object was expected")
		}
		var v text
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		pairs = append(pairs, [2]text{text(s), v})
	}
	return pairs, nil
}
