package cli

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// pipeline is the identity and the rights of a pipeline.
type pipeline struct {
	system string // github, gitlab or kubernetes
	name   string // OWNER/REPO, GROUP/PROJECT or NAMESPACE/SERVICEACCOUNT
	issuer string
	url    string // of the API
	claims map[string]string
	byName bool // the claims name a repository without its ids
}

func (s bootstrapper) ciCommand() *cli.Command {
	return &cli.Command{
		Name: "ci", Usage: "Print the access documents and the workflow of a pipeline",
		Description: "Prints the commands that create the access documents of a pipeline, or with -o yaml the documents; --create creates them. The\n" +
			"pipeline may read and plan everything, and change the version of --component, also with rollouts, or what --may lists. What to add\n" +
			"to the pipeline and to OIDC_ISSUERS is printed on standard error.\n\n" +
			"The server cannot look up the ids of a repository: without --repository-id and --owner-id the documents select it by its name, which\n" +
			"another owner can get later.\n\n" +
			args.ExampleText(
				"bootstrap ci --github acme/web --repository-id 4711 --owner-id 815 --component podinfo",
				"bootstrap ci --gitlab acme/shop/web --component podinfo --create",
				"bootstrap ci --kubernetes ci/deployer --may write --selector team=web --kind cluster --kind layer",
			),
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "github", Usage: "a repository `OWNER/REPO`, whose workflows change the fleet"},
			&cli.StringFlag{Name: "gitlab", Usage: "a project `GROUP/PROJECT`"},
			&cli.StringFlag{Name: "kubernetes", Usage: "a ServiceAccount `NAMESPACE/NAME`"},
			&cli.StringFlag{Name: "issuer", Usage: "`NAME` of the issuer in OIDC_ISSUERS (default: github, gitlab or kubernetes)"},
			&cli.StringFlag{Name: "repository-id", Usage: "the numeric `ID` of the repository or project"},
			&cli.StringFlag{Name: "owner-id", Usage: "the numeric `ID` of its owner or group"},
			&cli.StringFlag{Name: "ref", Value: "refs/heads/main", Usage: "only runs for this `REF`, with * at its end for any text"},
			&cli.StringFlag{Name: "environment", Usage: "only jobs of this `ENVIRONMENT`, in place of --ref"},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the access documents (default: ci- and the name of the pipeline)"},
			&cli.StringSliceFlag{Name: "component", Usage: "a component `ID` that the pipeline may change, with * at its end for any text"},
			&cli.StringSliceFlag{Name: "may", Usage: "`RIGHTS` in place of push_version, separated by commas"},
			&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "changes may affect only the clusters with these labels, `SELECTOR` as in get clusters"},
			&cli.StringSliceFlag{Name: "kind", Usage: "only documents of this `KIND` (default with --component: platform_component and rollout)"},
			&cli.BoolFlag{Name: "create", Usage: "create the access documents"},
		}, expiryFlags()),
		Action: args.WithOperands(func(c *cli.Context, _ []string) error { return s.bootstrapCI(c) }),
	}
}

func (s bootstrapper) bootstrapCI(c *cli.Context) error {
	p, err := pipelineOf(c)
	if err != nil {
		return err
	}
	documents, err := p.accessDocuments(c)
	if err != nil {
		return err
	}
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	p.url = strings.TrimRight(s.Connection.Settings.URL, "/")
	if p.byName {
		s.Warn(fmt.Sprintf("the access documents select %s by name, which another owner can get later: add --repository-id and --owner-id, which %s prints", p.name, p.idCommand()))
	}
	s.Note("%s", p.instructions(c.StringSlice("component")))
	if c.Bool("create") {
		for _, doc := range documents {
			a, err := conn.Receive(kinds.Access.Calls.Create(c.Context, client, doc, change.WriteEdits(c)...))
			if err != nil {
				return err
			}
			if err := s.PrintChange(c, kinds.Access.Output(a.Body)); err != nil {
				return err
			}
		}
		return nil
	}
	if !c.IsSet("output") {
		for _, doc := range documents {
			if _, err := fmt.Fprintln(s.Env.Stdout, accessCommandOf(doc)); err != nil {
				return err
			}
		}
		return nil
	}
	var names []string
	for _, doc := range documents {
		names = append(names, kinds.Access.Name+"/"+fmt.Sprint(doc["id"]))
	}
	return s.Print(c, render.Output{
		Document: documents, Names: func() ([]string, error) { return names, nil },
		Text: func(bool) string {
			var lines strings.Builder
			for _, doc := range documents {
				lines.WriteString(accessCommandOf(doc) + "\n")
			}
			return lines.String()
		},
	})
}

var (
	repositoryName = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+$`)
	numericID      = regexp.MustCompile(`^[0-9]{1,20}$`)
	notInID        = regexp.MustCompile(`[^a-z0-9]+`)
)

// pipelineOf returns the pipeline that flags describe.
func pipelineOf(c *cli.Context) (p pipeline, err error) {
	for _, system := range []string{"github", "gitlab", "kubernetes"} {
		if c.IsSet(system) && p.system != "" {
			return p, args.Errorf("use one of --github, --gitlab and --kubernetes")
		}
		if c.IsSet(system) {
			p.system, p.name = system, c.String(system)
		}
	}
	p.issuer = cmp.Or(c.String("issuer"), p.system)
	ids := c.IsSet("repository-id") && c.IsSet("owner-id")
	switch {
	case p.system == "":
		return p, args.Errorf("%s needs --github OWNER/REPO, --gitlab GROUP/PROJECT or --kubernetes NAMESPACE/NAME", c.Command.HelpName)
	case !repositoryName.MatchString(p.name) || p.system != "gitlab" && strings.Count(p.name, "/") != 1:
		return p, args.Errorf("--%s %q is not two names with a slash between them", p.system, p.name)
	case p.system == "kubernetes":
		if c.IsSet("repository-id") || c.IsSet("owner-id") || c.IsSet("ref") || c.IsSet("environment") {
			return p, args.Errorf("--repository-id, --owner-id, --ref and --environment are for --github and --gitlab")
		}
		p.claims = map[string]string{"sub": "system:serviceaccount:" + strings.Replace(p.name, "/", ":", 1)}
		return p, nil
	case c.IsSet("repository-id") != c.IsSet("owner-id"), ids && (!numericID.MatchString(c.String("repository-id")) || !numericID.MatchString(c.String("owner-id"))):
		return p, args.Errorf("--repository-id and --owner-id are two numbers: %s prints them", p.idCommand())
	case c.IsSet("ref") && c.IsSet("environment"):
		return p, args.Errorf("use --ref or --environment, not both")
	case c.String("ref") == "" || c.IsSet("environment") && c.String("environment") == "":
		return p, args.Errorf("--ref and --environment must not be empty: without them, the documents would select runs of pull requests")
	}
	p.claims, p.byName = p.repositoryClaims(c, ids), !ids
	return p, nil
}

// repositoryClaims returns the claims of the ID tokens of a repository's jobs.
func (p pipeline) repositoryClaims(c *cli.Context, ids bool) map[string]string {
	owner := p.name[:strings.LastIndexByte(p.name, '/')]
	names := map[string][4]string{ // id and owner's id, name and owner's name
		"github": {"repository_id", "repository_owner_id", "repository", "repository_owner"},
		"gitlab": {"project_id", "namespace_id", "project_path", "namespace_path"},
	}[p.system]
	claims := map[string]string{names[2]: p.name, names[3]: owner}
	if ids {
		claims = map[string]string{names[0]: c.String("repository-id"), names[1]: c.String("owner-id")}
	}
	switch {
	case c.IsSet("environment"):
		claims["environment"] = c.String("environment")
	case p.system == "gitlab":
		claims["ref_path"] = c.String("ref")
	default:
		claims["ref"] = c.String("ref")
	}
	return claims
}

// idCommand returns the command that prints the ids of a repository and its owner.
func (p pipeline) idCommand() string {
	if p.system == "gitlab" {
		return "curl -s https://gitlab.com/api/v4/projects/" + url.PathEscape(p.name) + " | jq '.id, .namespace.id'"
	}
	return "gh api repos/" + p.name + " --jq '.id, .owner.id'"
}

// accessDocuments returns the access documents of the pipeline: reads have no limits, so changes have a document of their own.
func (p pipeline) accessDocuments(c *cli.Context) ([]map[string]any, error) {
	id := cmp.Or(c.String("name"), "ci-"+strings.Trim(notInID.ReplaceAllString(strings.ToLower(p.name), "-"), "-"))
	may := []string{"push_version"}
	if c.IsSet("may") {
		may = strings.Split(strings.Join(c.StringSlice("may"), ","), ",")
	} else if !c.IsSet("component") {
		return nil, args.Errorf("%s needs --component, the component that the pipeline changes, or --may", c.Command.HelpName)
	}
	may = slices.DeleteFunc(may, func(right string) bool { return right == "read" || right == "plan" })
	document := func(id string, may []string) (map[string]any, error) {
		doc := map[string]any{"id": id, "description": "pipeline of " + p.system + " " + p.name, "may": may, "subjects": []any{map[string]any{"issuer": p.issuer, "claims": p.claims}}}
		at, err := expiresAt(c)
		if at != nil {
			doc["expires_at"] = at
		}
		return doc, err
	}
	reads, err := document(id+"-reads", []string{"read", "plan"})
	if err != nil || len(may) == 0 {
		return []map[string]any{reads}, err
	}
	changes, err := document(id, may)
	on := map[string]any{}
	if c.IsSet("component") {
		on["components"], on["kinds"] = c.StringSlice("component"), []string{kinds.Components.API, kinds.Rollouts.API}
	}
	if c.IsSet("kind") {
		on["kinds"] = c.StringSlice("kind")
	}
	if c.IsSet("selector") {
		on["selector"] = c.String("selector")
	}
	if len(on) > 0 {
		changes["on"] = on
	}
	return []map[string]any{reads, changes}, err
}

// accessCommandOf returns the command that creates an access document.
func accessCommandOf(doc map[string]any) string {
	line := []string{args.Program, "access", "create", fmt.Sprint(doc["id"])}
	add := func(flag string, values ...string) {
		for _, value := range values {
			line = append(line, flag, summarize.ShellWord(value))
		}
	}
	subject, _ := doc["subjects"].([]any)[0].(map[string]any)
	add("--issuer", fmt.Sprint(subject["issuer"]))
	claims, _ := subject["claims"].(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		add("--claim", name+"="+claims[name])
	}
	may, _ := doc["may"].([]string)
	add("--may", strings.Join(may, ","))
	on, _ := doc["on"].(map[string]any)
	if selector, limited := on["selector"].(string); limited {
		add("--selector", selector)
	}
	ids, _ := on["components"].([]string)
	add("--component", ids...)
	all, _ := on["kinds"].([]string)
	add("--kind", all...)
	if at, expires := doc["expires_at"].(time.Time); expires {
		add("--expires", render.Time(at))
	}
	add("--description", fmt.Sprint(doc["description"]))
	return strings.Join(line, " ")
}

// instructions returns what to add to the server's configuration and to the pipeline.
func (p pipeline) instructions(changed []string) string {
	command := args.Program + " auth can-i --list"
	if len(changed) > 0 && !strings.HasSuffix(changed[0], "*") {
		command = args.Program + " component set " + changed[0] + ` --component-version "$VERSION"`
	}
	of := map[string]struct{ issuer, workflow string }{
		"github": {"https://token.actions.githubusercontent.com", `# the workflow; add contents: read if a step checks out the repository
permissions: {id-token: write}
env: {FLUX_API_URL: "` + p.url + `"}
steps:
  - run: ` + command},
		"gitlab": {"https://gitlab.com", `# the job in .gitlab-ci.yml
id_tokens:
  FLUX_API_TOKEN: {aud: "` + p.url + `"}
variables: {FLUX_API_URL: "` + p.url + `"}
script:
  - ` + command},
		"kubernetes": {"https://kubernetes.default.svc", `# the Pod
serviceAccountName: ` + p.name[strings.IndexByte(p.name, '/')+1:] + `
volumes:
  - name: fleet
    projected: {sources: [{serviceAccountToken: {path: token, audience: "` + p.url + `", expirationSeconds: 3600}}]}
containers:
  - env: [{name: FLUX_API_URL, value: "` + p.url + `"}]
    volumeMounts: [{name: fleet, mountPath: /var/run/fleet}]
    # in the container: export FLUX_API_TOKEN=$(cat /var/run/fleet/token)
    # ` + command},
	}[p.system]
	return "# OIDC_ISSUERS of the server\n- {name: " + p.issuer + ", url: \"" + of.issuer + "\", audiences: [\"" + p.url + "\"]}\n\n" + of.workflow + "\n"
}
