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

// arrange puts a command line into the order urfave/cli needs: global flags, commands, the last command's flags, "--",
// positional arguments. People type flags anywhere, and urfave/cli silently stops reading them at the first positional
// argument. `--` ends the flags, as everywhere. A value is joined to its flag ("--set=a=b"), so it may start with a
// dash; but a known flag is never taken for the value of the one before it.
func arrange(app *cli.App, args []string) (line, error) {
	var (
		l                           line
		globals, locals, positional []string
		commands                    = app.Commands
	)
	known := func(name string) (f cli.Flag, global bool) {
		for i := len(l.path) - 1; i >= 0; i-- {
			if f := findFlag(l.path[i].Flags, name); f != nil {
				return f, false
			}
		}
		return findFlag(app.Flags, name), true
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			positional = append(positional, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			if cmd := findCommand(commands, arg); cmd != nil && len(positional) == 0 {
				l.path, commands = append(l.path, cmd), cmd.Subcommands
				continue
			}
			if len(commands) > 0 && len(positional) == 0 {
				return l, unknownCommand(app, l.path, arg)
			}
			positional = append(positional, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == "help" || name == "h" {
			l.help = true
			continue
		}
		flag, global := known(name)
		if flag == nil && arg[1] != '-' { // -ojson
			if short, g := known(arg[1:2]); short != nil && takesValue(short) {
				flag, global, name, value, hasValue = short, g, arg[1:2], arg[2:], true
			}
		}
		if flag == nil {
			return l, unknownFlag(app, l.path, arg)
		}
		if !hasValue && i+1 < len(args) {
			next := args[i+1]
			switch {
			case takesValue(flag):
				if other, _ := known(flagName(next)); other != nil {
					return l, usageErrorf("the flag --%s needs a value, and got the flag %s; write --%s=%s if you mean it", name, next, name, next)
				}
				value, hasValue = next, true
				i++
			case takesBool(flag) && (next == "true" || next == "false"): // --enabled false
				value, hasValue = next, true
				i++
			}
		}
		if takesValue(flag) && !hasValue {
			return l, usageErrorf("the flag --%s needs a value", name)
		}
		token := "--" + name
		if hasValue {
			token += "=" + value
		}
		if global {
			globals = append(globals, token)
		} else {
			locals = append(locals, token)
		}
	}
	l.args = globals
	for _, cmd := range l.path {
		l.args = append(l.args, cmd.Name)
	}
	l.args = append(l.args, locals...)
	if len(positional) > 0 {
		l.args = append(append(l.args, "--"), positional...)
	}
	return l, nil
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
