package argv

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// kubectlVerbs are the verbs that kubectl puts before the kind, with the command of a kind that each becomes.
var kubectlVerbs = map[string]string{
	"get": "get", "list": "list", "ls": "list", "describe": "describe", "create": "create", "edit": "edit", "delete": "delete", "patch": "patch", "label": "label",
}

// nounFirst turns `get clusters`, `describe cluster NAME` and `edit cluster/NAME` into `cluster list`, `cluster describe NAME` and
// `cluster edit NAME`. Other command lines stay as they are.
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
	noun, name, named := strings.Cut(words[next], "/")
	cmd := FindCommand(app.Commands, noun)
	if cmd == nil || Operand(cmd) != "" || FindCommand(cmd.Subcommands, "list") == nil {
		return words
	}
	if FindCommand(cmd.Subcommands, verb) == nil && verb == "describe" {
		verb = "get"
	}
	line := slices.Concat(words[:at], words[at+1:next], []string{noun, verb})
	if named {
		line = append(line, name)
	}
	line = append(line, words[next+1:]...)
	if verb != "get" {
		return line
	}
	// Without a name it lists. What is a name and what is the value of a flag is known when the line can be read as `get NAME`.
	if read, err := arrange(app, line); err == nil && slices.Contains(read.Args, "--") {
		return line
	}
	line[next] = "list" // where the verb stands: one word has gone before the noun
	return line
}

// wordAfter is the place of the first word from there on that is neither a flag of every command nor the value of one; -1: there is
// none, or other flags come first.
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
