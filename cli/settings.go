package cli

import (
	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	"github.com/urfave/cli/v2"
)

// Categories group the flags in help and documentation, besides [args.SettingCategory].
const (
	outputCategory = "Output"
	serverCategory = "Server"
)

func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Category: outputCategory, Usage: "`FORMAT`: table, wide, json, yaml, name, jsonpath=…, go-template=… or custom-columns=… (default: FRS_OUTPUT, or table on a terminal, else json)"},
		&cli.BoolFlag{Name: "no-headers", Category: outputCategory, Usage: "tables without their first line"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Category: outputCategory, Usage: "print no result of a change and no warnings; errors are printed"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Category: outputCategory, Usage: "show the requests on standard error, without tokens"},
		&cli.BoolFlag{Name: "version", Category: outputCategory, Usage: "print the version"},
		&cli.StringFlag{Name: "api-url", Category: serverCategory, Usage: "`URL` of the server (FLUX_API_URL; default: " + config.DefaultURL + ")"},
		&cli.StringFlag{Name: "api-token", Category: serverCategory, Usage: "bearer `TOKEN` for reads (FLUX_API_TOKEN); prefer the variable: others on this machine can see arguments"},
		&cli.StringFlag{Name: "write-token", Category: serverCategory, Usage: "bearer `TOKEN` for changes (FLUX_API_WRITE_TOKEN; default: the one for reads)"},
		&cli.StringFlag{Name: "ca-file", Category: serverCategory, Usage: "PEM `FILE` with the only authorities to trust"},
		&cli.StringFlag{Name: "client-cert", Category: serverCategory, Usage: "PEM `FILE` with the client certificate"},
		&cli.StringFlag{Name: "client-key", Category: serverCategory, Usage: "PEM `FILE` with its key"},
		&cli.DurationFlag{Name: "timeout", Category: serverCategory, Usage: "time limit of a request with its retries, such as 30s (default: 30s)"},
		&cli.StringFlag{Name: "context", Category: serverCategory, Usage: "`NAME` of a context of the configuration file; wins over the environment (FLUX_RESOURCESET_CONTEXT)"},
		&cli.StringFlag{Name: "config", Category: serverCategory, Usage: "configuration `FILE` (FLUX_RESOURCESET_CONFIG; default: flux-resourceset/config.yaml in $XDG_CONFIG_HOME or the system's place)"},
		&cli.StringFlag{Name: "reason", Category: serverCategory, Usage: "why; kept with the change, see get revisions"},
		&cli.StringFlag{Name: "author", Category: serverCategory, Usage: "`AUTHOR` of the change, stored as claimed (FLUX_RESOURCESET_AUTHOR)"},
	}
}
