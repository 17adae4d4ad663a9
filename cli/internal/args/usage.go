package args

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// PrintUsage writes the help of a command, or of the program when the path is empty.
//
// The help of the program explains the flags in changes, which all changes share; that of a command only names them.
func PrintUsage(w io.Writer, app *cli.App, path []*cli.Command, changes []cli.Flag) {
	var b strings.Builder
	if len(path) == 0 {
		_, _ = fmt.Fprintf(&b, "%s\n\nUsage: %s COMMAND [flags] [arguments]\n", app.Usage, app.Name)
		usageCommands(&b, "Commands", app.Commands)
		usageFlags(&b, app.Flags)
		usageFlags(&b, changes)
		usageRows(&b, "Files", [][2]string{
			{"$XDG_CONFIG_HOME/flux-resourceset/config.yaml", "the contexts"},
			{"$XDG_STATE_HOME/flux-resourceset/revisions.jsonl", "the newest revision of each server in the last ten minutes, which the next command requires; may be deleted"},
		})
		_, _ = fmt.Fprintf(&b, "\nCommands of one kind stand under the kind: cluster create. Verbs that are alike for all kinds take KIND NAME: get cluster prod-01.\n"+
			"Flags may stand anywhere. %s COMMAND --help explains a command.\n", app.Name)
		_, _ = io.WriteString(w, b.String())
		return
	}
	cmd := path[len(path)-1]
	_, _ = fmt.Fprintf(&b, "%s\n\nUsage: %s\n", cmd.Usage, Synopsis(cmd))
	if cmd.Description != "" {
		_, _ = fmt.Fprintf(&b, "\n%s\n", cmd.Description)
	}
	if TakesKind(cmd) {
		usageCommands(&b, "Kinds", cmd.Subcommands)
		_, _ = fmt.Fprintf(&b, "\n%s %s KIND --help lists the flags of a kind.\n", app.Name, cmd.Name)
	} else {
		usageCommands(&b, "Commands", cmd.Subcommands)
	}
	own, shared := SplitChanges(cmd.Flags)
	usageFlags(&b, own)
	if len(shared) > 0 {
		_, _ = fmt.Fprintf(&b, "\n%s: %s\n", ChangeCategory, strings.Join(shared, ", "))
		_, _ = fmt.Fprintf(&b, "\n%s --help explains these, and lists the flags that every command has.\n", app.Name)
	} else {
		_, _ = fmt.Fprintf(&b, "\n%s --help lists the flags that every command has.\n", app.Name)
	}
	_, _ = io.WriteString(w, b.String())
}

// SplitChanges returns the flags of a command that are its own, and the names of those that all changes share.
func SplitChanges(flags []cli.Flag) (own []cli.Flag, shared []string) {
	for _, f := range VisibleFlags(flags) {
		if c, ok := f.(cli.CategorizableFlag); ok && c.GetCategory() == ChangeCategory {
			shared = append(shared, "--"+f.Names()[0])
			continue
		}
		own = append(own, f)
	}
	return own, shared
}

// ExampleText formats command lines, given without the program's name, as the description of a command.
func ExampleText(lines ...string) string {
	return "Example:\n\n    " + Program + " " + strings.Join(lines, "\n    "+Program+" ")
}

// Synopsis returns the usage line of a command.
func Synopsis(cmd *cli.Command) string {
	words := []string{cmd.HelpName}
	if cmd.ArgsUsage != "" {
		words = append(words, cmd.ArgsUsage)
	}
	if len(cmd.Subcommands) > 0 && !TakesArguments(cmd) && !TakesKind(cmd) {
		words = append(words, "COMMAND")
	}
	for _, f := range cmd.Flags {
		if name, usage := Describe(f); strings.Contains(usage, "(required)") {
			words = append(words, name)
		}
	}
	if (len(cmd.Subcommands) == 0 || TakesArguments(cmd)) && len(cmd.Flags) > 0 || TakesKind(cmd) {
		words = append(words, "[flags]")
	}
	return strings.Join(words, " ")
}

func usageCommands(b *strings.Builder, title string, commands []*cli.Command) {
	var rows [][2]string
	for _, cmd := range commands {
		if !cmd.Hidden {
			rows = append(rows, [2]string{strings.Join(cmd.Names(), ", "), cmd.Usage})
		}
	}
	usageRows(b, title, rows)
}

// usageFlags lists flags by category, in the order of their first appearance.
func usageFlags(b *strings.Builder, flags []cli.Flag) {
	var order []string
	rows := map[string][][2]string{}
	for _, f := range VisibleFlags(flags) {
		category := "Flags"
		if f, ok := f.(cli.CategorizableFlag); ok && f.GetCategory() != "" {
			category = f.GetCategory()
		}
		if rows[category] == nil {
			order = append(order, category)
		}
		name, usage := Describe(f)
		rows[category] = append(rows[category], [2]string{name, usage})
	}
	for _, category := range order {
		usageRows(b, category, rows[category])
	}
}

func usageRows(b *strings.Builder, title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	_, _ = fmt.Fprintf(b, "\n%s:\n", title)
	for _, row := range rows {
		_, _ = fmt.Fprintf(b, "  %-*s  %s\n", width, row[0], row[1])
	}
}

// VisibleFlags returns the flags that help lists.
func VisibleFlags(flags []cli.Flag) []cli.Flag {
	var out []cli.Flag
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); !ok || v.IsVisible() {
			out = append(out, f)
		}
	}
	return out
}

// Describe returns a flag's names with the placeholder of its value, and its description. The placeholder is the word in
// backquotes, or else the type of the value.
func Describe(f cli.Flag) (names, usage string) {
	words := make([]string, 0, 2)
	for _, name := range f.Names() {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		words = append(words, dashes+name)
	}
	if d, ok := f.(cli.DocGenerationFlag); ok {
		usage = d.GetUsage()
	}
	placeholder := ""
	if before, rest, ok := strings.Cut(usage, "`"); ok {
		if word, after, closed := strings.Cut(rest, "`"); closed {
			placeholder, usage = word, before+word+after
		}
	}
	switch f := f.(type) {
	case *cli.BoolFlag:
		return strings.Join(words, ", "), usage
	case *cli.StringFlag:
		if f.Value != "" {
			usage += " (default: " + f.Value + ")"
		}
	case *cli.IntFlag:
		placeholder = cmp.Or(placeholder, "N")
	case *cli.DurationFlag:
		placeholder = cmp.Or(placeholder, "DURATION")
	}
	return strings.Join(words, ", ") + " " + cmp.Or(placeholder, "VALUE"), usage
}
