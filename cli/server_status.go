package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// status is the output of the status command.
type status struct {
	URL      string            `json:"url"`
	Context  string            `json:"context"`
	Version  string            `json:"version"`
	Mode     string            `json:"mode"`
	Store    string            `json:"store"`
	Ready    bool              `json:"ready"`
	Checks   map[string]string `json:"checks"`
	Revision *int64            `json:"revision"` // null: unknown, because the server is not ready or rejects the token
	Limits   []api.FleetLimit  `json:"limits"`   // of the whole fleet; null: the token may not read them
}

// nearLimit is the percentage of use from which status shows a limit without -o wide.
const nearLimit = 80

// statusCommands show the state of the server and the versions of server and program.
type statusCommands struct{ *session }

func (s statusCommands) statusCommand() *cli.Command {
	return &cli.Command{
		Name:        "status",
		Usage:       "Show the server's version, readiness and revision; fails when it is not ready",
		Description: "It also shows the use of each limit of the whole fleet with -o wide and -o json; otherwise only of limits of which 80 % or more are used.",
		Action: s.Connected(func(c *cli.Context, client conn.Client, _ []string) error {
			st, problem := s.status(c, client)
			if st.Version == "" {
				return problem
			}
			if err := s.printStatus(c, st); err != nil {
				return err
			}
			return problem
		}),
	}
}

// status requests the state. An error with a status that has a version describes the failing checks.
func (s statusCommands) status(c *cli.Context, client conn.Client) (status, error) {
	st := status{URL: s.Connection.Settings.URL, Context: s.Connection.Settings.Context, Checks: map[string]string{}}
	version, err := conn.ReceiveAs[api.Version](client.GetVersion(c.Context))
	if err != nil {
		return st, err
	}
	st.Version, st.Mode, st.Store = version.Version, version.Mode, version.Store

	readiness, err := readiness(conn.Receive(client.GetReady(c.Context, nil)))
	if err != nil {
		return st, err
	}
	st.Ready, st.Checks = readiness.Status == "ok", readiness.Checks
	if !st.Ready {
		return st, notReady(st.Checks)
	}
	none := conn.Query(url.Values{"selector": {"id=NONE"}}) // ids are lower case: the answer stays small
	var known api.FleetStatus
	a, err := conn.Receive(client.GetStatus(c.Context, nil, none))
	switch problem, refused := errors.AsType[*apiclient.Error](err); {
	case err == nil:
		err = a.Decode(&known)
		st.Limits = known.Limits
	case refused && (problem.StatusCode == http.StatusForbidden || st.Mode != "crud"): // the token or the server is only for polls
		a, err = conn.Receive(client.PollClusters(c.Context, nil, none))
	}
	if n, parsing := strconv.ParseInt(a.Revision, 10, 64); parsing == nil {
		st.Revision = &n
	}
	return st, err
}

// notReady returns the failing checks of the server as an error.
func notReady(checks map[string]string) error {
	var why []string
	for _, name := range render.SortedKeys(checks) {
		if checks[name] != "ok" {
			why = append(why, name+": "+checks[name])
		}
	}
	if len(why) == 0 {
		return errors.New("the server is not ready")
	}
	return fmt.Errorf("the server is not ready: %s", strings.Join(why, "; "))
}

// readiness decodes a response whose 503 has the same body as its 200.
func readiness(a conn.Answer, err error) (api.Readiness, error) {
	var problem *apiclient.Error
	if errors.As(err, &problem) && problem.StatusCode == http.StatusServiceUnavailable {
		a.Body, err = problem.Body, nil
	}
	if err != nil {
		return api.Readiness{}, err
	}
	var r api.Readiness
	return r, a.Decode(&r)
}

func (s statusCommands) printStatus(c *cli.Context, st status) error {
	return s.Print(c, render.Output{
		Document: st,
		Tables: func() ([]render.Table, error) {
			revision := "unknown"
			if st.Revision != nil {
				revision = strconv.FormatInt(*st.Revision, 10)
			}
			t := render.Table{Header: []string{"URL", "VERSION", "MODE", "STORE", "READY", "REVISION", "CONTEXT", "CHECKS"}, Narrow: 6}
			var checks []string
			for name, result := range st.Checks {
				checks = append(checks, name+": "+result)
			}
			slices.Sort(checks)
			t.Rows = [][]string{{
				st.URL, st.Version, st.Mode, st.Store, strconv.FormatBool(st.Ready), revision, st.Context, strings.Join(checks, ", "),
			}}
			nonZero := func(n int) string {
				if n == 0 {
					return ""
				}
				return strconv.Itoa(n)
			}
			limits := render.Table{Header: []string{"LIMIT", "USED", "MAX", "SHARE", "RESERVED"}}
			for _, l := range st.Limits {
				if c.String("output") == "wide" || 100*l.Used >= nearLimit*l.Max {
					limits.Rows = append(limits.Rows, []string{l.Name, strconv.Itoa(l.Used), strconv.Itoa(l.Max), nonZero(l.Share), nonZero(l.Reserved)})
				}
			}
			if len(limits.Rows) == 0 {
				return []render.Table{t}, nil
			}
			return []render.Table{t, limits}, nil
		},
		Names: func() ([]string, error) { return []string{"server/" + st.URL}, nil },
	})
}

func (s statusCommands) versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "Show the version of this program; status shows the server's",
		Action: args.WithOperands(func(c *cli.Context, _ []string) error {
			return s.printVersion(c)
		}),
	}
}

func (s statusCommands) printVersion(c *cli.Context) error {
	if err := s.CheckOutput(c); err != nil {
		return err
	}
	document := struct {
		Version   string `json:"version"`
		GoVersion string `json:"go_version"`
		Platform  string `json:"platform"`
	}{s.Env.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	return s.Print(c, render.Output{
		Document: document,
		Tables: func() ([]render.Table, error) {
			return []render.Table{{
				Header: []string{"VERSION", "GO", "PLATFORM"},
				Rows:   [][]string{{document.Version, document.GoVersion, document.Platform}},
			}}, nil
		},
		Names: func() ([]string, error) { return []string{fmt.Sprintf("%s/%s", args.Program, s.Env.Version)}, nil },
	})
}
