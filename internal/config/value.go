package config

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
)

// A value is one setting's current value in its own type.
type value interface {
	// parse reads text without storing anything. current is what the setting
	// holds; repeated says that this load of the configuration has set it
	// before, which matters to settings whose lines add up.
	parse(text string, current any, repeated bool) (any, error)
	load() any
	store(v any)
	// format gives the text that CONFIG GET shows; parse accepts it.
	format(v any) string
	// allowed describes what parse accepts, for error texts and docs.
	allowed() string
}

// A refusal says why a text is no value of a setting. Where redis-server 7.0
// has the setting, the words are those it answers, punctuation included.
type refusal string

func (r refusal) Error() string { return string(r) }

// A bound is a refusal that names all values that are allowed.
type bound string

func (b bound) Error() string { return string(b) }

const (
	errNotInteger refusal = "argument couldn't be parsed into an integer"
	errNotMemory  refusal = "argument must be a memory value"
	errNotBool    bound   = "argument must be 'yes' or 'no'"
)

func outOfBounds(low, high int64) error {
	return bound("argument must be between " + strconv.FormatInt(low, 10) +
		" and " + strconv.FormatInt(high, 10) + " inclusive")
}

// Int is an integer setting; a count, a time or, with memory units, bytes.
type Int struct {
	row
	current   atomic.Int64
	low, high int64
	memory    bool              // units are accepted and negative numbers are not
	settle    func(int64) int64 // if set: moves a value that is within bounds to the nearest one in use
}

// Load returns the current value.
func (i *Int) Load() int64 { return i.current.Load() }

func (i *Int) load() any   { return i.current.Load() }
func (i *Int) store(v any) { i.current.Store(v.(int64)) }

func (i *Int) format(v any) string { return strconv.FormatInt(v.(int64), 10) }

func (i *Int) parse(text string, _ any, _ bool) (any, error) {
	var n int64
	if i.memory {
		bytes, err := ParseMemory(text)
		if err != nil {
			return nil, err
		}
		if bytes > math.MaxInt64 {
			return nil, outOfBounds(i.low, i.high)
		}
		n = int64(bytes)
	} else {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || strconv.FormatInt(n, 10) != text {
			// One spelling a number: no sign, zeros or spaces in front.
			return nil, errNotInteger
		}
	}
	if n < i.low || n > i.high {
		return nil, outOfBounds(i.low, i.high)
	}
	if i.settle != nil {
		n = i.settle(n)
	}
	return n, nil
}

func (i *Int) allowed() string {
	kind := "integer"
	if i.memory {
		kind = "bytes, with a unit or without"
	}
	switch {
	case i.high == math.MaxInt64 && i.low == math.MinInt64:
		return kind
	case i.high == math.MaxInt64 && i.memory && i.low == 0:
		return kind
	case i.high == math.MaxInt64:
		return kind + ", at least " + strconv.FormatInt(i.low, 10)
	default:
		return kind + ", " + strconv.FormatInt(i.low, 10) + " to " + strconv.FormatInt(i.high, 10)
	}
}

// memoryUnits are powers of 1000 without the b and of 1024 with it.
var memoryUnits = map[string]uint64{
	"": 1, "b": 1,
	"k": 1000, "kb": 1 << 10,
	"m": 1000 * 1000, "mb": 1 << 20,
	"g": 1000 * 1000 * 1000, "gb": 1 << 30,
}

// ParseMemory reads digits and an optional unit. What overflows is capped at
// the largest number, so that bounds decide about it.
func ParseMemory(text string) (uint64, error) {
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	unit, known := memoryUnits[strings.ToLower(text[digits:])]
	if digits == 0 || !known {
		return 0, errNotMemory
	}
	n, err := strconv.ParseUint(text[:digits], 10, 64)
	if err != nil || n > math.MaxUint64/unit {
		return math.MaxUint64, nil
	}
	return n * unit, nil
}

// Bool is a yes or no setting.
type Bool struct {
	row
	current atomic.Bool
}

// Load returns the current value.
func (b *Bool) Load() bool { return b.current.Load() }

func (b *Bool) load() any   { return b.current.Load() }
func (b *Bool) store(v any) { b.current.Store(v.(bool)) }

func (b *Bool) format(v any) string {
	if v.(bool) {
		return "yes"
	}
	return "no"
}

func (b *Bool) parse(text string, _ any, _ bool) (any, error) {
	switch {
	case strings.EqualFold(text, "yes"):
		return true, nil
	case strings.EqualFold(text, "no"):
		return false, nil
	}
	return nil, errNotBool
}

func (b *Bool) allowed() string { return "yes or no" }

// Choice names one value of an Enum.
type Choice[T ~int] struct {
	Name  string
	Value T
}

// Enum is a setting that takes one of a few words.
type Enum[T ~int] struct {
	row
	current atomic.Int64
	choices []Choice[T]
}

// Load returns the current value.
func (e *Enum[T]) Load() T { return T(e.current.Load()) }

// String returns the word for the current value.
func (e *Enum[T]) String() string { return e.format(e.Load()) }

func (e *Enum[T]) load() any   { return e.Load() }
func (e *Enum[T]) store(v any) { e.current.Store(int64(v.(T))) }

func (e *Enum[T]) format(v any) string {
	for _, c := range e.choices {
		if c.Value == v.(T) {
			return c.Name
		}
	}
	panic("config: a value outside its enumeration")
}

func (e *Enum[T]) parse(text string, _ any, _ bool) (any, error) {
	for _, c := range e.choices {
		if strings.EqualFold(text, c.Name) {
			return c.Value, nil
		}
	}
	return nil, bound("argument(s) must be one of the following: " + e.names())
}

func (e *Enum[T]) names() string {
	names := make([]string, len(e.choices))
	for i, c := range e.choices {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

func (e *Enum[T]) allowed() string { return "one of " + e.names() }

// Text is a setting that takes any string, or what its check lets pass.
type Text struct {
	row
	current atomic.Pointer[string]
	form    string // for docs, when check is set
	// check may refuse a text or bring it into its canonical form.
	check func(text string) (string, error)
}

// Load returns the current value.
func (t *Text) Load() string { return *t.current.Load() }

func (t *Text) load() any { return t.Load() }
func (t *Text) store(v any) {
	text := v.(string)
	t.current.Store(&text)
}

func (t *Text) format(v any) string { return v.(string) }

func (t *Text) parse(text string, _ any, _ bool) (any, error) {
	if t.check == nil {
		return text, nil
	}
	return t.check(text)
}

func (t *Text) allowed() string {
	if t.form != "" {
		return t.form
	}
	return "string"
}

// Words is a setting that takes several words, separated by single spaces.
type Words struct {
	row
	current atomic.Pointer[[]string]
	form    string
	adds    bool // lines of one load add up
	// check refuses words, or writes those that are taken as they are shown.
	check func(words []string) error
}

// Load returns the current words. They belong to the setting and are never
// written again: a change stores a new slice.
func (w *Words) Load() []string { return *w.current.Load() }

func (w *Words) load() any { return w.Load() }
func (w *Words) store(v any) {
	words := v.([]string)
	w.current.Store(&words)
}

func (w *Words) format(v any) string { return strings.Join(v.([]string), " ") }

func (w *Words) parse(text string, current any, repeated bool) (any, error) {
	words := splitWords(text)
	if w.check != nil {
		if err := w.check(words); err != nil {
			return nil, err
		}
	}
	if w.adds && repeated && len(words) > 0 {
		words = append(append([]string(nil), current.([]string)...), words...)
	}
	return words, nil
}

func (w *Words) allowed() string {
	if w.form != "" {
		return w.form
	}
	return "words"
}

// splitWords splits at every space, so that two in a row leave an empty word
// for the check to refuse.
func splitWords(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, " ")
}
