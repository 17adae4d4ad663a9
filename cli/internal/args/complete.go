package args

import (
	"embed"
	"strings"

	"github.com/urfave/cli/v2"
)

// The scripts ask the program itself what can follow, with the hidden command __complete, so they never go stale.
//
//go:embed completion/*
var scripts embed.FS

// Shells are those that there is a script for.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// Script is the completion script for one of [Shells].
func Script(shell string) ([]byte, error) { return scripts.ReadFile("completion/" + shell) }

// Values are what can stand for the value of a flag, or for an argument. Set is told of flags before the last word that may
// say which server to ask, and of operands; Beside of the other flags before it.
type Values interface {
	Flag(flag cli.Flag, path []*cli.Command) []string
	Argument(path []*cli.Command, index int) []string
	Set(flag cli.Flag, value string)
	Beside(flag cli.Flag, value string)
}

// Complete answers the words that start like the last one of words and can stand in its place.
func Complete(app *cli.App, words []string, values Values) []string {
	before, word := words[:len(words)-1], words[len(words)-1]
	at := completion{app: app, values: values, rest: before, commands: app.Commands, flags: app.Flags}
	for len(at.rest) > 0 {
		if flag, isLast := at.pass(); isLast { // word is its value
			return matching(word, "", values.Flag(flag, at.path))
		}
	}
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") && !at.flagsEnded {
		if flag := FindFlag(at.flags, FlagName(word)); flag != nil {
			return matching(value, name+"=", values.Flag(flag, at.path))
		}
		return nil
	}
	if strings.HasPrefix(word, "-") && !at.flagsEnded {
		var names []string
		for _, f := range VisibleFlags(at.flags) {
			names = append(names, "--"+f.Names()[0])
		}
		return matching(word, "", names)
	}
	if len(at.commands) > 0 && !at.wantsOperand() {
		return matching(word, "", Visible(at.commands))
	}
	return matching(word, "", values.Argument(at.path, at.positional))
}

// completion is how far the words before the last one lead.
type completion struct {
	app        *cli.App
	values     Values
	rest       []string // words to come
	path       []*cli.Command
	commands   []*cli.Command // that can be named next
	flags      []cli.Flag     // that can be
	positional int
	operand    bool // the last command's has been passed
	flagsEnded bool
}

// pass takes one word, and with a flag its value. isLast: the value of flag would be the word to complete.
func (a *completion) pass() (flag cli.Flag, isLast bool) {
	w := a.rest[0]
	a.rest = a.rest[1:]
	if w == "--" {
		a.flagsEnded = true
		return nil, false
	}
	if a.flagsEnded || !strings.HasPrefix(w, "-") {
		if a.wantsOperand() {
			last := a.path[len(a.path)-1]
			a.values.Set(FindFlag(last.Flags, Operand(last)), w)
			a.operand = true
			return nil, false
		}
		cmd := FindCommand(a.commands, w)
		if cmd == nil || a.positional > 0 {
			a.positional++
			return nil, false
		}
		a.path, a.commands, a.operand = append(a.path, cmd), cmd.Subcommands, false
		a.flags = append(append([]cli.Flag{}, cmd.Flags...), a.flags...)
		return nil, false
	}
	flag = FindFlag(a.flags, FlagName(w))
	if flag == nil || !TakesValue(flag) {
		return nil, false
	}
	_, value, joined := strings.Cut(w, "=")
	if !joined {
		if len(a.rest) == 0 {
			return flag, true
		}
		value, a.rest = a.rest[0], a.rest[1:]
	}
	if FindFlag(a.app.Flags, FlagName(w)) == flag {
		a.values.Set(flag, value)
	} else {
		a.values.Beside(flag, value)
	}
	return nil, false
}

// wantsOperand is true where not a command can follow, but what stands before it.
func (a *completion) wantsOperand() bool {
	return len(a.path) > 0 && !a.operand && Operand(a.path[len(a.path)-1]) != ""
}

func matching(word, prefix string, candidates []string) []string {
	var out []string
	for _, candidate := range candidates {
		if strings.HasPrefix(candidate, word) {
			out = append(out, prefix+candidate)
		}
	}
	return out
}
