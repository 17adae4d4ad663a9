package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// contexts are the commands about the file with the contexts.
type contexts struct{ *session }

func (s contexts) configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "Contexts: the servers you work with, by name",
		Subcommands: []*cli.Command{
			s.setContextCommand(),
			{
				Name: "use-context", Usage: "Make a context the current one", ArgsUsage: "NAME",
				Action: s.changing(s.useContext, "NAME"),
			},
			{
				Name: "current-context", Usage: "Print the name of the current context",
				Action: s.currentContext,
			},
			{
				Name: "rename-context", Usage: "Rename a context", ArgsUsage: "NAME NEW",
				Action: s.changing(s.renameContext, "NAME", "NEW"),
			},
			{
				Name: "get-contexts", Usage: "List the contexts",
				Action: s.getContexts,
			},
			{
				Name: "delete-context", Usage: "Delete a context from the configuration file", ArgsUsage: "NAME",
				Action: s.changing(s.deleteContext, "NAME"),
			},
			{
				Name: "view", Usage: "Show the configuration and the effective settings, with masked tokens",
				Action: s.viewConfig,
			},
		},
	}
}

// tokenFlags are the sources of a context's token; the token itself is a global flag.
func tokenFlags() []cli.Flag {
	var flags []cli.Flag
	for _, token := range []string{"api-token", "write-token"} {
		flags = append(flags,
			&cli.StringFlag{Name: token + "-env", Usage: "take the " + token + " from this environment `VARIABLE`"},
			&cli.StringFlag{Name: token + "-file", Usage: "take the " + token + " from this `FILE`"},
			&cli.StringFlag{Name: token + "-command", Usage: "take the " + token + " from what this `COMMAND` prints, such as a password manager's"},
		)
	}
	return flags
}

func (s contexts) setContextCommand() *cli.Command {
	return &cli.Command{
		Name:      "set-context",
		Usage:     "Create a context, or change the given settings of an existing one; the first one becomes the current one",
		ArgsUsage: "NAME",
		Description: "Stores --api-url, --ca-file, --client-cert, --client-key, --timeout, --author and the sources of the tokens.\n" +
			"A token in --api-token or --write-token is written to the file, which only you can read.",
		Flags: tokenFlags(),
		Action: s.changing(func(c *cli.Context, file *config.File, names []string) (string, error) {
			ctx := file.Find(names[0])
			if ctx == nil {
				file.Contexts = append(file.Contexts, config.Context{Name: names[0]})
				ctx = file.Find(names[0])
			}
			file.CurrentContext = cmp.Or(file.CurrentContext, names[0])
			return fmt.Sprintf("Context %q is stored.", names[0]), setContext(ctx, c)
		}, "NAME"),
	}
}

// changing returns an action that changes the file: it takes the arguments, stores the file that change changed, and prints
// the note that change returns.
func (s contexts) changing(changed func(c *cli.Context, file *config.File, names []string) (note string, err error), operands ...string) cli.ActionFunc {
	return func(c *cli.Context) error {
		names, err := args.Operands(c, operands...)
		if err != nil {
			return err
		}
		file, err := s.Environment().Load(c)
		if err != nil {
			return err
		}
		note, err := changed(c, file, names)
		if err != nil {
			return err
		}
		if err := s.Environment().Save(c, file); err != nil {
			return err
		}
		s.Note("%s", note)
		return nil
	}
}

// setContext applies the flags of the command line.
func setContext(f *config.Context, c *cli.Context) error {
	for flag, field := range map[string]*string{"api-url": &f.APIURL, "timeout": &f.Timeout, "author": &f.Author} {
		if c.IsSet(flag) {
			*field = fmt.Sprint(c.Value(flag))
		}
	}
	for flag, field := range map[string]*string{"ca-file": &f.CAFile, "client-cert": &f.ClientCert, "client-key": &f.ClientKey} {
		if !c.IsSet(flag) {
			continue
		}
		path, err := absolute(c.String(flag))
		if err != nil {
			return err
		}
		*field = path
	}
	for flag, source := range map[string]*config.TokenSource{"api-token": &f.Token, "write-token": &f.WriteToken} {
		var given []config.TokenSource
		if c.IsSet(flag) {
			given = append(given, config.TokenSource{Value: c.String(flag)})
		}
		if c.IsSet(flag + "-env") {
			given = append(given, config.TokenSource{Env: c.String(flag + "-env")})
		}
		if c.IsSet(flag + "-file") {
			path, err := absolute(c.String(flag + "-file"))
			if err != nil {
				return err
			}
			given = append(given, config.TokenSource{File: path})
		}
		if c.IsSet(flag + "-command") {
			given = append(given, config.TokenSource{Command: c.String(flag + "-command")})
		}
		switch len(given) {
		case 0:
		case 1:
			*source = given[0]
		default:
			return args.Errorf("a token has one source: use one of --%s, --%s-env, --%s-file and --%s-command", flag, flag, flag, flag)
		}
	}
	return nil
}

// absolute makes a path independent of where the program is started. Empty stays empty: it clears the field.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

func (s contexts) useContext(_ *cli.Context, file *config.File, names []string) (string, error) {
	if file.Find(names[0]) == nil {
		return "", unknownContext(names[0])
	}
	file.CurrentContext = names[0]
	return fmt.Sprintf("Context %q is the current one.", names[0]), nil
}

func unknownContext(name string) error {
	return conn.WithHint(fmt.Errorf("there is no context %q", name), "config get-contexts lists them.")
}

func (s contexts) currentContext(c *cli.Context) error {
	if _, err := args.Operands(c); err != nil {
		return err
	}
	file, err := s.Environment().Load(c)
	if err != nil {
		return err
	}
	if file.CurrentContext == "" {
		return conn.WithHint(errors.New("there is no current context"), "choose one with: config use-context NAME")
	}
	_, err = fmt.Fprintln(s.Env.Stdout, file.CurrentContext)
	return err
}

func (s contexts) renameContext(_ *cli.Context, file *config.File, names []string) (string, error) {
	ctx := file.Find(names[0])
	switch {
	case ctx == nil:
		return "", unknownContext(names[0])
	case names[0] != names[1] && file.Find(names[1]) != nil:
		return "", args.Errorf("there is a context %q already", names[1])
	}
	ctx.Name = names[1]
	if file.CurrentContext == names[0] {
		file.CurrentContext = names[1]
	}
	return fmt.Sprintf("Context %q is now called %q.", names[0], names[1]), nil
}

func (s contexts) deleteContext(_ *cli.Context, file *config.File, names []string) (string, error) {
	if file.Find(names[0]) == nil {
		return "", unknownContext(names[0])
	}
	file.Contexts = slices.DeleteFunc(file.Contexts, func(f config.Context) bool { return f.Name == names[0] })
	if file.CurrentContext == names[0] {
		file.CurrentContext = ""
		s.Note("There is no current context now; choose one with: config use-context NAME")
	}
	return fmt.Sprintf("Context %q is deleted.", names[0]), nil
}

func (s contexts) getContexts(c *cli.Context) error {
	if _, err := args.Operands(c); err != nil {
		return err
	}
	if err := s.CheckOutput(c); err != nil {
		return err
	}
	file, err := s.Environment().Load(c)
	if err != nil {
		return err
	}
	type shown struct {
		Name    string `json:"name"`
		Current bool   `json:"current"`
		APIURL  string `json:"api-url"`
	}
	list := []shown{}
	for _, f := range file.Contexts {
		list = append(list, shown{f.Name, f.Name == file.CurrentContext, f.APIURL})
	}
	return s.Print(c, render.Output{
		Document: list,
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"CURRENT", "NAME", "API URL"}}
			for _, f := range list {
				mark := " "
				if f.Current {
					mark = "*"
				}
				t.Rows = append(t.Rows, []string{mark, f.Name, f.APIURL})
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) {
			names := make([]string, len(list))
			for i, f := range list {
				names[i] = "context/" + f.Name
			}
			return names, nil
		},
	})
}

// viewConfig prints the file's contexts and the effective settings. At a terminal it prints YAML, like the file.
func (s contexts) viewConfig(c *cli.Context) error {
	if _, err := args.Operands(c); err != nil {
		return err
	}
	if err := s.CheckOutput(c); err != nil {
		return err
	}
	file, err := s.Environment().Load(c)
	if err != nil {
		return err
	}
	path, err := s.Environment().Path(c)
	if err != nil {
		return err
	}
	set, err := s.Environment().Resolve(c)
	if err != nil {
		return err
	}
	for i := range file.Contexts {
		each := &file.Contexts[i]
		each.Token, each.WriteToken, each.Session = each.Token.Masked(), each.WriteToken.Masked(), each.Session.Masked()
	}
	view := struct {
		Path string `json:"file"`
		config.File
		InUse config.Context `json:"in-use"`
	}{path, *file, config.Context{
		Name: set.Context, APIURL: set.URL, Token: set.Token.Masked(), WriteToken: set.WriteToken.Masked(),
		CAFile: set.CAFile, ClientCert: set.ClientCert, ClientKey: set.ClientKey, Author: set.Author,
	}}
	if set.Timeout > 0 {
		view.InUse.Timeout = set.Timeout.String()
	}
	if view.Contexts == nil {
		view.Contexts = []config.Context{}
	}
	format, err := s.Format(c)
	if err != nil {
		return err
	}
	if format == "table" || format == "wide" { // the document has no rows
		format = "yaml"
	}
	return s.PrintAs(c, format, render.Output{Document: view, Names: func() ([]string, error) { return []string{path}, nil }})
}
