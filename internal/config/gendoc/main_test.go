package main

import (
	"bytes"
	"os"
	"testing"

	"kevy/internal/config"
)

func TestDocumentIsFresh(t *testing.T) {
	settings := config.New().Settings()
	want := render(settings)
	got, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/config.md differs from the registry; run: make generate")
	}
	for _, s := range settings {
		if n := bytes.Count(got, []byte("| `"+s.Name+"`")); n != 1 {
			t.Errorf("docs/config.md has %d rows for %s, want 1", n, s.Name)
		}
	}
}
