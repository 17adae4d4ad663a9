package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s versionCommands) policyCommand() *cli.Command {
	return &cli.Command{
		Name: "policy", Usage: "Version policies: which new versions of a component and its images move, and how",
		Subcommands: []*cli.Command{
			s.setPolicyCommand(), s.showPolicyCommand(),
			s.suspendCommand("suspend", "Suspend a policy: no version moves until it is resumed", true),
			s.suspendCommand("resume", "Resume a suspended policy", false),
			s.deletePolicyCommand(),
		},
	}
}

const policyImage = "the image policy with this `NAME`; default: the version policy of the component"

// policyFlags are the flags that set fields of policies, with the field of each.
var policyFlags = map[string]string{
	"range": "range", "include": "include", "exclude": "exclude", "min-age": "min_age", "action": "action", "strategy": "strategy", "group": "group", "interval": "interval",
}

func (s versionCommands) setPolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "set", Usage: "Set fields of a version policy, or with --image of an image policy; other fields stay", ArgsUsage: "NAME",
		Description: "An empty value removes a field. Without --image, the flags set the version policy of the component. It needs --range, unless only its\n" +
			"images move.\n\n" +
			args.ExampleText("component policy set podinfo --range '>=6.0.0' --action propose --strategy waves --min-age 48h",
				"component policy set podinfo --image app --repository ghcr.io/stefanprodan/podinfo --track-tag latest --write image.tag='{tag}@{digest}'",
				"component policy set podinfo --image redis --repository redis --range '>0.0.0-0' --include '.*-alpine$' --write-image redis",
				"component policy set podinfo --moves layer/prod-eu"),
		Flags: append([]cli.Flag{
			imageFlag("the image policy with this `NAME`, which it creates if necessary; default: the version policy of the component"),
			&cli.StringFlag{Name: "range", Usage: "versions that may be installed, a `CONSTRAINT` such as ~17 or >=1.2.0 <2; prereleases only if it names one"},
			&cli.StringFlag{Name: "include", Usage: "`REGEXP` that the tag must match"},
			&cli.StringFlag{Name: "exclude", Usage: "`REGEXP` that the tag must not match"},
			&cli.StringFlag{Name: "min-age", Usage: "the shortest `DURATION` since a version was created, or first seen"},
			&cli.StringFlag{Name: "interval", Usage: "`DURATION` between two scans of the registry; 0s: none"},
			&cli.StringFlag{Name: "action", Usage: "`ACTION` for a new version: notify, propose (a rollout), rollout (and start it) or apply"},
			&cli.StringFlag{Name: "strategy", Usage: "the `STRATEGY` of its rollouts"},
			&cli.StringFlag{Name: "group", Usage: "move together with the other components of this `GROUP`, when all have the same version"},
			&cli.StringFlag{Name: "moves", Usage: "the `DOCUMENT` that changes: catalog, or layer/NAME"},
			&cli.StringFlag{Name: "repository", Usage: "with --image: the `IMAGE`, without tag"},
			&cli.StringFlag{Name: "track-tag", Usage: "with --image: follow the digest of this `TAG`, in place of --range"},
			&cli.StringSliceFlag{Name: "write", Usage: "with --image: the value at a path, `PATH=TEMPLATE` with {image}, {tag}, {digest} and {semver}; repeat for more; replaces all; empty: none"},
			&cli.StringFlag{Name: "write-image", Usage: "with --image: set the component's images entry of the image with this `NAME`, in place of values"},
		}, change.WriteFlags()...),
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			if c.IsSet("image") {
				return s.changeImagePolicies(c, client, ids[0], func(list []map[string]any) ([]map[string]any, error) { return setImagePolicy(c, list) })
			}
			policy, err := versionPolicyPatch(c)
			if err != nil {
				return err
			}
			return s.patchComponent(c, ids[0], map[string]any{"patch": map[string]any{"version_policy": policy}})
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
	if c.IsSet("moves") {
		kind, layer, _ := strings.Cut(c.String("moves"), "/")
		switch {
		case kind == "catalog" && layer == "":
			policy["layer"] = nil
		case kind == "layer" && layer != "":
			policy["layer"] = layer
		default:
			return nil, args.Errorf("--moves %q is neither catalog nor layer/NAME", c.String("moves"))
		}
	}
	if len(policy) == 0 {
		return nil, args.Errorf("%s needs at least one of the fields, such as --range", c.Command.HelpName)
	}
	return policy, nil
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
	for _, name := range []string{"action", "strategy", "group", "moves"} {
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
	VersionPolicy map[string]any   `json:"version_policy,omitempty"`
	ImagePolicies []map[string]any `json:"image_policies,omitempty"`
}

// changeImagePolicies changes the list of image policies, unless another request changes the component meanwhile.
func (s versionCommands) changeImagePolicies(c *cli.Context, client conn.Client, id string, changed func([]map[string]any) ([]map[string]any, error)) error {
	a, err := conn.Receive(kinds.Components.Calls.Get(c.Context, client, id))
	if err != nil {
		return err
	}
	var doc componentPolicies
	if err := a.Decode(&doc); err != nil {
		return err
	}
	list, err := changed(doc.ImagePolicies)
	if err != nil {
		return err
	}
	return s.patchComponent(c, id, map[string]any{"patch": map[string]any{"image_policies": list}, "if_match": a.Etag})
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

func (s versionCommands) showPolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "Show the version policy of a component, and its image policies", ArgsUsage: "NAME",
		Description: args.ExampleText("component policy show podinfo", "component policy show podinfo -o yaml"),
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			a, err := conn.Receive(kinds.Components.Calls.Get(c.Context, client, ids[0]))
			if err != nil {
				return err
			}
			return s.printPolicies(c, ids[0], a, s.Print)
		}),
	}
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
			var d struct {
				VersionPolicy *api.VersionPolicy `json:"version_policy"`
				ImagePolicies []api.ImagePolicy  `json:"image_policies"`
			}
			err := a.Decode(&d)
			t := render.Table{Header: []string{"POLICY", "FOLLOWS", "MIN AGE", "INTERVAL", "SUSPENDED", "ACTION", "MOVES", "IMAGE", "WRITES"}, Narrow: 7}
			if p := d.VersionPolicy; p != nil {
				moves := "catalog"
				if p.Layer != "" {
					moves = "layer/" + p.Layer
				}
				action := []string{cmp.Or(p.Action, "propose"), withName("strategy", p.Strategy), withName("group", p.Group)}
				t.Rows = append(t.Rows, []string{
					"component", trackText(p.Range, p.Include, p.Exclude), cmp.Or(p.MinAge, "-"), cmp.Or(p.Interval, "1h"), strconv.FormatBool(p.Suspended),
					joinNonEmpty(action, ", "), moves, "-", "-",
				})
			}
			for _, p := range d.ImagePolicies {
				t.Rows = append(t.Rows, []string{
					p.Name, cmp.Or(withName("digest of", p.Track.Tag), trackText(p.Track.Range, p.Track.Include, p.Track.Exclude)), cmp.Or(p.MinAge, "-"), cmp.Or(p.Interval, "1h"),
					strconv.FormatBool(p.Suspended), "-", "-", p.Image, strings.Join(writesOf(p), ", "),
				})
			}
			return []render.Table{t}, err
		},
		Names: func() ([]string, error) { return []string{kinds.Components.Name + "/" + id}, nil },
	})
}

// writesOf describes what an image policy writes.
func writesOf(p api.ImagePolicy) (out []string) {
	for _, path := range slices.Sorted(maps.Keys(p.Writes)) {
		out = append(out, path+"="+p.Writes[path])
	}
	if p.Images != nil {
		out = append(out, "images: "+p.Images.Name)
	}
	return out
}

// trackText describes the versions that a policy follows.
func trackText(versions, include, exclude string) string {
	return joinNonEmpty([]string{versions, withName("include", include), withName("exclude", exclude)}, " ")
}

// withName returns a value after its name; empty for an empty value.
func withName(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

// joinNonEmpty joins the texts that are not empty.
func joinNonEmpty(texts []string, separator string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

func (s versionCommands) suspendCommand(name, usage string, suspended bool) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "NAME", Flags: append([]cli.Flag{imageFlag(policyImage + ", which includes its images")}, change.WriteFlags()...),
		Description: args.ExampleText("component policy "+name+" podinfo", "component policy "+name+" podinfo --image redis"),
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			if !c.IsSet("image") {
				return s.patchComponent(c, ids[0], map[string]any{"patch": map[string]any{"version_policy": map[string]any{"suspended": suspended}}})
			}
			return s.changeImagePolicies(c, client, ids[0], func(list []map[string]any) ([]map[string]any, error) {
				policy := findPolicy(list, c.String("image"))
				if policy == nil {
					return nil, noImagePolicy(c, ids[0])
				}
				policy["suspended"] = suspended
				return list, nil
			})
		}),
	}
}

func noImagePolicy(c *cli.Context, id string) error {
	return fmt.Errorf("component %q has no image policy %q", id, c.String("image"))
}

func (s versionCommands) deletePolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "delete", Usage: "Delete the version policy of a component, or one of its image policies", ArgsUsage: "NAME", Flags: append([]cli.Flag{imageFlag(policyImage)}, change.WriteFlags()...),
		Description: args.ExampleText("component policy delete podinfo --image redis"),
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			if !c.IsSet("image") {
				return s.patchComponent(c, ids[0], map[string]any{"patch": map[string]any{"version_policy": nil}})
			}
			return s.changeImagePolicies(c, client, ids[0], func(list []map[string]any) ([]map[string]any, error) {
				if findPolicy(list, c.String("image")) == nil {
					return nil, noImagePolicy(c, ids[0])
				}
				return slices.DeleteFunc(list, func(p map[string]any) bool { return p["name"] == c.String("image") }), nil
			})
		}),
	}
}

func imageFlag(usage string) cli.Flag { return &cli.StringFlag{Name: "image", Usage: usage} }
