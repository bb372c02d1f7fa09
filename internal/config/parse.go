package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kevy/resp"
)

// Limits of what is read.
const (
	maxFileBytes    = 16 * int64(1<<20)
	maxLineBytes    = 1 << 20
	maxIncludeDepth = 16
	maxFiles        = 1024    // of one start: files may include each other in many ways
	maxDirectives   = 1 << 16 // of one start, included files and command line together
	maxProblems     = 10      // that one start names; the others are counted
	maxShownBytes   = 80      // of a word that an error text repeats
)

// A directive is one line of a file, or one --name with its values.
type directive struct {
	origin string // "file:line" or "--name", for error texts
	name   string // in lower case
	args   []string
}

// got counts the values and lists the first of them.
func (d *directive) got() string {
	const listed = 3
	if len(d.args) == 0 {
		return "none"
	}
	text := strconv.Itoa(len(d.args)) + ":"
	for i, arg := range d.args {
		if i == listed {
			return text + " …"
		}
		text += " " + quoted(arg)
	}
	return text
}

// shown is got, without the values where they are secret.
func (d *directive) shown() string {
	if Secret(d.name) && len(d.args) > 0 {
		return strconv.Itoa(len(d.args))
	}
	return d.got()
}

// quoted shows what was given, whatever bytes it is of.
func quoted(text string) string { return strconv.Quote(shortened(text)) }

// shortened bounds what an error text repeats.
func shortened(text string) string {
	if len(text) > maxShownBytes {
		return strings.ToValidUTF8(text[:maxShownBytes], "") + "…"
	}
	return text
}

// collector gathers the directives of a start.
type collector struct {
	directives []directive
	files      int
	problems   []error // the first maxProblems
	unnamed    int     // problems beyond those
}

func (p *collector) fail(origin, format string, a ...any) {
	if len(p.problems) == maxProblems {
		p.unnamed++
		return
	}
	p.problems = append(p.problems, fmt.Errorf("%s: "+format, append([]any{origin}, a...)...))
}

// err joins the problems; nil if there are none.
func (p *collector) err() error {
	problems := p.problems
	if p.unnamed > 0 {
		problems = append(problems, fmt.Errorf("and %d more", p.unnamed))
	}
	return errors.Join(problems...)
}

// file reads one configuration file. depth is the number of files that include
// it; from says where it is included, and is empty for the first.
func (p *collector) file(name, from string, depth int) {
	origin := name
	if from != "" {
		origin = from + ": include " + name
	}
	p.files++
	if p.files > maxFiles {
		if p.files == maxFiles+1 {
			p.fail(origin, "more than %d files are included", maxFiles)
		}
		return
	}
	f, err := os.Open(name)
	if err != nil {
		p.fail(origin, "the configuration file cannot be read: %w", cause(err))
		return
	}
	defer f.Close()
	// A directory opens and does not read.
	if info, err := f.Stat(); err == nil && info.IsDir() {
		p.fail(origin, "the configuration file cannot be read: it is a directory")
		return
	}
	p.lines(f, name, depth)
}

// lines reads redis.conf syntax: a name and its values a line, quoted as in
// inline commands; empty lines and those that begin with # count for nothing.
func (p *collector) lines(src io.Reader, name string, depth int) {
	bounded := &io.LimitedReader{R: src, N: maxFileBytes + 1}
	lines := bufio.NewScanner(bounded)
	lines.Buffer(nil, maxLineBytes)
	number := 0
	for lines.Scan() {
		number++
		if bytes.IndexByte(lines.Bytes(), 0) >= 0 {
			p.fail(fmt.Sprintf("%s:%d", name, number), "a zero byte: this is no text, and the rest is not read")
			return
		}
		p.line(lines.Bytes(), fmt.Sprintf("%s:%d", name, number), depth)
	}
	origin := fmt.Sprintf("%s:%d", name, number+1)
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		p.fail(origin, "the line is longer than %d bytes", maxLineBytes)
	case err != nil:
		p.fail(origin, "the configuration cannot be read: %w", cause(err))
	case bounded.N <= 0:
		p.fail(name, "the configuration is larger than %d bytes", maxFileBytes)
	}
}

func (p *collector) line(line []byte, origin string, depth int) {
	line = bytes.Trim(line, " \t\r\n")
	if len(line) == 0 || line[0] == '#' {
		return
	}
	words, err := resp.SplitInline(line)
	if err != nil {
		p.fail(origin, "unbalanced quotes; a closing quote ends its word")
		return
	}
	if len(words) == 0 {
		return
	}
	d := newDirective(origin, words)
	if d.name == "include" {
		p.include(d.args, origin, depth)
		return
	}
	p.add(d)
}

func (p *collector) add(d directive) {
	if len(p.directives) == maxDirectives {
		p.fail(d.origin, "more than %d settings are given", maxDirectives)
	}
	if len(p.directives) < maxDirectives+1 {
		p.directives = append(p.directives, d)
	}
}

// include reads files in place of the line. A relative name stands for a file
// in the working directory, as in Redis; a pattern may match none.
func (p *collector) include(patterns []string, origin string, depth int) {
	if len(patterns) != 1 {
		p.fail(origin, "include takes one file name or pattern")
		return
	}
	if depth == maxIncludeDepth {
		p.fail(origin, "files include each other more than %d deep", maxIncludeDepth)
		return
	}
	files := []string{patterns[0]}
	if strings.ContainsAny(patterns[0], "*?[") {
		var err error
		if files, err = filepath.Glob(patterns[0]); err != nil {
			p.fail(origin, "include %s: %w", patterns[0], err)
			return
		}
	}
	for _, f := range files {
		p.file(f, origin, depth+1)
	}
}

// commandLine reads [FILE] [-] [--name value …]…, as redis-server does. It
// returns the file, whether standard input is to be read, and the options. A
// word that follows a --name directly is its value, even if it begins with --;
// a --name that holds a space brings its values along.
func (p *collector) commandLine(args []string) (file string, stdin bool, options []directive) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		file, args = args[0], args[1:]
	}
	if len(args) > 0 && args[0] == "-" {
		stdin, args = true, args[1:]
	} else if n := len(args); n > 0 && args[n-1] == "-" {
		stdin, args = true, args[:n-1]
	}
	for _, arg := range args {
		last := len(options) - 1
		option, isOption := strings.CutPrefix(arg, "--")
		switch {
		case isOption && (last < 0 || len(options[last].args) > 0 || options[last].name == "save"):
			words, err := resp.SplitInline([]byte(option))
			if err != nil || len(words) == 0 {
				p.fail(arg, "not the name of a setting")
				return file, stdin, nil
			}
			options = append(options, newDirective("--"+string(words[0]), words))
		case last < 0:
			p.fail(shortened(arg), "settings are given as --name value")
			return file, stdin, nil
		default:
			options[last].args = append(options[last].args, arg)
		}
	}
	// redis-server takes --save without a value for --save "".
	for i := range options {
		if options[i].name == "save" && len(options[i].args) == 0 {
			options[i].args = []string{""}
		}
	}
	return file, stdin, options
}

func newDirective(origin string, words [][]byte) directive {
	d := directive{origin: origin, name: strings.ToLower(string(words[0]))}
	for _, w := range words[1:] {
		d.args = append(d.args, string(w))
	}
	return d
}

// cause leaves out what the text before it says already.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
