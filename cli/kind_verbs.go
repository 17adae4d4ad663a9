package cli

import (
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/urfave/cli/v2"
)

// kindVerbs are the verbs that take KIND NAME, with the kinds for which they work. They are alike for all these kinds; a verb whose
// flags are those of a kind stands under the kind.
func kindVerbs() map[string][]kinds.Kind {
	all := kinds.All(kinds.ResourcesOfID("TYPE"))
	return map[string][]kinds.Kind{
		"history": append(slices.Clip(all), kinds.Rollouts), "edit": all, "restore": all,
	}
}

// kindVerbNames returns the kinds of kindVerbs by their names in the command line.
func kindVerbNames() map[string]any {
	names := map[string]any{}
	for verb, of := range kindVerbs() {
		var list []string
		for _, n := range of {
			list = append(list, n.Name)
		}
		slices.Sort(list)
		names[verb] = list
	}
	return names
}

// onDocument returns the action of a verb on the document that its arguments name.
func (s *session) onDocument(run func(c *cli.Context, v kindCommands, name string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		kind, name, err := documentOf(c, c.Args().Slice())
		if err != nil {
			return err
		}
		return run(c, kindCommands{s, kind}, name)
	}
}

// documentOf reads KIND NAME or KIND/NAME, where the kind of a resource type's definitions is resource/TYPE or resource TYPE.
func documentOf(c *cli.Context, operands []string) (kinds.Kind, string, error) {
	verb := c.Command.Name
	word, name, named := documents.SplitName(strings.Join(operands, "/"))
	if last := len(operands) - 1; !named || last > 0 && name != operands[last] {
		return kinds.Kind{}, "", args.Errorf("%s takes %s, not %s", c.Command.HelpName, c.Command.ArgsUsage, args.Counted(c.Args().Slice()))
	}
	kind, found := kinds.FindIn(kindVerbs()[verb], word)
	if !found {
		return kind, "", args.Errorf("%s works for %s, not for %q", c.Command.HelpName, args.ListOf(kindVerbNames()[verb].([]string)), word)
	}
	return kind, name, args.CheckID("NAME", name)
}
