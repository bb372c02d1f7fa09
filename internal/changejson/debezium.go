package changejson

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Envelope words frames in the envelope of Debezium, so that what reads its
// events as JSON reads these:
//
//	{"before":null,"after":{"db":0,"key":"k","key_base64":false,"command":"SET","args":["SET","k","v"],"base64":[]},
//	 "source":{…},"op":"u","ts_ms":1700000000123,"transaction":null}
//
// before is always null: the feed carries what a key becomes, not what it was.
// op is
//   - "u" for an op on a key, whether or not the key was there before;
//   - "d" for DEL: after is null, the key stands in source;
//   - "t" for FLUSHDB and FLUSHALL: after is null;
//   - "m" for SWAPDB and FUNCTION: after is null, and the command stands in
//     message.content as the base64 of a JSON array;
//   - "r" for an op of a snapshot.
//
// Of a commit of several frames transaction names the commit and the frame's
// place in it, counted from 1.
type Envelope struct {
	head, tail string // of the whole: the schema, if it is asked for
	source     string // the first fields of source
}

// NewEnvelope returns the wording for a source of that name (Debezium's
// topic.prefix) and program version. With schema each event carries the schema
// of Kafka Connect, {"schema":…,"payload":…}, for JsonConverter with
// schemas.enable=true; it weighs about 2 KiB.
func NewEnvelope(name, version string, schema bool) *Envelope {
	e := &Envelope{}
	source := append([]byte(nil), `{"version":`...)
	source = AppendString(source, utf8Text(version))
	source = append(source, `,"connector":"kevy","name":`...)
	e.source = string(AppendString(source, utf8Text(name)))
	if schema {
		named := func(part string) string { return string(AppendString(nil, utf8Text(name)+"."+part)) }
		e.head = `{"schema":` + strings.NewReplacer("@ENVELOPE", named("Envelope"), "@VALUE", named("Value")).Replace(envelopeSchema) + `,"payload":`
		e.tail = "}"
	}
	return e
}

func utf8Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// AppendFrame appends the event of a frame, without a line end. key is nil for
// an op without a key. nowMs is when the event is made.
func (e *Envelope) AppendFrame(dst []byte, f *Frame, key []byte, nowMs int64) []byte {
	kind := kindOf(f.Args)
	dst = e.begin(dst, f.DB, key, f.Args, kind)
	dst = e.appendSource(dst, f, key, "false")
	return e.end(dst, f, kind, nowMs)
}

// AppendSnapshotOp appends the event of one op of a snapshot, without a line
// end. Its source has no position: the cut is known at the snapshot's end only.
func (e *Envelope) AppendSnapshotOp(dst []byte, stream string, db int, op [][]byte, key []byte, nowMs int64) []byte {
	f := Frame{Stream: stream, Ms: nowMs, DB: db, Args: op, Cause: "user"}
	dst = e.begin(dst, db, key, op, 'r')
	dst = e.appendSource(dst, &f, key, "true")
	return e.end(dst, &f, 'r', nowMs)
}

func kindOf(args [][]byte) byte {
	switch string(args[0]) {
	case "DEL":
		return 'd'
	case "FLUSHDB", "FLUSHALL":
		return 't'
	case "SWAPDB", "FUNCTION":
		return 'm'
	}
	return 'u'
}

func (e *Envelope) begin(dst []byte, db int, key []byte, args [][]byte, kind byte) []byte {
	dst = append(dst, e.head...)
	dst = append(dst, `{"before":null,"after":`...)
	if kind != 'u' && kind != 'r' {
		return append(dst, "null"...)
	}
	dst = appendInt(dst, `{"db":`, db)
	dst = appendKey(append(dst, ','), key)
	dst = append(dst, `,"command":`...)
	dst = AppendString(dst, args[0])
	dst = appendArgs(append(dst, ','), "args", args)
	if !slices.ContainsFunc(args, isBinary) {
		dst = append(dst, `,"base64":[]`...) // a schema leaves no field out
	}
	return append(dst, '}')
}

func isBinary(arg []byte) bool { return !utf8.Valid(arg) }

func appendKey(dst []byte, key []byte) []byte {
	if key == nil {
		return append(dst, `"key":null,"key_base64":false`...)
	}
	if utf8.Valid(key) {
		dst = AppendString(append(dst, `"key":`...), key)
		return append(dst, `,"key_base64":false`...)
	}
	dst = append(dst, `"key":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, key)
	return append(dst, `","key_base64":true`...)
}

func (e *Envelope) appendSource(dst []byte, f *Frame, key []byte, snapshot string) []byte {
	dst = append(dst, `,"source":`...)
	dst = append(dst, e.source...)
	dst = append(dst, `,"ts_ms":`...)
	dst = strconv.AppendInt(dst, f.Ms, 10)
	dst = append(dst, `,"snapshot":"`...)
	dst = append(dst, snapshot...)
	dst = append(dst, `","db":"`...)
	dst = strconv.AppendInt(dst, int64(f.DB), 10)
	// As in Debezium a text that holds JSON: positions that order events.
	dst = append(dst, `","sequence":"[\"`...)
	dst = strconv.AppendUint(dst, f.Generation, 10)
	dst = append(dst, `\",\"`...)
	dst = strconv.AppendUint(dst, f.Offset, 10)
	dst = append(dst, `\"]","stream":`...)
	dst = AppendString(dst, f.Stream)
	dst = appendUint(dst, `,"generation":`, f.Generation)
	dst = appendUint(dst, `,"offset":`, f.Offset)
	dst = appendUint(dst, `,"first":`, f.First)
	dst = appendUint(dst, `,"last":`, f.Last)
	dst = appendUint(dst, `,"lsn":`, f.LSN)
	dst = append(dst, `,"cause":`...)
	dst = AppendString(dst, f.Cause)
	dst = appendKey(append(dst, ','), key)
	return append(dst, '}')
}

func (e *Envelope) end(dst []byte, f *Frame, kind byte, nowMs int64) []byte {
	dst = append(dst, `,"op":"`...)
	dst = append(dst, kind)
	dst = append(dst, `","ts_ms":`...)
	dst = strconv.AppendInt(dst, nowMs, 10)
	dst = append(dst, `,"transaction":`...)
	if f.First == f.Last {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, `{"id":"`...)
		dst = strconv.AppendUint(dst, f.Generation, 10)
		dst = appendUint(dst, ":", f.First)
		place := f.Offset - f.First + 1
		dst = appendUint(dst, `","total_order":`, place)
		dst = appendUint(dst, `,"data_collection_order":`, place)
		dst = append(dst, '}')
	}
	if kind == 'm' {
		dst = append(dst, `,"message":{"prefix":`...)
		dst = AppendString(dst, f.Args[0])
		dst = append(dst, `,"content":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, messageContent(f.Args))
		dst = append(dst, `"}`...)
	} else if e.tail != "" {
		dst = append(dst, `,"message":null`...)
	}
	dst = append(dst, '}')
	return append(dst, e.tail...)
}

func messageContent(args [][]byte) []byte {
	dst := []byte{'['}
	for i, a := range args {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, utf8Text(string(a)))
	}
	return append(dst, ']')
}

// envelopeSchema is the schema of the events, as Kafka Connect states one.
const envelopeSchema = `{"type":"struct","optional":false,"name":@ENVELOPE,"version":1,"fields":[` +
	`{"field":"before","type":"struct","optional":true,"name":@VALUE,"fields":[` + valueFields + `]},` +
	`{"field":"after","type":"struct","optional":true,"name":@VALUE,"fields":[` + valueFields + `]},` +
	`{"field":"source","type":"struct","optional":false,"name":"kevy.Source","fields":[` +
	`{"field":"version","type":"string","optional":false},` +
	`{"field":"connector","type":"string","optional":false},` +
	`{"field":"name","type":"string","optional":false},` +
	`{"field":"ts_ms","type":"int64","optional":false},` +
	`{"field":"snapshot","type":"string","optional":true},` +
	`{"field":"db","type":"string","optional":false},` +
	`{"field":"sequence","type":"string","optional":true},` +
	`{"field":"stream","type":"string","optional":false},` +
	`{"field":"generation","type":"int64","optional":false},` +
	`{"field":"offset","type":"int64","optional":false},` +
	`{"field":"first","type":"int64","optional":false},` +
	`{"field":"last","type":"int64","optional":false},` +
	`{"field":"lsn","type":"int64","optional":false},` +
	`{"field":"cause","type":"string","optional":false},` +
	keyFields + `]},` +
	`{"field":"op","type":"string","optional":false},` +
	`{"field":"ts_ms","type":"int64","optional":true},` +
	`{"field":"transaction","type":"struct","optional":true,"name":"event.block","version":1,"fields":[` +
	`{"field":"id","type":"string","optional":false},` +
	`{"field":"total_order","type":"int64","optional":false},` +
	`{"field":"data_collection_order","type":"int64","optional":false}]},` +
	`{"field":"message","type":"struct","optional":true,"name":"kevy.Message","fields":[` +
	`{"field":"prefix","type":"string","optional":true},` +
	`{"field":"content","type":"bytes","optional":true}]}]}`

const keyFields = `{"field":"key","type":"string","optional":true},{"field":"key_base64","type":"boolean","optional":false}`

const valueFields = `{"field":"db","type":"int32","optional":false},` + keyFields + `,` +
	`{"field":"command","type":"string","optional":false},` +
	`{"field":"args","type":"array","optional":false,"items":{"type":"string","optional":false}},` +
	`{"field":"base64","type":"array","optional":false,"items":{"type":"int32","optional":false}}`
