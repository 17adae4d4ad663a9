package cli

import (
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
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
