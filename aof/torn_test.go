package aof

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// RecoverWhole refuses where RecoverRefuse cuts, at the same place, and changes
// nothing; it does the same where nothing is cut.
func TestRecoverWhole(t *testing.T) {
	own, _ := smallLog(t)
	text := readFileText(t, own, firstSegment)
	set := commandText("set", "k", "v")
	texts := []string{
		ownLog(t) + set + set[:7], ownLog(t) + commandText("multi") + set, set + set[:len(set)-1], set + "#TS:17", set + "\x00\x00", ownLog(t), set,
	}
	for size := 0; size < len(text); size += 3 * thin {
		texts = append(texts, text[:size])
	}
	torn := 0
	for i, text := range texts {
		what := fmt.Sprintf("text %d, %d bytes", i, len(text))
		files := copyTree(t, own, "data/appendonlydir", "data/feed")
		writeFileText(t, files, firstSegment, text)
		opt := testOptions(files)
		opt.NowMs = func() int64 { return 1_700_000_000_000 }
		l, _, err := Recover(opt, RecoverWhole, &lsnSink{byLSN: map[uint64]string{}})
		_, report, plain := recoverWith(t, own, firstSegment, text, RecoverRefuse)
		if plain != nil {
			var damage *DamageError
			if !errors.As(err, &damage) || err.Error() != plain.Error() {
				t.Fatalf("%s: %v instead of %v", what, err, plain)
			}
			continue
		}
		if report.Torn == nil {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if _, err := l.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		torn++
		var e *TornError
		if !errors.As(err, &e) || e.File != report.Torn.File || e.Offset != report.Torn.Offset || e.Bytes != report.Torn.Bytes || e.Reason != report.Torn.Reason {
			t.Fatalf("%s: %v instead of %+v", what, err, report.Torn)
		}
		if now := readFileText(t, files, firstSegment); now != text {
			t.Fatalf("%s: the file has changed to %q", what, now)
		}
		if _, err := files.Stat("data/quarantine"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: a quarantine: %v", what, err)
		}
	}
	if torn < 20 {
		t.Errorf("only %d of %d texts are torn", torn, len(texts))
	}
}
