package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s versionCommands) commands() []*cli.Command {
	return []*cli.Command{s.versionsCommand(), s.pushCommand(), s.holdCommand(), s.releaseCommand(), s.policyCommand()}
}

const versionOfImage = "a tag of this `IMAGE` of the image policies, or of the policy with this name; default: a version of the component itself"

func (s versionCommands) versionsCommand() *cli.Command {
	return &cli.Command{
		Name: "versions", Usage: "Show the known versions of a component and its images, and the ones that its policies would move to", ArgsUsage: "NAME",
		Description: "REASON states why a version is not the candidate. The tables below list the held versions, and the layers and clusters that set an\n" +
			"older version themselves, which a move does not reach.\n\n" +
			args.ExampleText("component versions podinfo", "component versions podinfo --refresh", "component versions podinfo -o jsonpath='{.sources[0].candidate}'"),
		Flags: []cli.Flag{&cli.BoolFlag{Name: "refresh", Usage: "scan its registries first; the server needs VERSION_SCAN=true"}},
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			method, path := http.MethodGet, versionsPath(ids[0])
			if c.Bool("refresh") {
				method, path = http.MethodPost, path+"/refresh"
			}
			a, err := conn.Receive(conn.Send(c.Context, client, method, path, nil, nil))
			if err != nil {
				return err
			}
			return s.Print(c, versionsOutput(a.Body))
		}),
	}
}

func versionsPath(component string) string {
	return kinds.Components.Calls.Document(component) + "/versions"
}

func (s versionCommands) pushCommand() *cli.Command {
	return &cli.Command{
		Name: "push-version", Usage: "Announce a version that was published, so that the version policy of the component evaluates it", ArgsUsage: "NAME VERSION",
		Description: "For CI. It changes no document, and may be repeated. The right push_version on the component is enough.\n\n" +
			args.ExampleText("component push-version podinfo 6.9.0",
				"component push-version podinfo latest --image ghcr.io/stefanprodan/podinfo --digest sha256:486ea46224d1bb4fb680f34f7c9ad96a8f24ec88be73ea8e5a6c65260e9cb8a7"),
		Flags: []cli.Flag{
			imageFlag(versionOfImage),
			&cli.StringFlag{Name: "digest", Usage: "`DIGEST` that the tag refers to, such as sha256:486ea4…"},
			&cli.StringFlag{Name: "created-at", Usage: "`TIME` of its creation, such as 2026-01-02T03:04:05Z, or a duration before now such as 2h; default: now"},
		},
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			body := versionBody(c, ids[1], "digest")
			created, err := args.PastTime("created-at", c.String("created-at"), s.Env.Now())
			if err != nil {
				return err
			}
			if created != "" {
				body["created_at"] = created
			}
			a, err := conn.Receive(conn.Send(c.Context, client, http.MethodPost, versionsPath(ids[0]), body, nil))
			if err != nil {
				return err
			}
			return s.PrintChange(c, versionsOutput(a.Body))
		}),
	}
}

// versionBody returns a request about a version, with the fields that flags set.
func versionBody(c *cli.Context, version string, fields ...string) map[string]any {
	body := map[string]any{"version": version}
	for _, name := range append(fields, "image") {
		if c.IsSet(name) {
			body[name] = c.String(name)
		}
	}
	return body
}

func (s versionCommands) holdCommand() *cli.Command {
	return &cli.Command{
		Name: "hold", Usage: "Hold a version, so that no policy moves to it until it is released", ArgsUsage: "NAME VERSION",
		Description: "Clusters that run it keep it. An aborted rollout, a revert and a restore hold the version that they remove.\n\n" +
			args.ExampleText("component hold podinfo 6.9.0 --reason 'INC-7: breaks sign-in'"),
		Flags: append([]cli.Flag{imageFlag(versionOfImage), &cli.StringFlag{Name: "digest", Usage: "hold the tag only while it refers to this `DIGEST`"}}, change.WriteFlags()...),
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			body := versionBody(c, ids[1], "digest")
			if reason := c.String("reason"); reason != "" {
				body["reason"] = reason
			}
			a, err := conn.Receive(conn.Send(c.Context, client, http.MethodPost, versionsPath(ids[0])+"/holds", body, change.WriteEdits(c)))
			if err != nil {
				return err
			}
			return s.PrintChange(c, versionsOutput(a.Body))
		}),
	}
}

func (s versionCommands) releaseCommand() *cli.Command {
	return &cli.Command{
		Name: "release", Usage: "Release a held version, so that policies may move to it again", ArgsUsage: "NAME VERSION",
		Description: args.ExampleText("component release podinfo 6.9.0"),
		Flags:       append([]cli.Flag{imageFlag(versionOfImage)}, change.WriteFlags()...),
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			held := url.Values{"version": {ids[1]}}
			if c.IsSet("image") {
				held.Set("image", c.String("image"))
			}
			a, err := conn.Receive(conn.Send(c.Context, client, http.MethodDelete, versionsPath(ids[0])+"/holds", nil, append(change.WriteEdits(c), conn.Query(held))))
			if err != nil {
				return err
			}
			return s.PrintChange(c, versionsOutput(a.Body))
		}),
	}
}

// versionsOutput returns the versions of a component as output.
func versionsOutput(body json.RawMessage) render.Output {
	decode := func() (d api.ComponentVersions, err error) {
		if err = json.Unmarshal(body, &d); err != nil {
			err = fmt.Errorf("unexpected response of the server: %w", err)
		}
		return d, err
	}
	return render.Output{
		Document: body,
		Tables: func() ([]render.Table, error) {
			d, err := decode()
			return versionTables(d), err
		},
		Names: func() (names []string, err error) {
			d, err := decode()
			for _, src := range d.Sources {
				for _, v := range src.Versions {
					if name := nameOfSource(src) + "/" + v.Version; !slices.Contains(names, name) { // of another version policy
						names = append(names, name)
					}
				}
			}
			return names, err
		},
	}
}

// nameOfSource returns the name of an image policy; "component" for the component itself.
func nameOfSource(src api.VersionSource) string { return cmp.Or(src.Policy, "component") }

// versionTables returns the tables of sources, versions, holds and pins. Empty ones are left out.
func versionTables(d api.ComponentVersions) []render.Table {
	sources := render.Table{Header: []string{"SOURCE", "TARGET", "STORED", "CANDIDATE", "NEXT SCAN", "ROLLOUT", "PROBLEM", "IMAGE"}, Narrow: 7}
	versions := render.Table{Header: []string{"SOURCE", "TARGET", "VERSION", "CREATED", "SEEN", "DIGEST", "REASON"}}
	for _, src := range d.Sources {
		next, problem := "-", []string{}
		if src.Scan != nil {
			next = render.TimeOr(src.Scan.NextAt, "-")
			if src.Scan.Error != "" {
				problem = append(problem, "the last scan failed: "+src.Scan.Error)
			}
		}
		for _, text := range []string{src.Problem, src.Warning} {
			if text != "" {
				problem = append(problem, text)
			}
		}
		sources.Rows = append(sources.Rows, []string{
			nameOfSource(src), cmp.Or(src.Target, "-"), withDigest(src.Stored, src.StoredDigest), cmp.Or(withDigest(src.Candidate, src.CandidateDigest), "-"), next, cmp.Or(src.Rollout, "-"), strings.Join(problem, "; "), src.Image,
		})
		for _, v := range src.Versions {
			why := v.Reason
			switch {
			case v.Version == src.Candidate:
				why = "(candidate)"
			case v.Withdrawn && why == "":
				why = "withdrawn"
			}
			if v.PreviousDigest != "" {
				why += "; the tag was moved from " + shortDigest(v.PreviousDigest)
			}
			versions.Rows = append(versions.Rows, []string{
				nameOfSource(src), cmp.Or(src.Target, "-"), v.Version, render.TimeOr(v.CreatedAt, "-"), render.Time(v.FirstSeenAt), cmp.Or(shortDigest(v.Digest), "-"), strings.TrimPrefix(why, "; "),
			})
		}
	}
	holds := render.Table{Header: []string{"HELD VERSION", "IMAGE", "BY", "AT", "REASON"}}
	for _, h := range d.Holds {
		holds.Rows = append(holds.Rows, []string{withDigest(h.Version, h.Digest), cmp.Or(h.Image, "-"), h.By, render.Time(h.At), h.Reason})
	}
	pins := render.Table{Header: []string{"PINNED BY", "VERSION", "TARGET"}}
	for _, p := range d.Pins {
		pins.Rows = append(pins.Rows, []string{p.Kind + "/" + p.ID, p.Version, p.Target})
	}
	return slices.DeleteFunc([]render.Table{sources, versions, holds, pins}, func(t render.Table) bool { return len(t.Rows) == 0 })
}

// withDigest returns a version with the beginning of its digest, if it has one.
func withDigest(version, digest string) string {
	if digest == "" {
		return version
	}
	return version + "@" + shortDigest(digest)
}

// shortDigest returns the beginning of a digest.
func shortDigest(digest string) string {
	if algorithm, hex, ok := strings.Cut(digest, ":"); ok && len(hex) > 12 {
		return algorithm + ":" + hex[:12]
	}
	return digest
}
