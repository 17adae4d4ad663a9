package args

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// kubectlVerbs maps the verbs that kubectl puts before the kind to the commands of a kind.
var kubectlVerbs = map[string]string{
	"get": "get", "list": "list", "ls": "list", "describe": "describe", "create": "create", "delete": "delete", "patch": "set", "label": "label",
}

// nounFirst turns `get clusters`, `describe cluster NAME`, `delete cluster/NAME` and `get resource TYPE NAME` into `cluster list`,
// `cluster describe NAME`, `cluster delete NAME` and `resource TYPE get NAME`. Other command lines stay as they are.
func nounFirst(app *cli.App, words []string) []string {
	at := wordAfter(app, words, 0)
	if at < 0 {
		return words
	}
	verb, known := kubectlVerbs[words[at]]
	if !known || FindCommand(app.Commands, words[at]) != nil {
		return words
	}
	next := wordAfter(app, words, at+1)
	if next < 0 {
		return words
	}
	kind, name, named := strings.Cut(words[next], "/")
	cmd := FindCommand(app.Commands, kind)
	if cmd == nil || FindCommand(cmd.Subcommands, "list") == nil {
		return words
	}
	line := slices.Concat(words[:at], words[at+1:next], []string{kind})
	rest := words[next+1:]
	if Operand(cmd) != "" {
		var operand string
		if named {
			operand, name, named = strings.Cut(name, "/")
		} else if i := wordAfter(app, rest, 0); i >= 0 {
			operand, rest = rest[i], slices.Concat(rest[:i], rest[i+1:])
		} else {
			return append(line, rest...) // without the operand: an error that names it
		}
		line = append(line, operand)
	}
	if FindCommand(cmd.Subcommands, verb) == nil && verb == "describe" {
		verb = "get"
	}
	at = len(line)
	line = append(line, verb)
	if named {
		line = append(line, name)
	}
	line = append(line, rest...)
	if verb != "get" {
		return line
	}
	// Without a name it lists. Only the parsed line separates names from values of flags.
	if parsed, err := arrange(app, line); err == nil && slices.Contains(parsed.Args, "--") {
		return line
	}
	line[at] = "list"
	return line
}

// wordAfter returns the index of the first word from there on that is neither a global flag nor the value of one; -1: there is
// none, or another flag precedes it.
func wordAfter(app *cli.App, words []string, from int) int {
	for i := from; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "-") {
			return i
		}
		f := FindFlag(app.Flags, FlagName(words[i]))
		switch {
		case f == nil:
			return -1
		case TakesValue(f) && !strings.Contains(words[i], "="):
			i++
		}
	}
	return -1
}
