package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// unrelatedEnv are variables of other programs that resemble a setting.
var unrelatedEnv = []string{"APP_MODE", "ENVIRONMENT", "OAUTH_TOKEN", "SSL_CERT_FILE", "STATE_DIRECTORY"}

// equivalentSuffixes are often confused when a name is written from memory.
var equivalentSuffixes = [][]string{{"_URL", "_URI", "_DSN"}, {"_ADDR", "_ADDRESS"}, {"_FILE", "_PATH"}}

// envTypos reports variables whose names are close to a setting's. With DATABASE_URI in place of DATABASE_URL, the
// server would otherwise start with an empty store.
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
			problems = append(problems, fmt.Sprintf("%s is set, but it is not a setting: did you mean %s? ALLOW_LOOKALIKE_ENV=true allows it", name, meant))
		}
	}
	return problems
}

// closestSetting returns the setting that a name was probably meant for, or "".
func closestSetting(name string, ours []string) string {
	best, least := "", 3
	for _, our := range ours {
		d := smetrics.WagnerFischer(strings.ToUpper(name), our, 1, 1, 1)
		if differOnlyInSuffix(name, our) {
			d = 1
		}
		if len(our) < 10 && d == 2 || len(our) < 5 && d == 1 { // short names are close to too many other words
			continue
		}
		if d < least {
			best, least = our, d
		}
	}
	return best
}

// differOnlyInSuffix reports whether a name is that of a setting with an equivalent suffix. A suffix of more than five characters may have
// one typo.
func differOnlyInSuffix(name, setting string) bool {
	for _, alike := range equivalentSuffixes {
		for _, suffix := range alike {
			stem, ok := strings.CutSuffix(setting, suffix)
			written, begins := strings.CutPrefix(name, stem)
			if ok && begins && slices.ContainsFunc(alike, func(other string) bool {
				return other != suffix && (written == other || len(other) > 5 && smetrics.WagnerFischer(written, other, 1, 1, 1) == 1)
			}) {
				return true
			}
		}
	}
	return false
}
