package args

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// kubectlVerbs maps the verbs that kubectl puts before the kind to the commands here.
var kubectlVerbs = map[string]string{
	"get": "get", "list": "get", "ls": "get", "describe": "describe", "create": "create", "delete": "delete", "patch": "set", "label": "label",
}

// inOrder turns `cluster list`, `cluster get NAME` and `cluster delete NAME` into `get cluster`, `get cluster NAME` and `delete cluster
// NAME`, and the other order of commands of one kind, such as `create cluster NAME`, into `cluster create NAME`. KIND/NAME is KIND
// NAME. Other command lines stay as they are.
func inOrder(app *cli.App, words []string) []string {
	at := wordAfter(app, words, 0)
	if at < 0 {
		return words
	}
	first := words[at]
	if verb, known := kubectlVerbs[first]; known {
		next := wordAfter(app, words, at+1)
		if next < 0 {
			return words
		}
		operands := strings.SplitN(words[next], "/", 2)
		if FindCommand(kindsOf(app, "get"), operands[0]) == nil {
			return words
		}
		line := slices.Concat(words[:at], words[at+1:next])
		return append(line, ofVerb(app, verb, operands, words[next+1:])...)
	}
	if FindCommand(kindsOf(app, "get"), first) == nil {
		return words
	}
	given, operands, next := words, []string{first}, wordAfter(app, words, at+1)
	if of := FindCommand(app.Commands, first); of != nil && Operand(of) != "" && next >= 0 {
		operands = append(operands, words[next])
		words = slices.Concat(words[:next], words[next+1:])
		next = wordAfter(app, words, next)
	}
	if next < 0 || FindCommand(kindsOf(app, kubectlVerbs[words[next]]), first) == nil {
		return given
	}
	return slices.Concat(words[:at], words[at+1:next], []string{kubectlVerbs[words[next]]}, operands, words[next+1:])
}

// ofVerb returns the words of a command line with a verb, a kind with or without further operands, and the words after them.
func ofVerb(app *cli.App, verb string, operands, rest []string) []string {
	kind := operands[0]
	of := FindCommand(app.Commands, kind)
	if of != nil && Operand(of) != "" && len(operands) > 1 {
		operands = append([]string{kind}, strings.SplitN(operands[1], "/", 2)...)
	}
	if verb == "describe" && (of == nil || FindCommand(of.Subcommands, verb) == nil) {
		verb = "get"
	}
	if kindsOf(app, verb) != nil || of == nil {
		return slices.Concat([]string{verb}, operands, rest)
	}
	at := 1
	if Operand(of) != "" {
		if at = 2; len(operands) == 1 {
			i := wordAfter(app, rest, 0)
			if i < 0 {
				return append(operands, rest...) // without the operand: an error that names it
			}
			operands, rest = append(operands, rest[i]), slices.Concat(rest[:i], rest[i+1:])
		}
	}
	return slices.Concat(operands[:at], []string{verb}, operands[at:], rest)
}

// kindsOf returns the kinds of a verb, such as get; nil if it takes no kind.
func kindsOf(app *cli.App, verb string) []*cli.Command {
	if cmd := FindCommand(app.Commands, verb); cmd != nil && TakesKind(cmd) {
		return cmd.Subcommands
	}
	return nil
}

var helpFlags = []string{"-h", "--help"}

// wordAfter returns the index of the first word from there on that is neither a global flag nor the value of one; -1: there is
// none, or another flag precedes it.
func wordAfter(app *cli.App, words []string, from int) int {
	for i := from; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "-") {
			return i
		}
		f := FindFlag(app.Flags, FlagName(words[i]))
		switch {
		case slices.Contains(helpFlags, words[i]):
		case f == nil:
			return -1
		case TakesValue(f) && !strings.Contains(words[i], "="):
			i++
		}
	}
	return -1
}
