package aof

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"kevy/internal/vfs"
)

// The names are those of Redis 7 with appendfilename at its default.
const (
	logDirName        = "appendonlydir"
	feedDirName       = "feed"
	quarantineDirName = "quarantine"

	filePrefixName = "appendonly.aof"
	manifestName   = filePrefixName + ".manifest"
	baseSuffix     = ".base.aof"
	segmentSuffix  = ".incr.aof"
	tempPrefix     = "temp-"
	feedSuffix     = ".aof"
	// failedSyncName is a file that says that an fsync of a segment failed.
	failedSyncName = "fsync-failed"
)

// maxManifestBytes bounds what is read of a manifest.
const maxManifestBytes = 16 << 20

// manifestEntry is a file that makes up the data.
type manifestEntry struct {
	name string // in the log's directory
	seq  int64
}

// manifestMark is the first line of a manifest that kevy wrote. Redis skips it,
// and writes none.
const manifestMark = "#kevy-log 1"

// manifest lists the files that make up the data, in the order of reading.
type manifest struct {
	marked   bool           // kevy wrote it, not Redis
	base     *manifestEntry // nil if there is none
	segments []manifestEntry
	history  []string // files that a rewrite by Redis has not removed yet
}

func (m *manifest) encode() []byte {
	b := []byte(manifestMark + "\n")
	if m.base != nil {
		b = fmt.Appendf(b, "file %s seq %d type b\n", m.base.name, m.base.seq)
	}
	for _, s := range m.segments {
		b = fmt.Appendf(b, "file %s seq %d type i\n", s.name, s.seq)
	}
	return b
}

// clone returns a copy whose list can be changed.
func (m *manifest) clone() manifest {
	c := *m
	c.segments = append([]manifestEntry(nil), m.segments...)
	return c
}

// readManifest reads the manifest of a directory; found is false if there is
// none.
func readManifest(fsys vfs.FS, dir string) (m manifest, found bool, err error) {
	name := filepath.Join(dir, manifestName)
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, false, nil
	}
	if err != nil {
		return manifest{}, false, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxManifestBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return manifest{}, false, err
	}
	if len(data) > maxManifestBytes {
		return manifest{}, false, &DamageError{File: name, Reason: fmt.Sprintf("a manifest of more than %d bytes", maxManifestBytes)}
	}
	m, at, reason := parseManifest(data)
	if reason != "" {
		reason += " (no file of the log is read before it is set right by hand: it has a line for each, in the order of reading)"
		return manifest{}, false, &DamageError{File: name, Offset: int64(at), Reason: reason}
	}
	return m, true, nil
}

// parseManifest returns the offset of the line at fault and what is wrong with
// it, or reason "".
func parseManifest(data []byte) (m manifest, at int, reason string) {
	if len(data) == 0 {
		return m, 0, "the manifest is empty"
	}
	for at < len(data) {
		line, _, whole := bytes.Cut(data[at:], []byte("\n"))
		if !whole {
			return m, at, "the line has no end"
		}
		if reason := m.parseLine(string(bytes.TrimSuffix(line, []byte("\r")))); reason != "" {
			return m, at, reason
		}
		at += len(line) + 1
	}
	return m, 0, ""
}

func (m *manifest) parseLine(line string) (reason string) {
	if line == "" || line[0] == '#' {
		m.marked = m.marked || line == manifestMark
		return ""
	}
	words, ok := splitManifestLine(line)
	if !ok || len(words)%2 != 0 {
		return "the line is not made of names and values"
	}
	var e manifestEntry
	var kind string
	for i := 0; i < len(words); i += 2 {
		switch value := words[i+1]; strings.ToLower(words[i]) {
		case "file":
			e.name = value
		case "seq":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 1 {
				return fmt.Sprintf("%q is no sequence number", value)
			}
			e.seq = n
		case "type":
			kind = value
		}
	}
	if e.name == "" || e.seq == 0 || filepath.Base(e.name) != e.name || e.name == "." || e.name == ".." {
		return "the line does not name a file of this directory with its sequence number"
	}
	switch kind {
	case "b":
		if m.base != nil || len(m.segments) > 0 {
			return "a base stands behind another file"
		}
		m.base = &e
	case "i":
		if n := len(m.segments); n > 0 && m.segments[n-1].seq >= e.seq {
			return "the sequence numbers do not rise"
		}
		m.segments = append(m.segments, e)
	case "h":
		m.history = append(m.history, e.name)
	default:
		return fmt.Sprintf("%q is no type of file", kind)
	}
	return ""
}

// splitManifestLine splits a line at its spaces; Redis puts names with unusual
// characters in double quotes.
func splitManifestLine(line string) (words []string, ok bool) {
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		word, rest := line, ""
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, false
			}
			if word, err = strconv.Unquote(quoted); err != nil {
				return nil, false
			}
			rest = line[len(quoted):]
		} else if i := strings.IndexByte(line, ' '); i >= 0 {
			word, rest = line[:i], line[i:]
		}
		words = append(words, word)
		line = rest
	}
	return words, true
}

func segmentName(seq int64) string { return fmt.Sprintf("%s.%d%s", filePrefixName, seq, segmentSuffix) }
func baseName(seq int64) string    { return fmt.Sprintf("%s.%d%s", filePrefixName, seq, baseSuffix) }
func feedName(first uint64) string { return fmt.Sprintf("%020d%s", first, feedSuffix) }

// parseSeq returns the sequence number in a name that segmentName or baseName
// made.
func parseSeq(name, suffix string) (seq int64, ok bool) {
	digits, ok := strings.CutPrefix(name, filePrefixName+".")
	if !ok {
		return 0, false
	}
	if digits, ok = strings.CutSuffix(digits, suffix); !ok {
		return 0, false
	}
	seq, err := strconv.ParseInt(digits, 10, 64)
	return seq, err == nil && seq > 0 && strconv.FormatInt(seq, 10) == digits
}

// parseFeedName returns the LSN in a name that feedName made.
func parseFeedName(name string) (first uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, feedSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0 && feedName(first) == name
}
