package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourcetype"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
	"github.com/urfave/cli/v2"
)

func (s *session) completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "Print the script that lets a shell complete commands, flags and names", ArgsUsage: "SHELL",
		Description: "SHELL is " + strings.Join(args.Shells, ", ") + ". In the shell's start-up file, for zsh after compinit:\n\n" +
			"    source <(" + args.Program + " completion bash)\n" +
			"    source <(" + args.Program + " completion zsh)\n" +
			"    " + args.Program + " completion fish | source\n" +
			"    " + args.Program + " completion powershell | Out-String | Invoke-Expression",
		Action: args.WithOperands(func(c *cli.Context, operands []string) error {
			if !slices.Contains(args.Shells, operands[0]) {
				return args.Errorf("%s takes %s, not %q", c.Command.HelpName, args.ListOf(args.Shells), operands[0])
			}
			script, err := args.Script(operands[0])
			if err != nil {
				return err
			}
			_, err = s.Env.Stdout.Write(script)
			return err
		}),
	}
}

// completeCommand prints the candidates for the last word, one a line. It never fails: a shell cannot show an error during
// completion.
func (s *session) completeCommand() *cli.Command {
	return &cli.Command{
		Name: "__complete", Hidden: true, Usage: "Print completions of a command line", ArgsUsage: "WORD...",
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) == 0 {
				words = []string{""}
			}
			for _, candidate := range args.Complete(s.root, words, &completer{session: s, c: c}) {
				_, _ = fmt.Fprintln(s.Env.Stdout, candidate)
			}
			return nil
		},
	}
}

// completer finds candidates; those that depend on the fleet come from the server.
type completer struct {
	*session
	c            *cli.Context
	resourceType string   // the resource type in the command line
	about        string   // the component in the other flags
	words        []string // the positional arguments
}

var _ args.Values = (*completer)(nil)

// Set applies a flag of the command line being typed. A wrong value is ignored.
func (s *completer) Set(flag cli.Flag, value string) {
	if flag.Names()[0] == "type" { // the operand of `resource TYPE`; no global flag has this name
		s.resourceType = value
		return
	}
	_ = s.c.Set(flag.Names()[0], value)
}

// Beside applies another flag of the command.
func (s *completer) Beside(flag cli.Flag, value string) {
	if flag.Names()[0] == kinds.Components.Name {
		s.about = value
	}
}

// Word applies a positional argument.
func (s *completer) Word(word string) { s.words = append(s.words, word) }

// Flag returns the candidates for a flag's value.
func (s *completer) Flag(flag cli.Flag, path []*cli.Command) []string {
	switch flag.Names()[0] {
	case "output":
		formats := slices.Clone(render.Formats)
		for _, name := range render.Templates {
			formats = append(formats, name+"=")
		}
		return formats
	case "context":
		return s.contextNames()
	case "mode":
		return []string{"uninstall", "orphan"}
	case "deletion-policy":
		return []string{"delete", "orphan"}
	case "kind":
		return kinds.Names()
	case "role":
		if len(path) > 0 && path[0].Name == "token" {
			return tokenRoles
		}
		return nil
	case "type":
		if len(path) > 0 && slices.Contains([]string{"inputs", "render"}, path[0].Name) {
			return append(kinds.InputTypeNames(), s.typeNames()...)
		}
		return []string{"helm", "kustomize"}
	case "set", "set-json", "override", "override-json":
		if s.resourceType != "" {
			return s.propertiesOf(flag.Names()[0])
		}
		return nil
	case "depends-on":
		return s.idsOf(kinds.Components)
	case "component-version", "oci-tag":
		return s.desiredVersions(flag.Names()[0])
	case "state":
		return fleetview.States
	case "environment", "confirm":
		return s.environments()
	case "label-columns":
		return s.labelKeys("")
	case "label":
		if len(path) > 0 && path[0].Name == kinds.Clusters.Name {
			return s.labelKeys("=")
		}
		return nil
	case "revision", "changed-in":
		return s.revisions()
	case "override-freeze":
		return s.idsOf(kinds.Freezes)
	case "override-source":
		return s.idsOf(kinds.Sources)
	case "override-policy":
		return s.idsOf(kinds.Policies)
	case "stage":
		return s.concernedStage(path)
	case "rollout":
		if len(path) > 0 && slices.Contains([]string{"apply", "wait"}, path[0].Name) { // elsewhere it is the name of a new one
			return s.idsOf(kinds.Rollouts)
		}
		return nil
	}
	return s.idsOfKindName(flag.Names()[0])
}

// References returns the references that the value of a flag may have.
func (s *completer) References(flag cli.Flag) []string {
	if !slices.Contains([]string{"set", "set-json", "override", "override-json", "values-from", "var"}, flag.Names()[0]) {
		return nil
	}
	names := slices.Clone(variables.ClusterReferences)
	for _, key := range s.labelKeys("") {
		names = append(names, variables.LabelReference(key))
	}
	for _, n := range []kinds.Kind{kinds.Clusters, kinds.Layers} {
		for _, doc := range s.list(n.Calls.List) {
			for name := range doc.Variables {
				names = append(names, "${vars."+name+"}")
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Argument returns the candidates for the positional argument with this index.
func (s *completer) Argument(path []*cli.Command, index int) []string {
	if len(path) == 0 {
		return nil
	}
	leaf := path[len(path)-1]
	noun, placeholders := path[0].Name, strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(leaf.ArgsUsage))
	if args.TakesKind(path[0]) {
		noun = leaf.Name
	}
	if args.Operand(leaf) != "" && s.resourceType != "" {
		placeholders = placeholders[1:]
	}
	switch {
	case len(placeholders) == 0:
		return nil
	case placeholders[0] == "TYPE":
		return s.typeNames()
	case len(kindVerbs()[leaf.Name]) > 0 && index < len(placeholders) && strings.HasSuffix(placeholders[index], "KIND"):
		return s.kindsOf(leaf.Name)
	case len(kindVerbs()[leaf.Name]) > 0 && index > 0 && index < len(placeholders) && strings.HasSuffix(placeholders[index-1], "KIND"):
		return s.namesOf(leaf.Name, s.words[index-1])
	case placeholders[0] == "SHELL":
		return args.Shells
	case strings.HasPrefix(placeholders[0], "REVISION") && (index == 0 || placeholders[0] == "REVISION..."):
		return s.revisions()
	case leaf.Name == "can-i" && index == 0:
		return slices.Concat(readVerbs, changeVerbs, rightNames, []string{"poll"})
	case leaf.Name == "can-i":
		return append(kindCommandNames(), kinds.Tokens.Name, kinds.Access.Name, kinds.Webhooks.Name, kinds.Sources.Name)
	case leaf.Name == "wait":
		return s.idsOf(kinds.Clusters)
	case leaf.Name == "unfreeze":
		return s.idsOf(kinds.Freezes)
	case leaf.Name == "label" && index > 0:
		return s.labelKeys("=")
	case leaf.Name == "label":
		return s.idsOf(kinds.Clusters)
	case placeholders[0] == "CLUSTER" && index == 0:
		return s.idsOf(kinds.Clusters)
	case leaf.Name == "patch-component" && index == 1:
		return s.idsOf(kinds.Components)
	case noun == "config" && index == 0:
		return s.contextNames()
	case index > 0 && placeholders[0] != "NAME...":
		return nil
	case noun == kinds.Tokens.Name && leaf.Name != "create":
		return s.tokenNames()
	}
	switch {
	case leaf.Name == "create":
		return nil
	case s.resourceType != "":
		return s.idsOf(kinds.ResourcesOfID(s.resourceType))
	}
	return s.idsOfKindName(noun)
}

// kindsOf returns the kinds of a verb, those of the server's resource types too.
func (s *completer) kindsOf(verb string) []string {
	var names []string
	for _, n := range kindVerbs()[verb] {
		if n.ResourceType == "" {
			names = append(names, n.Name)
			continue
		}
		for _, id := range s.typeNames() {
			names = append(names, kinds.ResourcesOfID(id).Name)
		}
	}
	return names
}

// namesOf returns the documents of a verb's kind.
func (s *completer) namesOf(verb, kind string) []string {
	word, id, _ := strings.Cut(kind, "/")
	if documents.IsResource(word) {
		kind = kinds.ResourcesOfID(id).Name
	}
	n, found := kinds.FindIn(kindVerbs()[verb], kind)
	if !found {
		return nil
	}
	return s.idsOf(n)
}

func (s *completer) contextNames() []string {
	file, err := s.Environment().Load(s.c)
	if err != nil {
		return nil
	}
	names := make([]string, len(file.Contexts))
	for i, f := range file.Contexts {
		names[i] = f.Name
	}
	return names
}

// idsOfKindName returns the ids of the documents of a kind, by the kind's name.
func (s *completer) idsOfKindName(name string) []string {
	for _, n := range append(kinds.All(), kinds.Rollouts) {
		if n.Name == name {
			return s.idsOf(n)
		}
	}
	return nil
}

// concernedStage returns the stage that an action on the rollout in the command line would concern.
func (s *completer) concernedStage(path []*cli.Command) []string {
	if len(path) < 2 || path[0].Name != kinds.Rollouts.Name || len(s.words) == 0 {
		return nil
	}
	var known api.Rollout
	s.request(&known, func(ctx context.Context, c conn.Client) (*http.Response, error) {
		return kinds.Rollouts.Calls.Get(ctx, c, s.words[0])
	})
	at := known.Started
	if path[1].Name == "back" {
		at--
	}
	if at < 0 || at >= len(known.Stages) {
		return nil
	}
	return []string{known.Stages[at].Name}
}

func kindCommandNames() []string {
	var names []string
	for _, n := range kinds.All() {
		names = append(names, n.Name)
	}
	return names
}

// namedDocument is the part of a document that completion uses.
type namedDocument struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Environment string            `json:"environment"`
	Labels      map[string]string `json:"labels"`
	Variables   api.Variables     `json:"variables"`
	Revision    int64             `json:"revision"`
}

// list requests a list; on an error there are no candidates.
func (s *completer) list(list func(ctx context.Context, c conn.Client, e ...conn.Edit) (*http.Response, error), e ...conn.Edit) []namedDocument {
	var docs []namedDocument
	s.request(&docs, func(ctx context.Context, c conn.Client) (*http.Response, error) { return list(ctx, c, e...) })
	return docs
}

// request sends a request with a timeout short enough for completion.
func (s *completer) request(out any, ask func(ctx context.Context, c conn.Client) (*http.Response, error)) {
	s.Quiet = true
	client, err := s.Connection.Client(s.c)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.c.Context, completionTime)
	defer cancel()
	a, err := conn.Receive(ask(ctx, client))
	if err != nil {
		return
	}
	_ = a.Decode(out) // an unexpected response yields no candidates
}

// desiredVersions returns the desired versions, or tags, of the component in the command line.
func (s *completer) desiredVersions(what string) []string {
	if s.about == "" {
		return nil
	}
	var known api.ComponentStatus
	s.request(&known, func(ctx context.Context, c conn.Client) (*http.Response, error) {
		return c.GetPlatformComponentStatus(ctx, s.about, nil)
	})
	there := map[string]bool{}
	for _, v := range known.Versions {
		there[map[string]string{"component-version": v.ComponentVersion, "oci-tag": v.OCITag}[what]] = true
	}
	return render.SortedKeys(there)
}

func (s *completer) idsOf(n kinds.Kind) []string {
	docs := s.list(n.Calls.List)
	ids := make([]string, len(docs))
	for i, doc := range docs {
		ids[i] = doc.ID
	}
	return ids
}

func (s *completer) tokenNames() []string {
	docs := s.list(kinds.Tokens.Calls.List)
	names := make([]string, len(docs))
	for i, doc := range docs {
		names[i] = doc.Name
	}
	return names
}

// environments returns the environments of clusters.
func (s *completer) environments() []string {
	there := map[string]bool{}
	for _, doc := range s.list(kinds.Clusters.Calls.List) {
		there[doc.Environment] = true
	}
	return render.SortedKeys(there)
}

// labelKeys returns the label keys of clusters.
func (s *completer) labelKeys(end string) []string {
	there := map[string]bool{}
	for _, doc := range s.list(kinds.Clusters.Calls.List) {
		for key := range doc.Labels {
			there[key+end] = true
		}
	}
	return render.SortedKeys(there)
}

// revisions returns the latest revisions, newest first.
func (s *completer) revisions() []string {
	docs := s.list(conn.RevisionCalls.List, conn.Query(url.Values{"limit": {"20"}}))
	numbers := make([]string, len(docs))
	for i, doc := range docs {
		numbers[i] = strconv.FormatInt(doc.Revision, 10)
	}
	return numbers
}

// completionTime is the time limit of a completion.
const completionTime = 2 * time.Second

// typeNames returns candidates for completion.
func (s *completer) typeNames() []string { return s.idsOf(kinds.ResourceTypes) }

// propertiesOf returns the names of the fields of the type in the command line, each with an equals sign.
func (s *completer) propertiesOf(flag string) []string {
	client, err := s.Connection.Client(s.c)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.c.Context, completionTime)
	defer cancel()
	of, err := s.typeOf(ctx, client, s.resourceType)
	if err != nil {
		return nil
	}
	names := of.Overridable
	if strings.HasPrefix(flag, "set") {
		names = resourcetype.In(of.Schema).Names
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name + "="
	}
	return out
}
