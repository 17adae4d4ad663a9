package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func tokenCommand() *cli.Command {
	return &cli.Command{
		Name: "token", Usage: "create managed tokens directly in the store, such as the first one", OnUsageError: usageError,
		Action: func(c *cli.Context) error { return unknownCommand(c, "create") },
		Subcommands: []*cli.Command{{
			Name: "create", Usage: "create a token, and print its secret", OnUsageError: usageError,
			Description: "Needs write access to the store, and no other credential. Running servers accept the token within a second. A missing store is created. " +
				"The secret is shown only once. Rotate and revoke the token with flux-resourceset-cli.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "name", Usage: "`NAME` of the token"},
				&cli.StringFlag{Name: "role", Usage: "`ROLE`: admin, write, read or scoped"},
				&cli.StringFlag{Name: "expires-in", Usage: "the token expires after this `TIME`, such as 90d or 2160h; never when not set"},
			},
			Action: createToken,
		}},
	}
}

func createToken(c *cli.Context) (err error) {
	db, err := databaseFromFlags(c)
	if err != nil {
		return err
	}
	var problems []string
	token := fleet.NewToken{Name: c.String("name"), Role: c.String("role")}
	if token.Name == "" || token.Role == "" {
		problems = append(problems, "--name and --role are required")
	}
	if token.Role == fleet.RolePoll {
		problems = append(problems, "a token of role poll is for one cluster: create it with flux-resourceset-cli bootstrap")
	}
	if text := c.String("expires-in"); text != "" {
		lifetime, err := parseRetention(text)
		if err != nil {
			problems = append(problems, fmt.Sprintf("--expires-in is %q: it must be a time of at least an hour, such as 90d or 2160h", text))
		}
		end := time.Now().Add(lifetime).UTC().Truncate(time.Second)
		token.ExpiresAt = &end
	}
	if db.name() == backendMemory {
		problems = append(problems, "a memory store exists only in its process: set AUTH_TOKEN and CRUD_AUTH_TOKEN for it")
	}
	if len(problems) > 0 {
		return &configError{problems}
	}
	status, err := db.status(c.Context)
	if err == nil && status.Current == 0 {
		err = db.migrate(c.Context)
	}
	if err != nil {
		return err
	}
	st, err := db.open(c.Context, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	replica := store.NewReplica(store.Config{Store: st})
	if err := replica.Load(c.Context); err != nil {
		return err
	}
	secret, warnings, err := server.CreateToken(c.Context, replica, token, store.Meta{Actor: "system:token", Reason: "flux-resourceset token create"})
	if err != nil {
		return explain(err)
	}
	for _, warning := range warnings {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s\n", warning)
	}
	_, err = fmt.Fprintln(c.App.Writer, secret)
	return err
}

// errNoCredential: no principal can change the fleet.
var errNoCredential = errors.New("there is no credential: neither AUTH_TOKEN, CRUD_AUTH_TOKEN nor OIDC_ISSUERS is set, and the store has no managed token; " +
	"create the first one with `flux-resourceset token create --name NAME --role admin`, which needs the DATABASE_URL of this server")

// checkCredentials returns errNoCredential if a crud server has no credential, and warns if its read token may write. st is nil until
// the fleet is loaded.
func checkCredentials(ctx context.Context, cfg config, st *fleet.State, logger *slog.Logger) error {
	switch {
	case cfg.mode != server.ModeCRUD || st == nil || len(cfg.issuers) > 0:
	case !cfg.tokens.Any() && !st.HasTokens():
		return errNoCredential
	case cfg.tokens.ReadWrites && !st.HasWriters():
		logger.WarnContext(ctx, "CRUD_AUTH_TOKEN is not set: the read token (AUTH_TOKEN) can change the fleet until there is a managed token of role write, admin or scoped")
	}
	return nil
}

// awaitCredentials waits until the fleet is loaded, and runs checkCredentials.
func awaitCredentials(ctx context.Context, cfg config, replica *store.Replica, logger *slog.Logger, giveUp context.CancelCauseFunc) {
	if replica.WaitFor(ctx, 0) != nil {
		return
	}
	if err := checkCredentials(ctx, cfg, replica.State(), logger); err != nil {
		giveUp(err)
	}
}
