package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// maxTestedRevisions is the server's limit of --last.
const maxTestedRevisions = 200

// policyTrials is the command that tests policies.
type policyTrials struct{ *session }

func (s policyTrials) testCommand() *cli.Command {
	return &cli.Command{
		Name: "test", Usage: "Test a policy that is not stored, on a change or on the last revisions",
		Description: "Nothing is changed or stored. With --plan-of, the rule is evaluated on the change that `apply` of these files would make;\n" +
			"with --last, on the newest revisions, as if the policy had existed before. It requires the right to read the whole fleet.\n" +
			"Exit code 0: it refuses nothing, 1: it would refuse a change (not with action warn), 2: wrong command line, 3: error.\n\n" +
			args.ExampleText("policy test -f prod-in-stages.yaml --last 100", "policy test -f prod-in-stages.yaml --plan-of fleet/"),
		Flags: []cli.Flag{
			change.FileFlag("the policy"),
			&cli.StringSliceFlag{Name: "plan-of", Usage: "test the change that applying this `FILE` or directory would make; repeat for more"},
			&cli.IntFlag{Name: "last", Usage: fmt.Sprintf("test the `NUMBER` newest revisions, at most %d", maxTestedRevisions)},
		},
		Action: s.test,
	}
}

func (s policyTrials) test(c *cli.Context) error {
	switch {
	case !c.IsSet("file"):
		return args.Errorf("%s needs --file", c.Command.HelpName)
	case c.IsSet("plan-of") == c.IsSet("last"):
		return args.Errorf("%s needs one of --plan-of and --last", c.Command.HelpName)
	case c.IsSet("last") && (c.Int("last") < 1 || c.Int("last") > maxTestedRevisions):
		return args.Errorf("--last must be from 1 to %d", maxTestedRevisions)
	}
	if _, err := args.Operands(c); err != nil {
		return err
	}
	id, body, err := s.FieldsFrom(c, kinds.Policies)
	if err != nil {
		return err
	}
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	request := map[string]any{"policy": body}
	var ops []change.Operation
	describe := change.DescribeOperation
	if c.IsSet("last") {
		request["last"] = c.Int("last")
	} else {
		run := applyRun{s: s.session, c: c, set: manifests.Set{Kinds: kinds.ForFiles()}}
		if run.set.Documents, err = manifests.ReadFiles(run.set.Kinds, c.StringSlice("plan-of"), s.Input); err != nil {
			return err
		}
		if ops, err = run.operations(client); err != nil {
			return err
		}
		if len(ops) == 0 {
			return fmt.Errorf("--plan-of: the files contain no documents")
		}
		request["operations"], describe = ops, run.describe
	}
	answer, err := conn.Receive(conn.Send(c.Context, client, http.MethodPost, kinds.Policies.Calls.Path+"/test", request, s.PlanEdits(ops)))
	if err != nil {
		return change.DescribeLocations(ops, err, describe)
	}
	var result api.PolicyTest
	if err := answer.Decode(&result); err != nil {
		return err
	}
	action := policyTestAction(body)
	if err := s.Print(c, render.Output{
		Document: answer.Body,
		Text:     func(wide bool) string { return policyTestText(id, action, result, wide) },
		Names: func() ([]string, error) {
			var names []string
			for _, f := range result.Failures {
				if f.Revision > 0 {
					names = append(names, "revision/"+strconv.FormatInt(f.Revision, 10))
				}
			}
			return names, nil
		},
	}); err != nil {
		return err
	}
	if len(result.Failures) > 0 && action != "warn" {
		return change.ErrDiffers
	}
	return nil
}

// policyTestAction returns the action of a policy's document.
func policyTestAction(body map[string]any) string {
	return strings.Trim(fmt.Sprintf("%s", body["action"]), `"`)
}

// policyTestText formats the result of the test of a policy.
func policyTestText(id, action string, result api.PolicyTest, wide bool) string {
	var b strings.Builder
	linef := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	name := kinds.Policies.Name + "/" + render.Printable(id)
	clusters := func(f api.PolicyTestFailure) string {
		if f.Clusters == 0 {
			return ""
		}
		return " (" + summarize.Count(f.Clusters, "cluster") + ": " + planview.Names(f.ClusterIds, wide) + ")"
	}
	verb := map[string]string{"warn": "warn of", "approve": "require an approval of"}
	switch failed := result.Failures; {
	case len(failed) == 1 && failed[0].Revision == 0:
		linef("%s would %s the change: %s%s", name, cmp.Or(verb[action], "deny"), render.Printable(failed[0].Message), clusters(failed[0]))
	case len(failed) > 0:
		past := map[string]string{"warn": "warned of", "approve": "required an approval of"}
		linef("%s would have %s %d of %d revisions:", name, cmp.Or(past[action], "denied"), len(failed), result.Tested)
		for _, f := range failed {
			linef("  revision %d by %s: %s%s", f.Revision, render.Printable(cmp.Or(f.Author, f.Actor)), render.Printable(f.Message), clusters(f))
		}
	case result.Tested == 1 && result.Exempt == 1:
		linef("%s does not judge this change: no policy does", name)
	default:
		linef("%s permits %s", name, summarize.Count(result.Tested, "tested change"))
	}
	if result.Exempt > 0 && result.Tested > 1 {
		linef("No policy judges %d of them, such as a new freeze.", result.Exempt)
	}
	if result.Skipped > 0 {
		linef("Not tested: %s: %s.", summarize.Count(result.Skipped, "revision"), render.Printable(result.SkippedReason))
	}
	return b.String()
}
