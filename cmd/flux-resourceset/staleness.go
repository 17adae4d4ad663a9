package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/server"
)

const (
	// minStaleness leaves the store time to answer: the head is read ten times a second.
	minStaleness = time.Second
	// Defaults of MAX_STALENESS. On Postgres, while one of several processes is disconnected, clusters may receive older and
	// newer answers in turn for this long. On SQLite all processes are on the machine of the file.
	postgresStaleness = 15 * time.Second
	sqliteStaleness   = 2 * time.Minute
	// staleStateMaxAge is the default of STATE_MAX_AGE with SERVE_STALE_AFTER_RESTART.
	staleStateMaxAge = 24 * time.Hour
)

// readStaleness reads the age limits of the fleet that polls and reads are answered from.
func (cfg *config) readStaleness(c *cli.Context) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	read := func(flag, name, example string, byDefault time.Duration) time.Duration {
		text := c.String(flag)
		if text == "" {
			return byDefault
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > 0 && d < minStaleness {
			problem("%s is %q: it must be a time of at least %s, such as %s, or 0", name, text, minStaleness, example)
		}
		return d
	}
	byDefault := sqliteStaleness
	if cfg.db != nil && cfg.db.name() == backendPostgres {
		byDefault = postgresStaleness
	}
	cfg.maxStaleness = read("max-staleness", "MAX_STALENESS", "2m", byDefault)
	var err error
	if cfg.serveStale, err = strconv.ParseBool(c.String("serve-stale-after-restart")); err != nil {
		problem("SERVE_STALE_AFTER_RESTART is %q: it must be true or false", c.String("serve-stale-after-restart"))
	}
	byDefault = cfg.maxStaleness
	if cfg.serveStale && cfg.maxStaleness > 0 {
		byDefault = max(cfg.maxStaleness, staleStateMaxAge)
	}
	cfg.stateMaxAge = read("state-max-age", "STATE_MAX_AGE", "24h", byDefault)
	if longer := cfg.stateMaxAge == 0 || cfg.stateMaxAge > cfg.maxStaleness; len(problems) == 0 && cfg.maxStaleness > 0 && longer && !cfg.serveStale {
		problem("STATE_MAX_AGE is %q, longer than MAX_STALENESS, which is %s: after a restart this process could answer from an older fleet than another one, and clusters that reach both would uninstall what lies between. "+
			"Leave it out; or, if no other process answers polls, set SERVE_STALE_AFTER_RESTART=true", c.String("state-max-age"), cfg.maxStaleness)
	}
	return problems
}

// hasPeers reports whether other processes may answer polls from the same store with a newer fleet. In mode crud on
// SQLite none can: that process makes all changes itself.
func (cfg *config) hasPeers() bool {
	return cfg.mode != server.ModeCRUD || cfg.db.name() == backendPostgres
}
