package changejson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func args(words ...string) [][]byte {
	var a [][]byte
	for _, w := range words {
		a = append(a, []byte(w))
	}
	return a
}

func TestLines(t *testing.T) {
	f := Frame{Stream: "ALL", Generation: 1<<53 - 1, Offset: 5, First: 4, Last: 6, LSN: 42, Ms: 1700000000000, DB: 3, Cause: "user", Args: args("SET", "k", "v")}
	binary := f
	binary.Args = args("SET", "\xff", "\"\\\n\r\t\x01é\u2028", "\x00\xfe")
	for _, test := range []struct{ got, want string }{
		{string(AppendFrame(nil, &f)), `{"stream":"ALL","generation":9007199254740991,"offset":5,"first":4,"last":6,"lsn":42,"ms":1700000000000,"db":3,"cause":"user","args":["SET","k","v"]}`},
		{string(AppendFrame(nil, &binary)), `{"stream":"ALL","generation":9007199254740991,"offset":5,"first":4,"last":6,"lsn":42,"ms":1700000000000,"db":3,"cause":"user","args":["SET","/w==","\"\\\n\r\t\u0001é` + "\u2028" + `","AP4="],"base64":[1,3]}`},
		{string(AppendPosition(nil, "0", 7, 8, 43)), `{"stream":"0","event":"position","generation":7,"offset":8,"complete":43}`},
		{string(AppendSnapshotStart(nil, "ALL", "x")), `{"stream":"ALL","event":"snapshot-start","token":"x"}`},
		{string(AppendSnapshotOp(nil, "ALL", "x", 1, 2, args("SET", "k", "v"))), `{"stream":"ALL","event":"snapshot","token":"x","n":1,"db":2,"args":["SET","k","v"]}`},
		{string(AppendSnapshotEnd(nil, "ALL", "x", 7, 8)), `{"stream":"ALL","event":"snapshot-end","token":"x","generation":7,"offset":8}`},
	} {
		want := strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(test.want)
		if test.got != want {
			t.Errorf("got  %s\nwant %s", test.got, want)
		}
		if !json.Valid([]byte(test.got)) {
			t.Errorf("%s is no JSON", test.got)
		}
	}
}

func TestParseFrame(t *testing.T) {
	for _, a := range [][][]byte{args("SET", "k", "v"), args("SET", "\xff", "", "\x00\xfe"), args("FLUSHALL"), args("SET", "/w==", "/w==")} {
		f := Frame{Stream: "0", Generation: 1, Offset: 2, First: 2, Last: 2, LSN: 3, Ms: 4, DB: 5, Cause: "expired", Args: a}
		got, err := ParseFrame(AppendFrame(nil, &f))
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("got %+v, %v, want %+v", got, err, f)
		}
	}
	for line, want := range map[string]string{
		`{"stream":"ALL","event":"position","generation":7,"offset":8,"complete":43}`: ErrNotFrame.Error(),
		`{"stream":"ALL"}`:                  ErrNotFrame.Error(),
		`{"args":["a"],"base64":[1]}`:       "the line of a frame: base64 names argument 1 of 1",
		`{"args":["a"],"base64":[-1]}`:      "the line of a frame: base64 names argument -1 of 1",
		`{"args":["a"],"base64":[0]}`:       "the line of a frame: argument 0: illegal base64 data at input byte 0",
		`{"stream":"ALL","generation":1,"o`: "the line of a frame: unexpected end of JSON input",
	} {
		if _, err := ParseFrame([]byte(line)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	if _, err := ParseFrame([]byte(`{"event":"x","args":["a"]}`)); !errors.Is(err, ErrNotFrame) {
		t.Errorf("an event with args: %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("k"), []byte("\xff\x00"), "ALL")
	f.Add([]byte("\xed\xa0\x80"), []byte("<é\u2028>"), "")
	f.Fuzz(func(t *testing.T, key, value []byte, stream string) {
		if !json.Valid(AppendString(nil, strings.ToValidUTF8(stream, "?"))) {
			t.Fatalf("%q", stream)
		}
		want := Frame{Stream: "ALL", Args: [][]byte{[]byte("SET"), key, value}}
		line := AppendFrame(nil, &want)
		got, err := ParseFrame(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for i, a := range want.Args {
			if !bytes.Equal(a, got.Args[i]) {
				t.Fatalf("%s: argument %d is %q, want %q", line, i, got.Args[i], a)
			}
		}
		if bytes.ContainsAny(line, "\n\r") {
			t.Fatalf("%q is more than a line", line)
		}
	})
}

func TestEnvelope(t *testing.T) {
	e := NewEnvelope("shop", "1.0", false)
	source := func(offset, snapshot, key string) string {
		return `"source":{"version":"1.0","connector":"kevy","name":"shop","ts_ms":1000,"snapshot":"` + snapshot + `","db":"2","sequence":"[\"7\",\"` + offset +
			`\"]","stream":"ALL","generation":7,"offset":` + offset + `,"first":5,"last":6,"lsn":42,"cause":"user",` + key + `}`
	}
	transaction := `"transaction":{"id":"7:5","total_order":1,"data_collection_order":1}`
	f := Frame{Stream: "ALL", Generation: 7, Offset: 5, First: 5, Last: 6, LSN: 42, Ms: 1000, DB: 2, Cause: "user"}
	for _, test := range []struct {
		args [][]byte
		key  []byte
		want string
	}{
		{args("SET", "k", "v"), []byte("k"), `{"before":null,"after":{"db":2,"key":"k","key_base64":false,"command":"SET","args":["SET","k","v"],"base64":[]},` +
			source("5", "false", `"key":"k","key_base64":false`) + `,"op":"u","ts_ms":2000,` + transaction + `}`},
		{args("SET", "\xff", "v"), []byte("\xff"), `{"before":null,"after":{"db":2,"key":"/w==","key_base64":true,"command":"SET","args":["SET","/w==","v"],"base64":[1]},` +
			source("5", "false", `"key":"/w==","key_base64":true`) + `,"op":"u","ts_ms":2000,` + transaction + `}`},
		{args("DEL", "k"), []byte("k"), `{"before":null,"after":null,` + source("5", "false", `"key":"k","key_base64":false`) + `,"op":"d","ts_ms":2000,` + transaction + `}`},
		{args("FLUSHDB"), nil, `{"before":null,"after":null,` + source("5", "false", `"key":null,"key_base64":false`) + `,"op":"t","ts_ms":2000,` + transaction + `}`},
		{args("SWAPDB", "0", "1"), nil, `{"before":null,"after":null,` + source("5", "false", `"key":null,"key_base64":false`) + `,"op":"m","ts_ms":2000,` + transaction +
			`,"message":{"prefix":"SWAPDB","content":"` + base64.StdEncoding.EncodeToString([]byte(`["SWAPDB","0","1"]`)) + `"}}`},
	} {
		f.Args = test.args
		if got := string(e.AppendFrame(nil, &f, test.key, 2000)); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
	f = Frame{Stream: "ALL", Generation: 7, Offset: 5, First: 5, Last: 5, Args: args("DEL", "k")}
	if got := string(e.AppendFrame(nil, &f, []byte("k"), 1)); !strings.Contains(got, `"transaction":null`) {
		t.Errorf("a commit of one frame: %s", got)
	}
	if got := string(e.AppendSnapshotOp(nil, "ALL", 0, args("SET", "k", "v"), []byte("k"), 9)); !strings.Contains(got, `"snapshot":"true"`) || !strings.Contains(got, `"op":"r","ts_ms":9`) {
		t.Errorf("an op of a snapshot: %s", got)
	}
}

// TestEnvelopeSchema reads the schema and asks every event to have just the
// fields that it names, of their types.
func TestEnvelopeSchema(t *testing.T) {
	e := NewEnvelope(`sh"op`, "1", true)
	for _, a := range [][][]byte{args("SET", "k", "\xff"), args("DEL", "k"), args("SWAPDB", "0", "1"), args("FLUSHALL")} {
		f := Frame{Stream: "ALL", First: 0, Last: 1, Args: a}
		var event struct {
			Schema  map[string]any
			Payload map[string]any
		}
		if err := json.Unmarshal(e.AppendFrame(nil, &f, a[len(a)-1], 1), &event); err != nil {
			t.Fatal(err)
		}
		if name := event.Schema["name"]; name != `sh"op.Envelope` {
			t.Errorf("the schema is called %v", name)
		}
		if n := matchStruct(t, "", event.Schema, event.Payload); n < 20 {
			t.Errorf("%s: only %d fields were compared", a[0], n)
		}
	}
}

func matchStruct(t *testing.T, path string, schema, value map[string]any) (compared int) {
	t.Helper()
	seen := map[string]bool{}
	for _, one := range schema["fields"].([]any) {
		field := one.(map[string]any)
		name := field["field"].(string)
		seen[name] = true
		v, found := value[name]
		if !found {
			t.Errorf("%s.%s is missing", path, name)
			continue
		}
		if v == nil {
			if field["optional"] != true {
				t.Errorf("%s.%s is null", path, name)
			}
			continue
		}
		compared++
		switch field["type"] {
		case "struct":
			compared += matchStruct(t, path+"."+name, field, v.(map[string]any))
		case "string", "bytes":
			_ = v.(string)
		case "int32", "int64":
			_ = v.(float64)
		case "boolean":
			_ = v.(bool)
		case "array":
			_ = v.([]any)
		default:
			t.Errorf("%s.%s has type %v", path, name, field["type"])
		}
	}
	for name := range value {
		if !seen[name] {
			t.Errorf("%s.%s is not in the schema", path, name)
		}
	}
	return compared
}
