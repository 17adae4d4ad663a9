package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

func (s versionCommands) policyCommand() *cli.Command {
	return &cli.Command{
		Name: "policy", Usage: "Version policies: which new versions of a component and its images move, and how",
		Subcommands: []*cli.Command{
			s.setPolicyCommand(), s.deletePolicyCommand(),
		},
	}
}

const (
	policyImage = "the image policy with this `NAME`; default: the version policy"
	policyLayer = "the version policy that changes this `LAYER`; default: the one that changes the catalog"
)

// policyFlags are the flags that set fields of policies, with the field of each.
var policyFlags = map[string]string{
	"range": "range", "include": "include", "exclude": "exclude", "min-age": "min_age", "action": "action", "strategy": "strategy", "group": "group", "interval": "interval",
}

func (s versionCommands) setPolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "set", Usage: "Set fields of a version policy, or with --image of an image policy; other fields stay", ArgsUsage: "NAME",
		Description: "An empty value removes a field; get component shows the policies. Without --image, the flags set the version policy that changes the catalog, or with --layer a layer. It\n" +
			"needs --range, unless only images move.\n\n" +
			args.ExampleText("component policy set podinfo --range '>=6.0.0' --action propose --strategy waves --min-age 48h",
				"component policy set podinfo --image app --repository ghcr.io/stefanprodan/podinfo --track-tag latest --write image.tag='{tag}@{digest}'",
				"component policy set podinfo --image redis --repository redis --range '>0.0.0-0' --include '.*-alpine$' --write-image redis",
				"component policy set podinfo --layer dev --range '~6.9' --action apply",
				"component policy set podinfo --layer dev --suspended"),
		Flags: append([]cli.Flag{
			imageFlag("the image policy with this `NAME`, which it creates if necessary; default: the version policy"), layerFlag(),
			&cli.StringFlag{Name: "range", Usage: "versions that may be installed, a `CONSTRAINT` such as ~17 or >=1.2.0 <2; prereleases only if it names one"},
			&cli.StringFlag{Name: "include", Usage: "`REGEXP` that the tag must match"},
			&cli.StringFlag{Name: "exclude", Usage: "`REGEXP` that the tag must not match"},
			&cli.StringFlag{Name: "min-age", Usage: "the shortest `DURATION` since a version was created, or first seen"},
			&cli.StringFlag{Name: "interval", Usage: "`DURATION` between two scans of the registry; 0s: none"},
			&cli.StringFlag{Name: "action", Usage: "`ACTION` for a new version: notify, propose (a rollout), rollout (and start it) or apply"},
			&cli.StringFlag{Name: "strategy", Usage: "the `STRATEGY` of its rollouts"},
			&cli.StringFlag{Name: "group", Usage: "move together with the other components of this `GROUP`, when all have the same version"},
			&cli.BoolFlag{Name: "suspended", Usage: "move no version, with the version policy none of the images either; --suspended=false: again"},
			&cli.StringFlag{Name: "repository", Usage: "with --image: the `IMAGE`, without tag"},
			&cli.StringFlag{Name: "track-tag", Usage: "with --image: follow the digest of this `TAG`, in place of --range"},
			&cli.StringSliceFlag{Name: "write", Usage: "with --image: the value at a path, `PATH=TEMPLATE` with {image}, {tag}, {digest} and {semver}; repeat for more; replaces all; empty: none"},
			&cli.StringFlag{Name: "write-image", Usage: "with --image: set the component's images entry of the image with this `NAME`, in place of values"},
		}, change.WriteFlags()...),
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			if c.IsSet("image") {
				return s.changePolicies(c, client, ids[0], func(now componentPolicies) (componentPolicies, error) {
					list, err := setImagePolicy(c, now.ImagePolicies)
					return componentPolicies{ImagePolicies: list}, err
				})
			}
			policy, err := versionPolicyPatch(c)
			if err != nil {
				return err
			}
			return s.patchComponent(c, ids[0], map[string]any{"patch": componentPolicies{VersionPolicies: map[string]any{policyTarget(c): policy}}})
		}),
	}
}

// versionPolicyPatch returns the fields of a version policy that flags set.
func versionPolicyPatch(c *cli.Context) (map[string]any, error) {
	for _, name := range []string{"repository", "track-tag", "write", "write-image"} {
		if c.IsSet(name) {
			return nil, args.Errorf("--%s is for --image", name)
		}
	}
	policy := map[string]any{}
	for flag, field := range policyFlags {
		if c.IsSet(flag) {
			policy[field] = orNull(c.String(flag))
		}
	}
	if c.IsSet("suspended") {
		policy["suspended"] = c.Bool("suspended")
	}
	if len(policy) == 0 {
		return nil, args.Errorf("%s needs at least one of the fields, such as --range", c.Command.HelpName)
	}
	return policy, nil
}

// policyTarget returns what the version policy changes that the flags name.
func policyTarget(c *cli.Context) string {
	if layer := c.String("layer"); layer != "" {
		return "layer/" + layer
	}
	return "catalog"
}

// orNull returns nil for an empty text, which removes a field.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// setImagePolicy sets the fields of an image policy that flags set, and creates it if there is none with the name.
func setImagePolicy(c *cli.Context, list []map[string]any) ([]map[string]any, error) {
	for _, name := range []string{"action", "strategy", "group", "layer"} {
		if c.IsSet(name) {
			return nil, args.Errorf("--%s is a field of the version policy, which also applies to images: set it without --image", name)
		}
	}
	policy := findPolicy(list, c.String("image"))
	if policy == nil {
		policy = map[string]any{"name": c.String("image"), "track": map[string]any{}}
		list = append(list, policy)
	}
	set := func(in map[string]any, flag, field string) {
		switch {
		case c.IsSet(flag) && c.String(flag) == "":
			delete(in, field)
		case c.IsSet(flag):
			in[field] = c.String(flag)
		}
	}
	set(policy, "repository", "image")
	set(policy, "min-age", "min_age")
	set(policy, "interval", "interval")
	if c.IsSet("suspended") {
		policy["suspended"] = c.Bool("suspended")
	}
	track, _ := policy["track"].(map[string]any)
	if track == nil {
		track = map[string]any{}
		policy["track"] = track
	}
	switch {
	case c.IsSet("track-tag") && c.IsSet("range"):
		return nil, args.Errorf("--track-tag is in place of --range")
	case c.IsSet("track-tag"):
		clear(track)
	case c.IsSet("range"):
		delete(track, "tag")
	}
	set(track, "track-tag", "tag")
	for _, name := range []string{"range", "include", "exclude"} {
		set(track, name, name)
	}
	if c.IsSet("write-image") {
		delete(policy, "images")
		if name := c.String("write-image"); name != "" {
			policy["images"] = map[string]any{"name": name}
		}
	}
	if c.IsSet("write") {
		writes := map[string]any{}
		for _, text := range c.StringSlice("write") {
			path, template, ok := strings.Cut(text, "=")
			switch {
			case text == "":
			case !ok || path == "":
				return nil, args.Errorf("--write %q is not PATH=TEMPLATE", text)
			default:
				writes[path] = template
			}
		}
		policy["writes"] = writes
	}
	return list, nil
}

// findPolicy returns the policy with a name; nil: there is none.
func findPolicy(list []map[string]any, name string) map[string]any {
	i := slices.IndexFunc(list, func(p map[string]any) bool { return p["name"] == name })
	if i < 0 {
		return nil
	}
	return list[i]
}

// componentPolicies are the fields of a component with its policies.
type componentPolicies struct {
	VersionPolicies map[string]any   `json:"version_policies,omitempty"`
	ImagePolicies   []map[string]any `json:"image_policies,omitzero"`
}

// changePolicies changes policies by a patch that depends on the present ones, unless another request changes the component meanwhile.
func (s versionCommands) changePolicies(c *cli.Context, client conn.Client, id string, patch func(now componentPolicies) (componentPolicies, error)) error {
	a, err := conn.Receive(kinds.Components.Calls.Get(c.Context, client, id))
	if err != nil {
		return err
	}
	var doc componentPolicies
	if err := a.Decode(&doc); err != nil {
		return err
	}
	changed, err := patch(doc)
	if err != nil {
		return err
	}
	return s.patchComponent(c, id, map[string]any{"patch": changed, "if_match": a.Etag})
}

// changePolicy changes the policy that the flags name, which must exist: version returns a version policy, image the image policies.
func (s versionCommands) changePolicy(c *cli.Context, client conn.Client, id string, version any, image func(list []map[string]any) []map[string]any) error {
	return s.changePolicies(c, client, id, func(now componentPolicies) (out componentPolicies, err error) {
		target, name := policyTarget(c), c.String("image")
		_, found := now.VersionPolicies[target]
		switch {
		case name != "" && c.IsSet("layer"):
			return out, args.Errorf("--layer is for version policies, and --image for image policies")
		case name != "" && findPolicy(now.ImagePolicies, name) == nil:
			return out, fmt.Errorf("component %q has no image policy %q", id, name)
		case name != "":
			out.ImagePolicies = image(now.ImagePolicies)
		case !found && (target != "catalog" || len(now.VersionPolicies) > 0 || len(now.ImagePolicies) == 0):
			return out, fmt.Errorf("component %q has no version policy of %s", id, target)
		default:
			out.VersionPolicies = map[string]any{target: version}
		}
		return out, nil
	})
}

// patchComponent changes fields of a component and prints its policies.
func (s versionCommands) patchComponent(c *cli.Context, id string, patch map[string]any) error {
	return s.PerformOn(c, kinds.Components, change.Change{
		Operations: change.FixedOperations(kinds.Components.Operation("patch", id, patch)), PrintsSummary: true,
		Show: func(_ conn.Client, a conn.Answer) error {
			results, err := change.ResultsOf(a)
			if err != nil {
				return err
			}
			return s.printPolicies(c, id, conn.Answer{Body: results[0].Document}, s.PrintChange)
		},
	})
}

// printPolicies prints the policies of a component.
func (s versionCommands) printPolicies(c *cli.Context, id string, a conn.Answer, show func(*cli.Context, render.Output) error) error {
	var doc componentPolicies
	if err := a.Decode(&doc); err != nil {
		return err
	}
	return show(c, render.Output{
		Document: doc,
		Tables: func() ([]render.Table, error) {
			t, err := kinds.PolicyTable(a.Body)
			return []render.Table{t}, err
		},
		Names: func() ([]string, error) { return []string{kinds.Components.Name + "/" + id}, nil },
	})
}

func (s versionCommands) deletePolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "delete", Usage: "Delete a version policy of a component, or one of its image policies", ArgsUsage: "NAME", Flags: append([]cli.Flag{imageFlag(policyImage), layerFlag()}, change.WriteFlags()...),
		Description: args.ExampleText("component policy delete podinfo --layer dev", "component policy delete podinfo --image redis"),
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			return s.changePolicy(c, client, ids[0], nil, func(list []map[string]any) []map[string]any {
				return slices.DeleteFunc(list, func(p map[string]any) bool { return p["name"] == c.String("image") })
			})
		}),
	}
}

func layerFlag() cli.Flag { return &cli.StringFlag{Name: "layer", Usage: policyLayer} }

func imageFlag(usage string) cli.Flag { return &cli.StringFlag{Name: "image", Usage: usage} }
