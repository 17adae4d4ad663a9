package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// hoist moves the settings' flags that stand behind a command in front of it, where the parser looks for them: people
// write `serve --api-mode crud` as often as `--api-mode crud serve`.
func hoist(args []string, settings []cli.Flag) []string {
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
			return slices.Concat(args[:1], front, rest, args[i:])
		case !strings.HasPrefix(args[i], "-") || !known[name]:
			rest = append(rest, args[i])
		case hasValue || i+1 == len(args):
			front = append(front, args[i])
		default: // every setting takes a value
			front = append(front, args[i], args[i+1])
			i++
		}
	}
	return slices.Concat(args[:1], front, rest)
}
