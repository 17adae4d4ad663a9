package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	frs "github.com/flux-resourceset/flux-resourceset/cli"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// validateCommand checks files without a server: it applies them, as a dry run, to an empty fleet in this process, so
// the schema, the references and every rule are those of the server. It is a command of this program because it checks the schema too, with
// a server in this process: the command line client would be three times as large with one.
func validateCommand() *cli.Command {
	return &cli.Command{
		Name: "validate", Usage: "check the files of a fleet, without a server: their schema, references and rules", OnUsageError: usageError,
		Description: "The files are those of flux-resourceset-cli apply, and must be a whole fleet: what they refer to is in them. Nothing is read or written " +
			"elsewhere. ENVIRONMENTS counts. Exit codes: 0 valid, 1 a problem was found, 2 the command line or a file cannot be read.",
		Flags:  []cli.Flag{&cli.StringSliceFlag{Name: "file", Aliases: []string{"f"}, Usage: "documents, from a YAML or JSON `FILE`, every such file in a directory, or - for standard input; repeat for more"}},
		Action: validate,
	}
}

// errInvalid ends a validation that found problems. They have been printed.
var errInvalid = errors.New("the files are not valid")

func validate(c *cli.Context) error {
	environments, ok := parseEnvironments(c.String("environments"))
	refuseSecrets, secretsErr := readSecretValues(c)
	switch {
	case c.NArg() > 0:
		return unknownCommand(c, "-f for files")
	case secretsErr != nil:
		return &configError{[]string{secretsErr.Error()}}
	case len(c.StringSlice("file")) == 0:
		return &configError{[]string{"validate needs files: give them with -f"}}
	case !ok:
		return &configError{[]string{fmt.Sprintf("ENVIRONMENTS is %q: it must be a comma-separated list of different names", c.String("environments"))}}
	}
	base, token, stop, err := emptyFleet(c.Context, fleet.Rules{Environments: environments, RefuseSecrets: refuseSecrets})
	if err != nil {
		return err
	}
	defer stop()
	args := []string{"flux-resourceset-cli", "apply", "--dry-run", "--quiet", "--api-url", base}
	for _, name := range c.StringSlice("file") {
		args = append(args, "--file="+name)
	}
	code := frs.Run(c.Context, args, frs.Env{
		Stdin: os.Stdin, Stdout: io.Discard, Stderr: c.App.ErrWriter, Version: version,
		Getenv: func(name string) string { // none of the user's settings: no context, no other server, no saved revision
			return map[string]string{"FLUX_API_TOKEN": token, "FLUX_RESOURCESET_CONFIG": os.DevNull, "XDG_STATE_HOME": os.DevNull}[name]
		},
	})
	switch code {
	case exitOK:
		_, err := fmt.Fprintf(c.App.Writer, "%s: valid\n", strings.Join(c.StringSlice("file"), ", "))
		return err
	case exitUsage:
		return &configError{[]string{"the files cannot be read as documents of a fleet"}}
	}
	return errInvalid
}

// emptyFleet serves an empty fleet from memory on a loopback address. It returns the URL, the token and a function that
// stops it.
func emptyFleet(ctx context.Context, rules fleet.Rules) (base, token string, stop func(), err error) {
	db, err := parseDatabase("sqlite::memory:")
	if err != nil {
		return "", "", nil, err
	}
	st, err := db.open(ctx, false)
	if err != nil {
		return "", "", nil, err
	}
	closeStore := func() { _ = st.Close() } // it is in memory
	replica := store.NewReplica(store.Config{Store: st, Rules: rules})
	if err := replica.Load(ctx); err != nil {
		closeStore()
		return "", "", nil, err
	}
	token = uuid.NewString()
	srv, err := server.New(server.Config{
		Mode: server.ModeCRUD, Replica: replica, History: st, Tokens: server.Tokens{Read: token, Write: token},
		Version: version, StoreName: db.name(), Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		closeStore()
		return "", "", nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		closeStore()
		return "", "", nil, err
	}
	web := &http.Server{Handler: srv, ReadHeaderTimeout: time.Minute}
	go func() { _ = web.Serve(ln) }() // ends with Close
	return "http://" + ln.Addr().String(), token, func() {
		_ = web.Close()
		closeStore()
	}, nil
}
