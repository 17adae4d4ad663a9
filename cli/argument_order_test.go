package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/urfave/cli/v2"
)

func testSession() *session {
	return newSession(context.Background(), Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }})
}

// leaves returns all commands without subcommands, including hidden ones.
func leaves(commands []*cli.Command, path ...*cli.Command) [][]*cli.Command {
	var all [][]*cli.Command
	for _, cmd := range commands {
		at := append(slices.Clone(path), cmd)
		if len(cmd.Subcommands) == 0 {
			all = append(all, at)
		}
		all = append(all, leaves(cmd.Subcommands, at...)...)
	}
	return all
}

func words(path []*cli.Command) []string {
	var names []string
	for _, cmd := range path {
		names = append(names, cmd.Name)
		if args.Operand(cmd) != "" {
			names = append(names, "network-policies")
		}
	}
	return names
}

// sample returns a flag with a value, as two words where the flag takes one.
func sample(f cli.Flag) []string {
	name := "--" + f.Names()[0]
	switch f.(type) {
	case *cli.BoolFlag:
		return []string{name}
	case *cli.IntFlag:
		return []string{name, "7"}
	case *cli.DurationFlag:
		return []string{name, "7s"}
	}
	return []string{name, "-dash=first,comma"}
}

// TestArgumentOrder runs every command with every flag in every position, and compares the parsed flags and arguments.
func TestArgumentOrder(t *testing.T) {
	t.Parallel()
	for _, path := range leaves(testSession().app().Commands) {
		name := strings.Join(words(path), " ")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operands := []string{"first", "second", "list", "help"}
			var flags [][]string
			for _, f := range slices.Concat(path[len(path)-1].Flags, globalFlags()) {
				if leaf := path[len(path)-1]; args.Operand(leaf) == f.Names()[0] {
					continue
				}
				flags = append(flags, sample(f))
			}
			verb := words(path)
			after, before, between := slices.Clone(verb), []string{}, slices.Clone(verb)
			after = append(after, operands...)
			for i, f := range flags {
				after = append(after, f...)
				before = append(before, f...)
				if i < len(operands) {
					between = append(between, operands[i])
				}
				between = append(between, f...)
			}
			between = append(between, operands[min(len(operands), len(flags)):]...)
			want := parsedLine(t, path, slices.Concat(verb, before, []string{"--"}, operands))
			if !strings.Contains(want, `args [first second list help]`) {
				t.Fatalf("the flags in front are not understood: %s", want)
			}
			for where, line := range map[string][]string{"after": after, "between": between} {
				if got := parsedLine(t, path, line); got != want {
					t.Errorf("flags %s the arguments:\n got %s\nwant %s", where, got, want)
				}
			}
		})
	}
}

// parsedLine runs a command line with an action that returns its flags and arguments.
func parsedLine(t *testing.T, path []*cli.Command, line []string) string {
	t.Helper()
	app := testSession().app()
	leaf, commands := (*cli.Command)(nil), app.Commands
	for _, cmd := range path {
		leaf = args.FindCommand(commands, cmd.Name)
		commands = leaf.Subcommands
	}
	var got string
	leaf.Action = func(c *cli.Context) error {
		got = fmt.Sprintf("args %v", c.Args().Slice())
		for _, f := range slices.Concat(leaf.Flags, app.Flags) {
			got += fmt.Sprintf(" %s=%v", f.Names()[0], c.Value(f.Names()[0]))
			if !c.IsSet(f.Names()[0]) {
				t.Errorf("%v: the flag %s got lost", line, f.Names()[0])
			}
		}
		return nil
	}
	l, err := args.Arrange(app, line)
	if err != nil {
		t.Fatalf("%v: %v", line, err)
	}
	if err := app.RunContext(context.Background(), append([]string{args.Program}, l.Args...)); err != nil {
		t.Fatalf("%v became %v: %v", line, l.Args, err)
	}
	return got
}

func TestArrange(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ line, want string }{
		{"get clusters -ojson", "--o=json get cluster"},
		{"get clusters -o json -l a=b", "--o=json get cluster --l=a=b"},
		{"component assign x --enabled false --cluster c", "component assign --enabled=false --cluster=c -- x"},
		{"component assign x --enabled --cluster c", "component assign --enabled --cluster=c -- x"},
		{"component assign --enabled falsehood --cluster c", "component assign --enabled --cluster=c -- falsehood"},
		{"get component -- --odd -x", "get component -- --odd -x"},
		{"get ns -", "get namespace -- -"},
		{"namespace get namespace get", "get namespace -- namespace get"},
		{"component set x --set a=--cluster", "component set --set=a=--cluster -- x"},
		{"component set x --set=--cluster", "component set --set=--cluster -- x"},
		{"cluster create x --node-count -5", "cluster create --node-count=-5 -- x"},
		{"get resource list x -o json", "--o=json get resource --type=list -- x"},
		{"get resource -o json --type=a --revision 3 x", "--o=json get resource --type=a --revision=3 -- x"},
		{"resource network-policies", "resource --type=network-policies"},
		{"-v", "--v"},
	} {
		l, err := args.Arrange(testSession().app(), strings.Fields(test.line))
		if err != nil {
			t.Errorf("%q: %v", test.line, err)
			continue
		}
		if got := strings.Join(l.Args, " "); got != test.want {
			t.Errorf("%q became %q, want %q", test.line, got, test.want)
		}
	}
}

// TestFlagNames: a flag of a command with the name of a global flag would take its value.
func TestFlagNames(t *testing.T) {
	t.Parallel()
	app := testSession().app()
	for _, path := range leaves(app.Commands) {
		names := map[string]bool{"help": true, "h": true}
		for _, f := range slices.Concat(path[len(path)-1].Flags, app.Flags) {
			for _, name := range f.Names() {
				if names[name] {
					t.Errorf("%s has two flags named %s", strings.Join(words(path), " "), name)
				}
				names[name] = true
			}
		}
	}
}

// TestEveryCommandHasAScript finds commands without a test against a real server.
func TestEveryCommandHasAScript(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var scripts strings.Builder
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(data)
	}
	for _, path := range leaves(testSession().app().Commands) {
		line := args.Program + " " + strings.Join(words(path), " ")
		if line != args.Program+" docs" && !strings.Contains(scripts.String(), line) {
			t.Errorf("no script in testdata/script runs %q", line)
		}
	}
}

// FuzzArrange: flags and arguments keep their order, without a panic.
func FuzzArrange(f *testing.F) {
	for _, line := range []string{"get clusters -ojson", "component set x --set a=b -- --set", "-o", "--=", "- -- -", "ns create --label=a=b x y", "\x00 --\xff", "resource a --type=b list --type=c", "resource -- a"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		app := testSession().app()
		l, err := args.Arrange(app, strings.Split(text, " "))
		if err != nil {
			return
		}
		again, err := args.Arrange(app, l.Args)
		if err != nil || !slices.Equal(again.Args, l.Args) && !l.Help {
			t.Errorf("%q became %q and then %q: %v", text, l.Args, again.Args, err)
		}
	})
}
