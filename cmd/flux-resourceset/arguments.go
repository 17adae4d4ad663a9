package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// hoist moves flags to where the parser looks for them: a setting's in front of the command, and the command's own in front
// of its arguments. People write `serve --api-mode crud` as often as `--api-mode crud serve`, and `backup FILE --keep 3`.
func hoist(args []string, settings []cli.Flag, commands []*cli.Command) []string {
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
			return slices.Concat(args[:1], front, flagsFirst(rest, commands), args[i:])
		case !strings.HasPrefix(args[i], "-") || !known[name]:
			rest = append(rest, args[i])
		case hasValue || i+1 == len(args):
			front = append(front, args[i])
		default: // every setting takes a value
			front = append(front, args[i], args[i+1])
			i++
		}
	}
	return slices.Concat(args[:1], front, flagsFirst(rest, commands))
}

// flagsFirst moves a command's flags in front of its arguments. The words of a command that has commands are let be.
func flagsFirst(words []string, commands []*cli.Command) []string {
	if len(words) == 0 {
		return words
	}
	at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(words[0]) })
	if at < 0 || len(commands[at].Subcommands) > 0 {
		return words
	}
	takesValue := map[string]bool{}
	for _, f := range commands[at].Flags {
		_, isSwitch := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			takesValue[name] = !isSwitch
		}
	}
	var flags, arguments []string
	for i := 1; i < len(words); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		switch {
		case !strings.HasPrefix(words[i], "-") || words[i] == "-":
			arguments = append(arguments, words[i])
		case takesValue[name] && !hasValue && i+1 < len(words):
			flags = append(flags, words[i], words[i+1])
			i++
		default:
			flags = append(flags, words[i])
		}
	}
	return slices.Concat(words[:1], flags, arguments)
}
