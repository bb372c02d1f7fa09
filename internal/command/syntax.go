package command

import (
	"slices"
	"strings"
)

// Argument is a part of a command's syntax, in the form of COMMAND DOCS.
type Argument struct {
	Name  string
	Type  ArgumentType
	Token string // the word before it, or itself if it is a PureToken
	// KeySpec is the index of the key spec that finds it, -1 unless it is a key.
	KeySpec int
	// Optional may be missing, Multiple may be repeated, with MultipleToken along
	// with its token.
	Optional, Multiple, MultipleToken bool
	Arguments                         []Argument // of OneOf and Block
}

// ArgumentType is what COMMAND DOCS calls the type of an argument.
type ArgumentType string

// The types of arguments.
const (
	StringArgument   ArgumentType = "string"
	IntegerArgument  ArgumentType = "integer"
	DoubleArgument   ArgumentType = "double"
	KeyArgument      ArgumentType = "key"
	PatternArgument  ArgumentType = "pattern"
	UnixTimeArgument ArgumentType = "unix-time"
	PureToken        ArgumentType = "pure-token"
	OneOf            ArgumentType = "oneof"
	Block            ArgumentType = "block"
)

// typeOfWord is what the words of syntaxes stand for; all others are strings.
var typeOfWord = map[string]ArgumentType{
	"key": KeyArgument, "key1": KeyArgument, "key2": KeyArgument, "source": KeyArgument, "destination": KeyArgument,
	"destkey": KeyArgument, "newkey": KeyArgument,
	"count": IntegerArgument, "cursor": IntegerArgument, "numkeys": IntegerArgument, "numfields": IntegerArgument, "seconds": IntegerArgument, "milliseconds": IntegerArgument,
	"offset": IntegerArgument, "index": IntegerArgument, "index1": IntegerArgument, "index2": IntegerArgument, "db": IntegerArgument,
	"destination-db": IntegerArgument, "limit": IntegerArgument, "rank": IntegerArgument, "num-matches": IntegerArgument, "len": IntegerArgument,
	"length": IntegerArgument, "bit": IntegerArgument, "client-id": IntegerArgument, "protover": IntegerArgument,
	"generation": IntegerArgument, "n": IntegerArgument, "ms": IntegerArgument,
	"score": DoubleArgument, "weight": DoubleArgument, "timeout": DoubleArgument,
	"pattern": PatternArgument, "glob": PatternArgument,
	"unix-seconds": UnixTimeArgument, "unix-milliseconds": UnixTimeArgument,
}

// Arguments returns the command's arguments as its Syntax has them.
func (s *Spec) Arguments() []Argument {
	p := syntaxParser{keys: s.Keys, words: strings.Fields(spaced.Replace(s.Syntax))}
	return p.sequence()
}

var spaced = strings.NewReplacer("[", " [ ", "]", " ] ", "<", " < ", ">", " > ", "|", " | ")

// syntaxParser reads a Syntax: words, [optional parts], <groups>, | between
// alternatives, and ... behind what may be repeated.
type syntaxParser struct {
	words   []string
	keys    []KeySpec
	nextKey int // the spec of the next key
}

func (p *syntaxParser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// sequence reads arguments up to the end of what it is in.
func (p *syntaxParser) sequence() (list []Argument) {
	w := ""
	for len(p.words) > 0 {
		before := w
		switch w = p.words[0]; w {
		case "]", ">", "|":
			return list
		case "[":
			p.next()
			a := p.group()
			w = "]"
			if n := repeats(a, list); n > 0 {
				a = one(list[len(list)-n:])
				a.Multiple = true
				list = append(list[:len(list)-n], a)
				continue
			}
			a.Optional = true
			list = append(list, a)
		case "<":
			p.next()
			list = append(list, p.group())
			w = ">"
		case "...":
			// Behind a bracket it repeats what that closes, else all before it.
			p.next()
			from := 0
			if before == "]" || before == ">" {
				from = len(list) - 1
			}
			a := one(list[from:])
			a.Multiple, a.MultipleToken = true, a.Token != ""
			list = append(list[:from], a)
		default:
			p.next()
			list = append(list, p.word(w))
		}
	}
	return list
}

// group reads alternatives and what closes them.
func (p *syntaxParser) group() Argument {
	alternatives := []Argument{one(p.sequence())}
	for p.next() == "|" {
		alternatives = append(alternatives, one(p.sequence()))
	}
	if len(alternatives) == 1 {
		return alternatives[0]
	}
	return Argument{Name: joinNames(alternatives), Type: OneOf, KeySpec: -1, Arguments: alternatives}
}

func (p *syntaxParser) word(w string) Argument {
	if w == "*" {
		return Argument{Name: "any", Type: PureToken, Token: w, KeySpec: -1}
	}
	if w == strings.ToUpper(w) {
		return Argument{Name: strings.ToLower(w), Type: PureToken, Token: w, KeySpec: -1}
	}
	a := Argument{Name: w, Type: StringArgument, KeySpec: -1}
	if t, ok := typeOfWord[w]; ok {
		a.Type = t
	}
	if a.Type != KeyArgument {
		return a
	}
	if len(p.keys) == 0 {
		a.Type = StringArgument
		return a
	}
	last := len(p.keys) - 1
	for p.nextKey < last && p.keys[p.nextKey].Unknown && p.keys[p.nextKey].Find == nil {
		p.nextKey++ // one that finds no argument
	}
	a.KeySpec = min(p.nextKey, last)
	p.nextKey++
	return a
}

// one makes a sequence one argument: a token belongs to what follows it.
func one(list []Argument) Argument {
	if len(list) == 1 {
		return list[0]
	}
	token := ""
	if len(list) > 1 && list[0].Type == PureToken {
		token, list = list[0].Token, list[1:]
	}
	if len(list) == 1 && list[0].Token == "" {
		a := list[0]
		a.Token = token
		return a
	}
	return Argument{Name: joinNames(list), Type: Block, Token: token, KeySpec: -1, Arguments: slices.Clone(list)}
}

// repeats returns how many arguments at the end of list an optional part says
// may come again, 0 if it is something else.
func repeats(again Argument, list []Argument) int {
	if !again.Multiple {
		return 0
	}
	for n := 1; n <= len(list); n++ {
		before := one(list[len(list)-n:])
		if before.Name == again.Name && before.Type == again.Type && before.Token == again.Token {
			return n
		}
	}
	return 0
}

func joinNames(list []Argument) string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return strings.Join(names, "_")
}
