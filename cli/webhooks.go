package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// webhookCommands are the commands about webhooks.
type webhookCommands struct{ *session }

func (s webhookCommands) webhookCommand() *cli.Command {
	return &cli.Command{
		Name: "webhook", Aliases: []string{"webhooks"}, Usage: "Signed events of revisions, rollouts and freezes for other systems",
		Subcommands: []*cli.Command{
			s.createCommand(), s.setCommand(), s.testCommand(), s.replayCommand(), s.rotateCommand(), s.secretCommand(),
		},
	}
}

func webhookFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "url", Usage: "`URL` of the receiver, such as https://hooks.example.com/fleet"},
		&cli.StringSliceFlag{Name: "kind", Usage: "only events about documents of this `KIND`, such as rollout; default: all kinds except token"},
		&cli.StringSliceFlag{Name: "event", Usage: "only events of this `TYPE`, such as fleet.rollout.paused; default: all"},
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "only events about clusters that match this `SELECTOR` over labels, environment and id, such as environment=prod; empty: all"},
		&cli.StringFlag{Name: "format", Usage: "`FORMAT`: standard, slack, teams, pagerduty or opsgenie (default: standard)"},
	}
}

// webhookBody returns the fields that flags set.
func webhookBody(c *cli.Context) map[string]any {
	body := map[string]any{}
	for _, name := range []string{"url", "selector", "format"} {
		if c.IsSet(name) {
			body[name] = c.String(name)
		}
	}
	for flag, field := range map[string]string{"kind": "kinds", "event": "events"} {
		if c.IsSet(flag) {
			body[field] = strings.Split(strings.Join(c.StringSlice(flag), ","), ",")
		}
	}
	return body
}

func (s webhookCommands) createCommand() *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "Send events to a URL", ArgsUsage: "NAME",
		Description: "Events have the format of CloudEvents and the signature of Standard Webhooks. The command webhook secret prints the secret for the receiver.\n\n" +
			args.ExampleText(
				"webhook create change-log --url https://hooks.example.com/fleet",
				"webhook create rollouts --url https://hooks.example.com/fleet --event fleet.rollout.paused,fleet.rollout.completed",
				"webhook create prod --url https://hooks.example.com/prod --selector environment=prod",
				"webhook create chat --url https://hooks.slack.com/services/T0/B0/X --format slack --kind layer --kind platform_component",
				"webhook create on-call --url 'https://events.pagerduty.com/v2/enqueue?routing_key=KEY' --format pagerduty",
			),
		Flags: append(webhookFlags(), change.DryRunFlag()),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			if !c.IsSet("url") {
				return args.Errorf("%s needs --url", c.Command.HelpName)
			}
			body := webhookBody(c)
			body["id"] = ids[0]
			return kindCommands{s.session, kinds.Webhooks}.changeOne(c, change.Operation{"op": "create", "kind": kinds.Webhooks.API, "document": body})
		}),
	}
}

func (s webhookCommands) setCommand() *cli.Command {
	return &cli.Command{
		Name: "set", Usage: "Change the URL, the events or the format of a webhook", ArgsUsage: "NAME",
		Description: args.ExampleText("webhook set change-log --url https://hooks.example.com/changes"),
		Flags:       append(webhookFlags(), change.WriteFlags()...),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			body := webhookBody(c)
			if len(body) == 0 {
				return args.Errorf("%s needs --url, --kind, --event, --selector or --format", c.Command.HelpName)
			}
			return kindCommands{s.session, kinds.Webhooks}.changeOne(c, kinds.Webhooks.Operation("patch", ids[0], map[string]any{"patch": body}))
		}),
	}
}

func (s webhookCommands) rotateCommand() *cli.Command {
	return &cli.Command{
		Name: "rotate", Usage: "Rotate the signing secret; for 24 hours events are also signed with the previous one", ArgsUsage: "NAME", Flags: change.WriteFlags(),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			return kindCommands{s.session, kinds.Webhooks}.send(c, func(client conn.Client) (*http.Response, error) {
				return conn.Send(c.Context, client, http.MethodPost, kinds.Webhooks.Calls.Document(ids[0])+"/rotate", nil, change.WriteEdits(c))
			})
		}),
	}
}

func (s webhookCommands) replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Usage: "Send the events after a revision again, with their ids", ArgsUsage: "NAME",
		Description: args.ExampleText("webhook replay change-log --after 400"),
		Flags:       append([]cli.Flag{&cli.IntFlag{Name: "after", Usage: "send the events after this `REVISION`"}}, change.WriteFlags()...),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			if !c.IsSet("after") {
				return args.Errorf("%s needs --after", c.Command.HelpName)
			}
			after := conn.Query(url.Values{"after": {strconv.Itoa(c.Int("after"))}})
			return kindCommands{s.session, kinds.Webhooks}.send(c, func(client conn.Client) (*http.Response, error) {
				return conn.Send(c.Context, client, http.MethodPost, kinds.Webhooks.Calls.Document(ids[0])+"/replay", nil, append(change.WriteEdits(c), after))
			})
		}),
	}
}

func (s webhookCommands) testCommand() *cli.Command {
	return &cli.Command{
		Name: "test", Usage: "Send a test event, and exit with 1 unless the receiver accepts it", ArgsUsage: "NAME",
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			a, err := conn.Receive(conn.Send(c.Context, client, http.MethodPost, kinds.Webhooks.Calls.Document(ids[0])+"/test", nil, nil))
			var result api.WebhookTest
			if err == nil {
				err = a.Decode(&result)
			}
			if err != nil {
				return err
			}
			if !result.Delivered {
				return fmt.Errorf("the test event was not delivered: %s", render.Printable(result.Error))
			}
			return s.Print(c, render.Output{Document: a.Body, Text: func(bool) string {
				return fmt.Sprintf("delivered: the receiver answered %d within %d ms\n", result.Status, result.DurationMs)
			}})
		}),
	}
}

func (s webhookCommands) secretCommand() *cli.Command {
	return &cli.Command{
		Name: "secret", Usage: "Print the signing secret of a webhook, for its receiver", ArgsUsage: "NAME",
		Description: args.ExampleText("webhook secret change-log > webhook.secret"),
		Action: s.Connected(func(c *cli.Context, client conn.Client, ids []string) error {
			a, err := conn.Receive(conn.Send(c.Context, client, http.MethodGet, kinds.Webhooks.Calls.Document(ids[0])+"/secret", nil, nil))
			var secret api.WebhookSecret
			if err == nil {
				err = a.Decode(&secret)
			}
			if err != nil {
				return err
			}
			if !c.IsSet("output") {
				return s.PrintLine(secret.Secret)
			}
			return s.Print(c, render.Output{Document: a.Body, Text: func(bool) string { return secret.Secret + "\n" }})
		}),
	}
}
