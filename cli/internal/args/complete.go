package args

import (
	"embed"
	"strings"

	"github.com/urfave/cli/v2"
)

// The scripts call the hidden command __complete for candidates, so they never go stale.
//
//go:embed completion/*
var scripts embed.FS

// Shells are the shells with a completion script.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// Script returns the completion script of one of [Shells].
func Script(shell string) ([]byte, error) { return scripts.ReadFile("completion/" + shell) }

// Values finds candidates for the value of a flag, or for an argument. Before that, Set is called for operands and for flags that
// may select the server, Beside for all other flags, and Word for positional arguments. References finds the references, such as
// ${vars.domain}, that the value of a flag may contain.
type Values interface {
	Flag(flag cli.Flag, path []*cli.Command) []string
	References(flag cli.Flag) []string
	Argument(path []*cli.Command, index int) []string
	Set(flag cli.Flag, value string)
	Beside(flag cli.Flag, value string)
	Word(word string)
}

// Complete returns the candidates for the last word of words.
func Complete(app *cli.App, words []string, values Values) []string {
	before, word := words[:len(words)-1], words[len(words)-1]
	if strings.HasPrefix(word, "'") || strings.HasPrefix(word, `"`) {
		word = word[1:] // an open quote, which the shell keeps
	}
	at := completion{app: app, values: values, rest: before, commands: app.Commands, flags: app.Flags}
	for len(at.rest) > 0 {
		if flag, isLast := at.pass(); isLast { // word is its value
			return at.flagValues(flag, word, "")
		}
	}
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") && !at.flagsEnded {
		if flag := FindFlag(at.flags, FlagName(word)); flag != nil {
			return at.flagValues(flag, value, name+"=")
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

// completion is the state after the words before the last one.
type completion struct {
	app        *cli.App
	values     Values
	rest       []string // words not read yet
	path       []*cli.Command
	commands   []*cli.Command // possible next commands
	flags      []cli.Flag     // possible flags
	positional int
	operand    bool // the last command's operand has been read
	flagsEnded bool
}

// pass reads one word, and with a flag its value. isLast: the word to complete is the value of flag.
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
			a.values.Word(w)
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

// wantsOperand reports whether the next word is an operand.
func (a *completion) wantsOperand() bool {
	return len(a.path) > 0 && !a.operand && Operand(a.path[len(a.path)-1]) != ""
}

// flagValues returns the candidates for the value of a flag; after ${ they are references.
func (a *completion) flagValues(flag cli.Flag, value, prefix string) []string {
	if at := strings.LastIndex(value, "${"); at >= 0 && !strings.Contains(value[at:], "}") {
		return matching(value[at:], prefix+value[:at], a.values.References(flag))
	}
	return matching(value, prefix, a.values.Flag(flag, a.path))
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
