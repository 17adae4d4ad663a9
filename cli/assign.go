package cli

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/apiclient"
	"github.com/urfave/cli/v2"
)

func clusterFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "cluster", Usage: usage}
}

// createCommand creates a definition or changes it when it exists, and with --cluster also assigns it. settings are
// the fields of the assignment.
func (s *session) createCommand(n noun, settings ...field) *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     fmt.Sprintf("Create a %s, or change the fields given when it exists; with --cluster also assign it", n.title),
		ArgsUsage: "NAME", Description: exampleText(n.example),
		Flags: slices.Concat(flagsOf(n.fields), flagsOf(settings), []cli.Flag{
			clusterFlag("assign it to this `CLUSTER` too"), fileFlag("the document"), dryRunFlag(),
		}),
		Action: func(c *cli.Context) error {
			id, doc, err := s.documentFrom(c, n)
			if err != nil {
				return err
			}
			return s.createAndAssign(c, n, id, doc, settings, c.String("cluster"))
		},
	}
}

// createAndAssign answers the definition, or one document with both when there is a cluster.
func (s *session) createAndAssign(c *cli.Context, n noun, id string, doc map[string]any, settings []field, cluster string) error {
	assignment, err := settingsOf(c, settings)
	if err != nil {
		return err
	}
	if cluster == "" {
		if c.IsSet("cluster") {
			return usageErrorf("--cluster must not be empty")
		}
		if len(assignment) > 0 {
			return usageErrorf("--enabled and the --cluster-… settings are those of an assignment; name its --cluster")
		}
		return s.change(c, n, func(api client) (answer, error) {
			a, _, err := s.upsert(c, n, api, id, doc)
			return a, err
		})
	}
	if err := checkID("--cluster", cluster); err != nil {
		return err
	}
	api, err := s.ready(c)
	if err != nil {
		return err
	}
	// Two changes: look for what would stop the second before making the first.
	before, err := receive(api.GetCluster(c.Context, cluster, nil))
	if err != nil {
		return err
	}
	definition, existed, err := s.upsert(c, n, api, id, doc)
	if err != nil {
		return err
	}
	after := before
	if c.Bool("dry-run") && !existed {
		s.note("The assignment was not checked: the %s does not exist yet.", n.title)
	} else if after, err = s.assign(c, n, api, cluster, id, assignment); err != nil {
		return fmt.Errorf("the %s %q is stored, but assigning it to %q failed: %w", n.title, id, cluster, err)
	}
	return s.printPair(c, n, definition.body, after.body)
}

// printPair prints a definition and the cluster it was assigned to, as one document.
func (s *session) printPair(c *cli.Context, n noun, definition, cluster json.RawMessage) error {
	members := []byte(fmt.Sprintf(`{%q:`, n.name))
	members = append(members, definition...)
	members = append(members, `,"cluster":`...)
	members = append(append(members, cluster...), '}')
	return s.printChange(c, output{
		document: members,
		tables: func() ([]table, error) {
			first, err := n.view.table(definition)
			if err != nil {
				return nil, err
			}
			second, err := clusters.view.table(cluster)
			return []table{first, second}, err
		},
		names: func() ([]string, error) {
			names, err := n.names(definition)
			if err != nil {
				return nil, err
			}
			more, err := clusters.names(cluster)
			return append(names, more...), err
		},
	})
}

func settingsOf(c *cli.Context, settings []field) (map[string]any, error) {
	values := map[string]any{}
	return values, collect(c, settings, values)
}

func (s *session) assign(c *cli.Context, n noun, api client, cluster, id string, settings map[string]any, more ...edit) (answer, error) {
	body, err := encode(settings)
	if err != nil {
		return answer{}, err
	}
	return receive(n.api.assign(c.Context, api, cluster, id, body, append(writeEdits(c), more...)...))
}

func (s *session) assignCommand(n noun, settings ...field) *cli.Command {
	usage := fmt.Sprintf("Assign a %s to a cluster", n.title)
	if len(settings) > 0 {
		usage += ", or change the settings given of its assignment"
	}
	return &cli.Command{
		Name:      "assign",
		Usage:     usage,
		ArgsUsage: "NAME",
		Flags:     slices.Concat([]cli.Flag{clusterFlag("the `CLUSTER` (required)")}, flagsOf(settings), writeFlags()),
		Action: func(c *cli.Context) error {
			id, cluster, err := assignmentOf(c)
			if err != nil {
				return err
			}
			values, err := settingsOf(c, settings)
			if err != nil {
				return err
			}
			return s.change(c, clusters, func(api client) (answer, error) {
				return s.assign(c, n, api, cluster, id, values)
			})
		},
	}
}

func (s *session) unassignCommand(n noun, consequence string, scriptsMay bool) *cli.Command {
	return &cli.Command{
		Name:      "unassign",
		Usage:     fmt.Sprintf("Take a %s off a cluster, where Flux then removes %s", n.title, consequence),
		ArgsUsage: "NAME",
		Flags:     slices.Concat([]cli.Flag{clusterFlag("the `CLUSTER` (required)"), yesFlag()}, writeFlags()),
		Action: func(c *cli.Context) error {
			id, cluster, err := assignmentOf(c)
			if err != nil {
				return err
			}
			if err := s.confirm(c, fmt.Sprintf("take the %s %q off %q, where Flux then removes %s", n.title, id, cluster, consequence), scriptsMay); err != nil {
				return err
			}
			return s.change(c, clusters, func(api client) (answer, error) {
				return receive(n.api.unassign(c.Context, api, cluster, id, writeEdits(c)...))
			})
		},
	}
}

// assignmentOf are the argument and the --cluster of a command about one assignment.
func assignmentOf(c *cli.Context) (id, cluster string, err error) {
	args, err := arguments(c, "NAME")
	if err != nil {
		return "", "", err
	}
	cluster, err = required(c, "cluster")
	return args[0], cluster, err
}

// onVersion makes a change that depends on what a cluster is now, and only if it still is: decide looks at the cluster
// and makes the change under the condition it is given. When somebody was faster it decides again.
func (s *session) onVersion(c *cli.Context, api client, cluster string, decide func(now answer, unchanged edit) (answer, error)) (before, after answer, err error) {
	for range maxRaces {
		if before, err = receive(api.GetCluster(c.Context, cluster, nil)); err != nil {
			return before, after, err
		}
		condition := before.etag
		if tag := c.String("if-match"); tag != "" {
			condition = tag
		}
		after, err = decide(before, header("If-Match", condition))
		if apiclient.ErrorCode(err) != "stale" || c.IsSet("if-match") {
			break
		}
	}
	return before, after, err
}
