package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// reorderArgs moves flags to the positions where the parser accepts them: global settings before the command, and the
// command's own flags before its arguments. Users write `serve --api-mode crud` as often as `--api-mode crud serve`, and
// `backup FILE --keep 3`.
func reorderArgs(args []string, settings []cli.Flag, commands []*cli.Command) []string {
	known := map[string]bool{}
	for _, f := range settings {
		for _, name := range f.Names() {
			known[name] = true
		}
	}
	var front, rest []string
	for i := 1; i < len(args); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case args[i] == "--":
			command, arguments := splitFlags(rest, commands)
			return slices.Concat(args[:1], front, command, []string{"--"}, arguments, args[i+1:])
		case !strings.HasPrefix(args[i], "-") || !known[name]:
			rest = append(rest, args[i])
		case hasValue || i+1 == len(args):
			front = append(front, args[i])
		default: // every setting takes a value
			front = append(front, args[i], args[i+1])
			i++
		}
	}
	command, arguments := splitFlags(rest, commands)
	return slices.Concat(args[:1], front, command, arguments)
}

// splitFlags separates a command with its flags from its arguments. It leaves a command with subcommands as it is. If
// the value of the last flag is missing, it returns no arguments, so that the parser reports the missing value.
func splitFlags(words []string, commands []*cli.Command) (command, arguments []string) {
	if len(words) == 0 {
		return words, nil
	}
	at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(words[0]) })
	if at < 0 || len(commands[at].Subcommands) > 0 {
		return words, nil
	}
	takesValue := map[string]bool{}
	for _, f := range commands[at].Flags {
		_, isSwitch := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			takesValue[name] = !isSwitch
		}
	}
	command = words[:1:1]
	for i := 1; i < len(words); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		switch {
		case !strings.HasPrefix(words[i], "-") || words[i] == "-":
			arguments = append(arguments, words[i])
		case takesValue[name] && !hasValue && i+1 == len(words):
			return append(command, words[i]), nil
		case takesValue[name] && !hasValue:
			command = append(command, words[i], words[i+1])
			i++
		default:
			command = append(command, words[i])
		}
	}
	return command, arguments
}
