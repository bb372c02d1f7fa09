package persist

import (
	"errors"
	"strings"
	"testing"

	"kevy/internal/vfs"
)

func TestImporting(t *testing.T) {
	m := vfs.NewMem()
	if err := m.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadImporting(m, "data"); got != nil || err != nil {
		t.Errorf("without a file: %v %v", got, err)
	}
	for _, want := range []Importing{
		{From: "dump.rdb", New: true},
		{From: "/a path/with \"quotes\"\nand ümläuts.rdb"},
		{From: ""},
	} {
		if err := WriteImporting(m, "data", want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadImporting(m.Kill(), "data")
		if err != nil || *got != want {
			t.Errorf("%+v came back as %+v, %v", want, got, err)
		}
		m = m.Kill()
	}
	long := Importing{From: strings.Repeat("x", 1<<20) + "end"}
	if err := WriteImporting(m, "data", long); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadImporting(m, "data"); err != nil || !strings.HasSuffix(got.From, "xend") || len(got.From) > 5000 {
		t.Errorf("a long name: %v", err)
	}
	if err := RemoveImporting(m, "data"); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadImporting(m, "data"); got != nil || err != nil {
		t.Errorf("removed: %v %v", got, err)
	}
	for text, want := range map[string]string{
		"kevy-importing 2\n":              "newer version",
		"kevy-manifest 1\n":               "does not begin with",
		"kevy-importing 1\ninto both\n":   "no fact",
		"kevy-importing 1\nfrom \"x\n":    "no quoted name",
		"kevy-importing 1\nfrom a b\n":    "values",
		"kevy-importing 1\nsize \"12\"\n": "no fact",
	} {
		w := &factWriter{buf: []byte(text)}
		if err := vfs.WriteFileAtomic(m, "data/IMPORTING", w.seal()); err != nil {
			t.Fatal(err)
		}
		_, err := ReadImporting(m, "data")
		var file *FileError
		var format *FormatError
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &file) && !errors.As(err, &format) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
