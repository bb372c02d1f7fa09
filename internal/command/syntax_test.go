package command

import (
	"strings"
	"testing"
)

// text writes arguments as redis-cli shows them.
func text(list []Argument, separator string) string {
	var out []string
	for _, a := range list {
		t := a.Name
		switch a.Type {
		case PureToken:
			t = a.Token
		case OneOf:
			t = text(a.Arguments, "|")
		case Block:
			t = text(a.Arguments, " ")
		}
		if a.Token != "" && a.Type != PureToken {
			t = a.Token + " " + t
		}
		switch {
		case a.Multiple && a.MultipleToken:
			t += " ..."
		case a.Multiple:
			t += " [" + strings.TrimPrefix(t, a.Token+" ") + " ...]"
		}
		if a.Optional {
			t = "[" + t + "]"
		}
		out = append(out, t)
	}
	return strings.Join(out, separator)
}

func TestArguments(t *testing.T) {
	for syntax, want := range map[string]string{
		"":                                  "",
		"key":                               "key",
		"key value [key value ...]":         "key value [key value ...]",
		"key [key ...]":                     "key [key ...]",
		"[command-name [command-name ...]]": "[command-name [command-name ...]]",
		"key [NX | XX] [GET] [EX seconds | PX milliseconds | KEEPTTL]":                      "key [NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]",
		"numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]": "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX]",
		"key <BEFORE | AFTER> pivot":                       "key BEFORE|AFTER pivot",
		"source destination <LEFT | RIGHT> <LEFT | RIGHT>": "source destination LEFT|RIGHT LEFT|RIGHT",
		"key [LIMIT offset count]":                         "key [LIMIT offset count]",
		"key [start [end [BYTE | BIT]]]":                   "key [start [end [BYTE|BIT]]]",
		"key [GET type offset ...]":                        "key [GET type offset ...]",
		"key [GET a | [X | Y] SET b] ...":                  "key [GET a|[X|Y] SET b [GET a|[X|Y] SET b ...]]",
		"<a | [ID id] [TYPE <X | Y>]>":                     "a|[ID id] [TYPE X|Y]",
		"stream [DB <n | *>] [PREFIX p ...]":               "stream [DB n|*] [PREFIX p ...]",
	} {
		s := &Spec{Syntax: syntax, Keys: One(1, RO)}
		if got := text(s.Arguments(), " "); got != want {
			t.Errorf("%s:\n got  %s\n want %s", syntax, got, want)
		}
	}
	zunionstore := &Spec{Syntax: "destination numkeys key [key ...]", Keys: []KeySpec{Range(1, 0, 1, OW), Count(2, RO)}}
	a := zunionstore.Arguments()
	if len(a) != 3 || a[0].KeySpec != 0 || a[1].KeySpec != -1 || a[1].Type != IntegerArgument || a[2].KeySpec != 1 || !a[2].Multiple {
		t.Errorf("%+v", a)
	}
	del := (&Spec{Syntax: "key [key ...]", Keys: []KeySpec{Range(1, -1, 1, RM)}}).Arguments()
	if len(del) != 1 || del[0].KeySpec != 0 || del[0].Type != KeyArgument || !del[0].Multiple || del[0].Optional {
		t.Errorf("%+v", del)
	}
	// Without keys nothing is one.
	if a := (&Spec{Syntax: "key"}).Arguments(); a[0].Type != StringArgument || a[0].KeySpec != -1 {
		t.Errorf("%+v", a)
	}
	// What is not well formed is read as far as it makes sense.
	for _, odd := range []string{"[", "]", "a ]", "a | b", "...", "[a", "<a |", "[[[[", "a ... ..."} {
		_ = (&Spec{Syntax: odd}).Arguments()
	}
}
