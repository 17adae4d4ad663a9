package kinds

import (
	"encoding/json"
	"maps"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/urfave/cli/v2"
)

// Field is a field of a document that a flag sets.
type Field struct {
	Name string // in the document
	Flag string // on the command line
	// Initial is the value in a new assignment, for settings of assignments; nil: absent.
	Initial any
	merge   bool            // the field is an object, whose given fields are merged over those of a file
	make    func() cli.Flag // a flag stores the parsed value, so every command tree has its own
	read    func(c *cli.Context, flag string) (any, error)
}

func textField(flag, name, usage string) Field {
	return Field{
		Name: name, Flag: flag,
		make: func() cli.Flag { return &cli.StringFlag{Name: flag, Usage: usage, Category: args.SettingCategory} },
		read: func(c *cli.Context, flag string) (any, error) { return c.String(flag), nil },
	}
}

// clearableField is a string field whose empty value means null: no override.
func clearableField(flag, name, usage string) Field {
	f := textField(flag, name, usage)
	f.read = func(c *cli.Context, flag string) (any, error) {
		if c.String(flag) == "" {
			return nil, nil
		}
		return c.String(flag), nil
	}
	return f
}

func numberField(flag, name, usage string) Field {
	return Field{
		Name: name, Flag: flag,
		make: func() cli.Flag { return &cli.IntFlag{Name: flag, Usage: usage, Category: args.SettingCategory} },
		read: func(c *cli.Context, flag string) (any, error) { return c.Int(flag), nil },
	}
}

func boolField(flag, name, usage string) Field {
	return Field{
		Name: name, Flag: flag,
		make: func() cli.Flag { return &cli.BoolFlag{Name: flag, Usage: usage, Category: args.SettingCategory} },
		read: func(c *cli.Context, flag string) (any, error) { return c.Bool(flag), nil },
	}
}

func listField(flag, name, usage string) Field {
	return Field{
		Name: name, Flag: flag,
		make: func() cli.Flag { return &cli.StringSliceFlag{Name: flag, Usage: usage, Category: args.SettingCategory} },
		read: func(c *cli.Context, flag string) (any, error) { return stringValues(c, flag), nil },
	}
}

// parsedField is a list whose texts parse turns into the field's value.
func parsedField(flag, name, usage string, parse func(flag string, texts []string) (any, error)) Field {
	f := listField(flag, name, usage)
	f.read = func(c *cli.Context, flag string) (any, error) { return parse(flag, stringValues(c, flag)) }
	return f
}

// variablesField holds variables. The given ones are changes: the others stay.
func variablesField(usage string) Field {
	f := listField("var", "variables", usage+", `KEY=VALUE`, or KEY- to remove it; typed as helm --set does (3 is a number, '\"3\"' text); repeat for more; the others stay")
	f.read = func(c *cli.Context, flag string) (any, error) {
		given, err := input.Variables(flag, c.StringSlice(flag))
		return changes(given), err
	}
	f.merge = true
	return f
}

// fluxField holds Flux settings. It changes the given settings and keeps the others.
func fluxField(flag, usage string) Field {
	f := listField(flag, "flux", usage+", `PATH=VALUE` as in its spec, such as upgrade.remediation.retries=3, or PATH- to remove it; repeat for more; other settings stay; empty removes all")
	f.read = func(c *cli.Context, flag string) (any, error) {
		texts := stringValues(c, flag)
		if len(texts) == 0 {
			return nil, nil
		}
		given, err := input.FluxSettings(flag, texts)
		return changes(given), err
	}
	f.merge = true
	return f
}

// changes is the value of a field in which only the given keys change, also within nested objects; null removes a key.
type changes map[string]any

// stringValues returns the values of a repeatable flag. One empty value means none: it clears the list.
func stringValues(c *cli.Context, flag string) []string {
	values := c.StringSlice(flag)
	if len(values) == 1 && values[0] == "" {
		return []string{}
	}
	return values
}

// FlagsOf returns the flags of fields.
func FlagsOf(fields []Field) []cli.Flag {
	flags := make([]cli.Flag, len(fields))
	for i, f := range fields {
		flags[i] = f.make()
	}
	return flags
}

// FlagNames lists the flags of fields for a message.
func FlagNames(fields []Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = "--" + f.Flag
	}
	return args.ListOf(names)
}

// CollectFields copies the fields of the flags on the command line into doc.
func CollectFields(c *cli.Context, fields []Field, doc map[string]any) error {
	for _, f := range fields {
		if !c.IsSet(f.Flag) {
			continue
		}
		value, err := f.read(c, f.Flag)
		if err != nil {
			return err
		}
		if f.merge {
			value = mergeOver(doc[f.Name], value)
		}
		doc[f.Name] = value
	}
	return nil
}

// mergeOver merges the fields of an object over those of a file; anything but an object is left for the server to reject.
func mergeOver(file, given any) any {
	raw, read := file.(json.RawMessage)
	fields, ok := given.(map[string]any)
	patch, partial := given.(changes)
	if partial {
		fields, ok = patch, true
	}
	var was map[string]json.RawMessage
	if !read || !ok || json.Unmarshal(raw, &was) != nil {
		return given
	}
	if partial {
		for name, value := range fields {
			if below, isObject := value.(map[string]any); isObject {
				fields[name] = mergeOver(was[name], changes(below))
			}
		}
	}
	merged := map[string]any{}
	for name, value := range was {
		merged[name] = value
	}
	maps.Copy(merged, fields)
	if partial {
		maps.DeleteFunc(merged, func(_ string, value any) bool { return value == nil })
	}
	return merged
}

// initially returns the field with another value for new assignments.
func (f Field) initially(value any) Field {
	f.Initial = value
	return f
}

// hidden returns the field with a flag that help does not show: a former name.
func (f Field) hidden() Field {
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
