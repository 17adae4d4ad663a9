package cli

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// getCommand is the command that lists and shows documents of all kinds.
func (s *session) getCommand() *cli.Command {
	var of []*cli.Command
	for _, n := range slices.Concat([]kinds.Kind{kinds.Clusters}, kinds.Definitions(), []kinds.Kind{kinds.ResourceTypes, kinds.Layers, kinds.Rollouts}, kinds.Administrative()) {
		of = append(of, kindCommands{s, n}.getCommand())
	}
	resources := s.ofType(func(v kindCommands) *cli.Command { return v.getCommand() })
	return &cli.Command{
		Name: "get", Usage: "List the documents of a kind, or show those of the given names", ArgsUsage: "KIND [NAME...]",
		Description: "Lists are complete unless --limit is given. -o wide has more columns, -o yaml whole documents.\n\n" +
			args.ExampleText("get clusters --selector region=eu", "get cluster prod-01 -o yaml", "get component podinfo --revision 41", "get resource network-policies", "get revisions --actor token:ci --watch"),
		Subcommands: append(of, resources, tokenCommands{s}.getCommand(), approvalCommands{s}.getCommand(), revisionCommands{s}.getCommand()),
	}
}

// deleteCommand is the command that deletes documents of all kinds. A freeze ends with unfreeze, and a token is revoked.
func (s *session) deleteCommand() *cli.Command {
	of := []*cli.Command{clusterCommands{s}.deleteCommand()}
	for _, n := range kinds.Definitions() {
		of = append(of, kindCommands{s, n}.deleteCommand())
	}
	of = append(of,
		s.ofType(func(v kindCommands) *cli.Command { return v.deleteCommand() }), s.deleteResourceTypeCommand(), s.deleteLayerCommand(),
		kindCommands{s, kinds.Rollouts}.deleteUnservedCommand("Delete a rollout that is completed or aborted; the history keeps it"),
		kindCommands{s, kinds.Strategies}.deleteUnservedCommand("Delete a strategy; rollouts keep their stages"),
		kindCommands{s, kinds.Access}.deleteUnservedCommand("Withdraw the rights of an access document"),
		kindCommands{s, kinds.Webhooks}.deleteUnservedCommand("Delete a webhook; delivery ends within 3 seconds"),
		kindCommands{s, kinds.Sources}.deleteUnservedCommand("Delete a source; its documents stay, and others can change them then"),
		kindCommands{s, kinds.Policies}.deleteUnservedCommand("Delete a policy: later changes are not judged by it"),
		approvalCommands{s}.deleteCommand(),
	)
	return &cli.Command{
		Name: "delete", Usage: "Delete a document; of clusters, several at once", ArgsUsage: "KIND NAME",
		Description: "On a terminal it asks. Flux on the clusters removes what they are no longer served: --plan shows it.\n\n" +
			args.ExampleText("delete component podinfo --cascade --plan", "delete cluster prod-01", "delete layer eu", "delete resource network-policies podinfo"),
		Subcommands: of,
	}
}
