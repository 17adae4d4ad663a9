package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// line is a command line in the order urfave/cli understands.
type line struct {
	args []string       // without the program's name
	path []*cli.Command // the commands named, outermost first
	help bool           // --help was given
}

// compares is true for the command lines that only tell whether something differs.
func (l line) compares() bool {
	if len(l.path) > 0 && (l.path[0].Name == "plan" || l.path[0].Name == "diff") {
		return true
	}
	flags, _, _ := strings.Cut(strings.Join(l.args, "\x00"), "\x00--\x00")
	words := strings.Split(flags, "\x00")
	return slices.Contains(words, "--plan") || slices.Contains(words, "--plan=true")
}

// arrange puts a command line into the order urfave/cli needs: global flags, commands, the last command's flags, "--",
// positional arguments. People type flags anywhere, and urfave/cli silently stops reading them at the first positional
// argument. `--` ends the flags, as everywhere. A value is joined to its flag ("--set=a=b"), so it may start with a
// dash; but a known flag is never taken for the value of the one before it.
func arrange(app *cli.App, args []string) (line, error) {
	a := arranger{app: app, commands: app.Commands, rest: args}
	for len(a.rest) > 0 {
		word := a.rest[0]
		a.rest = a.rest[1:]
		var err error
		switch {
		case word == "--":
			a.positional, a.rest = append(a.positional, a.rest...), nil
		case len(word) > 1 && word[0] == '-':
			err = a.flag(word)
		default:
			err = a.word(word)
		}
		if err != nil {
			return line{}, err
		}
	}
	l := line{args: a.globals, path: a.path, help: a.help}
	for _, cmd := range a.path {
		l.args = append(l.args, cmd.Name)
	}
	l.args = append(l.args, a.locals...)
	if len(a.positional) > 0 {
		l.args = append(append(l.args, "--"), a.positional...)
	}
	return l, nil
}

// arranger is how far arrange has come.
type arranger struct {
	app      *cli.App
	rest     []string       // words to come
	path     []*cli.Command // named so far
	commands []*cli.Command // that can be named next

	globals, locals, positional []string

	help bool
}

// word takes a word that is not a flag: a command as long as one can follow, then arguments.
func (a *arranger) word(word string) error {
	if len(a.commands) == 0 || len(a.positional) > 0 {
		a.positional = append(a.positional, word)
		return nil
	}
	cmd := findCommand(a.commands, word)
	if cmd == nil {
		return unknownCommand(a.app, a.path, word)
	}
	a.path, a.commands = append(a.path, cmd), cmd.Subcommands
	return nil
}

// flag takes a flag, with its value from the words to come if it needs one.
func (a *arranger) flag(word string) error {
	name, value, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if name == "help" || name == "h" {
		a.help = true
		return nil
	}
	flag, global := a.find(name)
	if flag == nil && word[1] != '-' { // -ojson
		if short, g := a.find(word[1:2]); short != nil && takesValue(short) {
			flag, global, name, value, hasValue = short, g, word[1:2], word[2:], true
		}
	}
	if flag == nil {
		return unknownFlag(a.app, a.path, word)
	}
	if !hasValue {
		var err error
		if value, hasValue, err = a.value(flag, name); err != nil {
			return err
		}
	}
	token := "--" + name
	if hasValue {
		token += "=" + value
	}
	if global {
		a.globals = append(a.globals, token)
	} else {
		a.locals = append(a.locals, token)
	}
	return nil
}

// value is the word after a flag, if that is the flag's value.
func (a *arranger) value(flag cli.Flag, name string) (value string, ok bool, err error) {
	next := ""
	if len(a.rest) > 0 {
		next = a.rest[0]
	}
	switch {
	case takesBool(flag) && (next == "true" || next == "false"): // --enabled false
	case !takesValue(flag):
		return "", false, nil
	case len(a.rest) == 0:
		return "", false, usageErrorf("the flag --%s needs a value", name)
	default:
		if other, _ := a.find(flagName(next)); other != nil {
			return "", false, usageErrorf("the flag --%s needs a value, and got the flag %s; write --%s=%s if you mean it", name, next, name, next)
		}
	}
	a.rest = a.rest[1:]
	return next, true, nil
}

// find looks for a flag where it can be: at the commands named so far, the innermost first, and everywhere.
func (a *arranger) find(name string) (f cli.Flag, global bool) {
	for _, cmd := range slices.Backward(a.path) {
		if f := findFlag(cmd.Flags, name); f != nil {
			return f, false
		}
	}
	return findFlag(a.app.Flags, name), true
}

// flagName is the name a token would have as a flag, or empty.
func flagName(token string) string {
	if !strings.HasPrefix(token, "-") {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimLeft(token, "-"), "=")
	return name
}

func findFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if name != "" && slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func findCommand(commands []*cli.Command, name string) *cli.Command {
	for _, cmd := range commands {
		if cmd.HasName(name) {
			return cmd
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	_, isBool := f.(*cli.BoolFlag)
	return !isBool
}

// takesBool is true for the flags whose value can be false for a reason, and so may follow as a word of its own.
func takesBool(f cli.Flag) bool {
	b, isBool := f.(*cli.BoolFlag)
	return isBool && b.Category == settingCategory
}

func unknownCommand(app *cli.App, path []*cli.Command, arg string) error {
	commands, parent := app.Commands, programName
	if len(path) > 0 {
		last := path[len(path)-1]
		commands, parent = last.Subcommands, last.HelpName
	}
	if similar := closest(arg, visible(commands)); similar != "" {
		return usageErrorf("%s has no command %q; did you mean %q?", parent, arg, similar)
	}
	return usageErrorf("%s has no command %q; it has %s", parent, arg, listOf(visible(commands)))
}

func unknownFlag(app *cli.App, path []*cli.Command, arg string) error {
	flags, of := app.Flags, programName
	if len(path) > 0 {
		last := path[len(path)-1]
		flags, of = append(slices.Clone(last.Flags), app.Flags...), last.HelpName
	}
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()[0])
	}
	if similar := closest(flagName(arg), names); similar != "" {
		return usageErrorf("%s has no flag %s; did you mean --%s?", of, arg, similar)
	}
	return usageErrorf("%s has no flag %s; see %s --help", of, arg, of)
}

func visible(commands []*cli.Command) []string {
	var names []string
	for _, cmd := range commands {
		if !cmd.Hidden {
			names = append(names, cmd.Name)
		}
	}
	return names
}

// closest is the candidate that a typing error would most easily turn into word, or empty if none is near.
func closest(word string, candidates []string) string {
	best, limit := "", (len(word)+1)/3
	for _, c := range candidates {
		if d := distance(word, c); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// distance is the number of letters to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// listOf writes names as a sentence does: a, b and c.
func listOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
