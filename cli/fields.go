package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/urfave/cli/v2"
)

// field is a field of a document that a flag sets.
type field struct {
	name string // in the document
	flag string // on the command line
	// initial is the value in a new assignment, for settings of assignments; nil: absent.
	initial any
	merge   bool            // the field is an object, whose given fields are merged over those of a file
	make    func() cli.Flag // a flag stores the parsed value, so every command tree has its own
	read    func(c *cli.Context, flag string) (any, error)
}

func textField(flag, name, usage string) field {
	return field{
		name: name, flag: flag,
		make: func() cli.Flag { return &cli.StringFlag{Name: flag, Usage: usage, Category: args.SettingCategory} },
		read: func(c *cli.Context, flag string) (any, error) { return c.String(flag), nil },
	}
}

// clearableField is a string field whose empty value means null: no override.
func clearableField(flag, name, usage string) field {
	f := textField(flag, name, usage)
	f.read = func(c *cli.Context, flag string) (any, error) {
		if c.String(flag) == "" {
			return nil, nil
		}
		return c.String(flag), nil
	}
	return f
}

func numberField(flag, name, usage string) field {
	return field{
		name: name, flag: flag,
		make: func() cli.Flag { return &cli.IntFlag{Name: flag, Usage: usage, Category: args.SettingCategory} },
		read: func(c *cli.Context, flag string) (any, error) { return c.Int(flag), nil },
	}
}

func boolField(flag, name, usage string) field {
	return field{
		name: name, flag: flag,
		make: func() cli.Flag { return &cli.BoolFlag{Name: flag, Usage: usage, Category: args.SettingCategory} },
		read: func(c *cli.Context, flag string) (any, error) { return c.Bool(flag), nil },
	}
}

func listField(flag, name, usage string) field {
	return field{
		name: name, flag: flag,
		make: func() cli.Flag { return &cli.StringSliceFlag{Name: flag, Usage: usage, Category: args.SettingCategory} },
		read: func(c *cli.Context, flag string) (any, error) { return stringValues(c, flag), nil },
	}
}

// parsedField is a list whose texts parse turns into the field's value.
func parsedField(flag, name, usage string, parse func(flag string, texts []string) (any, error)) field {
	f := listField(flag, name, usage)
	f.read = func(c *cli.Context, flag string) (any, error) { return parse(flag, stringValues(c, flag)) }
	return f
}

// stringValues returns the values of a repeatable flag. One empty value means none: it clears the list.
func stringValues(c *cli.Context, flag string) []string {
	values := c.StringSlice(flag)
	if len(values) == 1 && values[0] == "" {
		return []string{}
	}
	return values
}

func flagsOf(fields []field) []cli.Flag {
	flags := make([]cli.Flag, len(fields))
	for i, f := range fields {
		flags[i] = f.make()
	}
	return flags
}

// flagNames lists the flags of fields for a message.
func flagNames(fields []field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = "--" + f.flag
	}
	return args.ListOf(names)
}

// collectFields copies the fields of the flags on the command line into doc.
func collectFields(c *cli.Context, fields []field, doc map[string]any) error {
	for _, f := range fields {
		if !c.IsSet(f.flag) {
			continue
		}
		value, err := f.read(c, f.flag)
		if err != nil {
			return err
		}
		if f.merge {
			value = mergeOver(doc[f.name], value)
		}
		doc[f.name] = value
	}
	return nil
}

// mergeOver merges the fields of an object over those of a file; anything but an object is left for the server to reject.
func mergeOver(file, given any) any {
	raw, read := file.(json.RawMessage)
	fields, ok := given.(map[string]any)
	var was map[string]json.RawMessage
	if !read || !ok || json.Unmarshal(raw, &was) != nil {
		return given
	}
	merged := map[string]any{}
	for name, value := range was {
		merged[name] = value
	}
	maps.Copy(merged, fields)
	return merged
}

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
	return input.HelmValues(c.StringSlice, s.valuesFile, s.environment().Input)
}

func fileFlag(of string) cli.Flag {
	return &cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: of + ", from a YAML or JSON `FILE` (-: standard input)"}
}

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Category: args.ChangeCategory, Usage: "do not prompt"}
}

func fullFlag() cli.Flag {
	return &cli.BoolFlag{Name: "full", Usage: "show all, however long it is"}
}

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Category: args.ChangeCategory, Usage: "have the server check the change and show the result, without a change"}
}

// writeFlags are the flags of every change of a document.
func writeFlags() []cli.Flag {
	return []cli.Flag{
		dryRunFlag(),
		&cli.StringFlag{Name: "if-match", Category: args.ChangeCategory, Usage: "only if the document still has this `ETAG` (-v shows it)"},
	}
}

// input reads a file of documents in JSON or YAML; "-" is standard input. Half of a document could uninstall something.
func (s *session) input(name string) ([]byte, error) {
	data, err := s.environment().Input(name)
	if err != nil {
		return nil, err
	}
	if input.Truncated(data) {
		return nil, args.Errorf("%s seems truncated: its last line has no newline, so nothing was read; if it is complete, add a newline", input.SourceName(name))
	}
	return data, nil
}

// valuesFile reads a file of Helm values. Files of charts often have no newline at the end.
func (s *session) valuesFile(name string) ([]byte, error) {
	if name == "-" {
		return s.input(name)
	}
	return s.environment().Input(name)
}

// documentFrom returns the document of a create or update: the file's fields, overridden by those of flags. Its id is the
// argument's, or else the file's.
func (s *session) documentFrom(c *cli.Context, n documentKind) (id string, doc map[string]any, err error) {
	doc = map[string]any{}
	if name := c.String("file"); name != "" {
		data, err := s.input(name)
		if err != nil {
			return "", nil, err
		}
		object, err := input.Object(data, name)
		if err != nil {
			return "", nil, err
		}
		// Values stay as written: a number is not rounded.
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(object, &fields); err != nil {
			return "", nil, err
		}
		if string(fields["kind"]) == strconv.Quote(n.name) { // as export --split writes it
			delete(fields, "kind")
		}
		for field, value := range fields {
			doc[field] = value
		}
		if raw, ok := fields["id"]; ok {
			if err := json.Unmarshal(raw, &id); err != nil {
				return "", nil, fmt.Errorf("%s: the id must be a string", name)
			}
		}
	}
	if c.NArg() > 0 || id == "" {
		operands, err := arguments(c, "NAME")
		if err != nil {
			return "", nil, err
		}
		if id != "" && id != operands[0] {
			return "", nil, args.Errorf("%s is about %q, not %q", c.String("file"), id, operands[0])
		}
		id = operands[0]
	}
	if err := args.CheckID("NAME", id); err != nil {
		return "", nil, err
	}
	doc["id"] = id
	return id, doc, collectFields(c, n.fields, doc)
}

// arguments returns the positional arguments; their number must be that of the names.
func arguments(c *cli.Context, names ...string) ([]string, error) {
	operands := c.Args().Slice()
	if len(operands) != len(names) {
		return nil, args.Errorf("%s takes %s, not %s", c.Command.HelpName, counted(names), counted(operands))
	}
	return operands, checkIDs(names, operands)
}

// withArguments returns the action of a command that takes exactly the arguments of its usage.
func withArguments(run func(c *cli.Context, operands []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		operands, err := arguments(c, strings.Fields(c.Command.ArgsUsage)...)
		if err != nil {
			return err
		}
		return run(c, operands)
	}
}

// connected is withArguments with a connection to the server.
func (s *session) connected(run func(c *cli.Context, conn client, operands []string) error) cli.ActionFunc {
	return withArguments(func(c *cli.Context, operands []string) error {
		conn, err := s.connect(c)
		if err != nil {
			return err
		}
		return run(c, conn, operands)
	})
}

// severalArguments returns one or more arguments of one sort.
func severalArguments(c *cli.Context, name string) ([]string, error) {
	operands := c.Args().Slice()
	if len(operands) == 0 {
		return nil, args.Errorf("%s takes %s", c.Command.HelpName, name)
	}
	for _, arg := range operands {
		if err := args.CheckID(name, arg); err != nil {
			return nil, err
		}
	}
	return operands, nil
}

func counted(words []string) string {
	if len(words) == 0 {
		return "no arguments"
	}
	return strings.Join(words, " ")
}

func checkIDs(names, operands []string) error {
	for i, arg := range operands {
		if err := args.CheckID(names[i], arg); err != nil {
			return err
		}
	}
	return nil
}

// required returns the value of a mandatory flag.
func required(c *cli.Context, flag string) (string, error) {
	value := c.String(flag)
	if value == "" {
		return "", args.Errorf("%s needs --%s", c.Command.HelpName, flag)
	}
	return value, args.CheckID("--"+flag, value)
}

// initially returns the field with another value for new assignments.
func (f field) initially(value any) field {
	f.initial = value
	return f
}

// hidden returns the field with a flag that help does not show: a former name.
func (f field) hidden() field {
	inner := f.make
	f.make = func() cli.Flag {
		flag := inner()
		if list, ok := flag.(*cli.StringSliceFlag); ok {
			list.Hidden = true
		}
		if text, ok := flag.(*cli.StringFlag); ok {
			text.Hidden = true
		}
		return flag
	}
	return f
}
