package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// unrelatedEnv are variables of other programs that look like ours.
var unrelatedEnv = []string{"APP_MODE", "ENVIRONMENT", "OAUTH_TOKEN", "SSL_CERT_FILE", "STATE_DIRECTORY"}

// equivalentSuffixes mean the same to whoever writes a name from memory.
var equivalentSuffixes = [][]string{{"_URL", "_URI", "_DSN"}, {"_ADDR", "_ADDRESS"}, {"_FILE", "_PATH"}}

// envTypos are the problems with variables that are set and differ from one of ours by a slip: who writes DATABASE_URI
// would otherwise be served an empty store.
func envTypos(c *cli.Context, environ []string) (problems []string) {
	if c.String("allow-lookalike-env") == "true" {
		return nil
	}
	ours := []string{"RUST_LOG", "NO_COLOR"}
	for _, f := range flags() {
		if f, ok := f.(*cli.StringFlag); ok {
			ours = append(ours, f.EnvVars...)
		}
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" || slices.Contains(ours, name) || slices.Contains(unrelatedEnv, name) {
			continue
		}
		if meant := closestSetting(name, ours); meant != "" {
			problems = append(problems, fmt.Sprintf("%s is set, and is none of our settings: did you mean %s? ALLOW_LOOKALIKE_ENV=true lets it be", name, meant))
		}
	}
	return problems
}

// closestSetting is the one of ours that a name may have been meant for; empty when there is none.
func closestSetting(name string, ours []string) string {
	best, least := "", 3
	for _, our := range ours {
		d := smetrics.WagnerFischer(strings.ToUpper(name), our, 1, 1, 1)
		if differOnlyInSuffix(name, our) {
			d = 1
		}
		if len(our) < 10 && d == 2 || len(our) < 5 && d == 1 { // too many words are as near as that
			continue
		}
		if d < least {
			best, least = our, d
		}
	}
	return best
}

// differOnlyInSuffix tells whether two names differ in an ending that means the same.
func differOnlyInSuffix(a, b string) bool {
	for _, alike := range equivalentSuffixes {
		for _, x := range alike {
			for _, y := range alike {
				if stem, ok := strings.CutSuffix(a, x); ok && x != y && stem+y == b {
					return true
				}
			}
		}
	}
	return false
}
