package pipe

import (
	"context"
	"fmt"
	"io"

	"kevy/changes"
)

// writerSink writes records to a stream of bytes, standard output above all. A
// batch counts as delivered once it is written.
type writerSink struct {
	out    io.Writer
	format Format
	buf    []byte
	token  string // of the snapshot that is written
}

// newWriterSink returns a sink that writes records of a form to out, which stays
// open.
func newWriterSink(out io.Writer, format Format) SnapshotSink {
	return &writerSink{out: out, format: format}
}

func (s *writerSink) Resume(context.Context) (map[string]changes.Cursor, bool, error) {
	return nil, false, nil
}

func (s *writerSink) Close(context.Context) error { return nil }

func (s *writerSink) Write(_ context.Context, commits []*changes.Commit) error {
	s.buf = s.buf[:0]
	for _, c := range commits {
		s.buf = s.format.AppendCommit(s.buf, c)
	}
	return s.flush()
}

func (s *writerSink) SnapshotStart(_ context.Context, stream, token string) error {
	s.token = token
	s.buf = s.format.AppendSnapshotStart(s.buf[:0], stream, token)
	return s.flush()
}

func (s *writerSink) SnapshotPart(_ context.Context, p *changes.SnapshotPart) error {
	s.buf = s.buf[:0]
	for i := range p.Ops {
		s.buf = s.format.AppendSnapshotOp(s.buf, p, i)
	}
	return s.flush()
}

func (s *writerSink) SnapshotEnd(_ context.Context, stream string, at changes.Cursor) error {
	s.buf = s.format.AppendSnapshotEnd(s.buf[:0], stream, s.token, at)
	return s.flush()
}

func (s *writerSink) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	if _, err := s.out.Write(s.buf); err != nil {
		return fmt.Errorf("the output: %w", err)
	}
	return nil
}

func openStdout(t *Target) (Sink, error) {
	name := t.Format
	if name == "" {
		name = FormatJSON
	}
	format, err := NewFormat(name, t.Name, t.Version)
	if err != nil {
		return nil, err
	}
	return newWriterSink(t.Stdout, format), nil
}
