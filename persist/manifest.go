package persist

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"kevy/internal/vfs"
)

const (
	manifestName   = "MANIFEST"
	manifestKind   = "kevy-manifest"
	manifestFormat = 1
)

// MaxShards is the largest number of shards: Redis Cluster has as many slots,
// and a shard without a slot could hold no key.
const MaxShards = 16384

// Manifest is what a data directory says of itself.
type Manifest struct {
	// Shards is the number of shards, fixed when the directory is created: it
	// decides which stream a key belongs to. Where a setting asks for another
	// number, the stored one stands.
	Shards int
	// CreatedMs is the Unix time of the creation in milliseconds.
	CreatedMs int64
	// Runs counts the times that the directory was opened.
	Runs uint64
	// LastOpenMs is the Unix time of the last opening in milliseconds, and
	// LastVersion the version that did it, without blanks.
	LastOpenMs  int64
	LastVersion string
}

// ReadManifest reads data/MANIFEST. The error matches fs.ErrNotExist if there is
// none, is a *FormatError if a newer version wrote it, and a *FileError if it is
// damaged.
func ReadManifest(fs vfs.FS, dir string) (Manifest, error) {
	name := filepath.Join(dir, manifestName)
	data, err := readFactFile(fs, name)
	if err != nil {
		return Manifest{}, err
	}
	return parseManifest(name, data)
}

// WriteManifest replaces data/MANIFEST durably.
func WriteManifest(fs vfs.FS, dir string, m Manifest) error {
	if m.Shards < 1 || m.Shards > MaxShards {
		return fmt.Errorf("%d shards: there must be 1 to %d", m.Shards, MaxShards)
	}
	name := filepath.Join(dir, manifestName)
	if err := replaceFiles(fs, dir, []namedData{{name, m.encode()}}); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return nil
}

func (m *Manifest) encode() []byte {
	w := newFactWriter(manifestKind, manifestFormat)
	w.number("shards", uint64(m.Shards))
	w.number("created-unix-ms", uint64(max(m.CreatedMs, 0)))
	w.number("runs", m.Runs)
	w.number("last-open-unix-ms", uint64(max(m.LastOpenMs, 0)))
	version := strings.Join(strings.Fields(m.LastVersion), "-")
	if version == "" {
		version = "unknown"
	}
	w.fact("last-version", version)
	return w.seal()
}

func parseManifest(name string, data []byte) (m Manifest, err error) {
	lines, err := parseFacts(name, data, manifestKind, manifestFormat)
	if err != nil {
		return m, err
	}
	const maxMs = 1<<63 - 1
	for i := range lines {
		l := &lines[i]
		if err := l.count(1); err != nil {
			return m, err
		}
		var n uint64
		switch l.name {
		case "shards":
			n, err = l.uint(0, MaxShards)
			m.Shards = int(n)
		case "created-unix-ms":
			n, err = l.uint(0, maxMs)
			m.CreatedMs = int64(n)
		case "runs":
			m.Runs, err = l.uint(0, 1<<64-1)
		case "last-open-unix-ms":
			n, err = l.uint(0, maxMs)
			m.LastOpenMs = int64(n)
		case "last-version":
			m.LastVersion, err = l.text(0)
		default:
			err = l.errorf("format %d has no fact %s", manifestFormat, strconv.Quote(l.name))
		}
		if err != nil {
			return m, err
		}
	}
	if m.Shards == 0 {
		return m, &FileError{File: name, Reason: "it does not say how many shards there are"}
	}
	return m, nil
}
