package cli

import (
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// valueFlags set and remove Helm values, like helm's flags of these names.
func valueFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "set", Usage: "set a value, `PATH=VALUE`, typed as helm --set does (3 is a number); a comma is part of the value; repeat for more"},
		&cli.StringSliceFlag{Name: "set-string", Usage: "set a value that stays a string, `PATH=VALUE`"},
		&cli.StringSliceFlag{Name: "set-json", Usage: "set a JSON value, `PATH=JSON`"},
		&cli.StringSliceFlag{Name: "set-file", Usage: "set a value to the contents of a file, as a string, `PATH=FILE`"},
		&cli.StringSliceFlag{Name: "values", Aliases: []string{"f"}, Usage: "set every value of a YAML `FILE` (-: standard input); flags win over files"},
		&cli.StringSliceFlag{Name: "unset", Usage: "remove the value at `PATH`, so that the catalog's or the chart's counts; repeat for more"},
	}
}

// valuesFrom reads the flags of valueFlags: by path, null to remove.
func (s *session) valuesFrom(c *cli.Context) (map[string]any, error) {
	return input.HelmValues(c.StringSlice, s.valuesFile, s.Environment().Input)
}

// valuesFile reads a file of Helm values. Files of charts often have no newline at the end.
func (s *session) valuesFile(name string) ([]byte, error) {
	if name == "-" {
		return s.Input(name)
	}
	return s.Environment().Input(name)
}

func settingsOf(c *cli.Context, settings []kinds.Field) (map[string]any, error) {
	values := map[string]any{}
	return values, kinds.CollectFields(c, settings, values)
}

// valuesOperation returns the operation on the values of a component that flags describe.
func (s componentCommands) valuesOperation(c *cli.Context, on change.Targets, component string) (change.Operation, error) {
	values, err := s.valuesFrom(c)
	if err != nil {
		return nil, err
	}
	if len(on.Layers) > 0 && (c.IsSet("field-manager") || c.Bool("apply") || c.Bool("force")) {
		return nil, args.Errorf("--field-manager, --apply and --force are for clusters: layers have no field managers")
	}
	if err := s.unquoteForKustomize(c, component, values, nil); err != nil {
		return nil, err
	}
	op := "patch_values"
	if c.Bool("apply") {
		op = "apply_values"
		for path, value := range values {
			if value == nil {
				return nil, args.Errorf("--apply sets all values of the manager: omit %q instead of --unset", path)
			}
		}
	}
	fields := kinds.WithID(kinds.Components, component, map[string]any{"values": values})
	if m := c.String("field-manager"); m != "" {
		fields["field_manager"] = m
	}
	if c.Bool("force") {
		fields["force"] = true
	}
	return on.Operation(op, fields), nil
}

// unquoteForKustomize removes the quotes inside string values of a kustomize component. Only Helm needs them: all values of a kustomize
// component are strings. given are fields of the catalog entry that are about to be set.
func (s componentCommands) unquoteForKustomize(c *cli.Context, component string, values, given map[string]any) error {
	plain := map[string]any{}
	for path, value := range values {
		if text, ok := value.(string); ok && len(text) > 1 && strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) {
			plain[path] = text[1 : len(text)-1]
		}
	}
	switch {
	case len(plain) == 0 || given["type"] == "helm":
		return nil
	case given["type"] == "kustomize":
		maps.Copy(values, plain)
		return nil
	}
	client, err := s.Connection.Client(c)
	if err != nil {
		return err
	}
	known, err := conn.ReceiveAs[api.PlatformComponent](client.GetPlatformComponent(c.Context, component, nil))
	if e, ok := errors.AsType[*apiclient.Error](err); ok && e.StatusCode == http.StatusNotFound {
		if url, _ := given["oci_url"].(string); strings.HasPrefix(url, "oci://") { // a new entry, kustomize by default
			maps.Copy(values, plain)
		}
		return nil // without an entry, the change reports it
	}
	if err != nil {
		return err // the quotes would become part of the values of a kustomize component
	}
	if known.Type == "kustomize" {
		maps.Copy(values, plain)
	}
	return nil
}

// ownerFlags set the field manager of a change of values.
func ownerFlags() []cli.Flag {
	return []cli.Flag{
		fieldManagerFlag("own the given values as this `MANAGER`: other managers cannot change them without --force"),
		&cli.BoolFlag{Name: "force", Usage: "take over values that another manager owns, instead of failing"},
		&cli.BoolFlag{Name: "apply", Usage: "apply all values of this manager: its other values are removed, unless another manager owns them, too"},
	}
}

func fieldManagerFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "field-manager", Usage: usage}
}
