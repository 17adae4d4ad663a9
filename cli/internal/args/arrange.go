package args

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// Line is a command line in the order urfave/cli understands.
type Line struct {
	Args []string       // without the program's name
	Path []*cli.Command // the commands, outermost first
	Help bool           // --help is set
}

// Compares reports whether the command line only compares, so that its exit code is that of diff(1).
func (l Line) Compares() bool {
	if len(l.Path) > 0 && (l.Path[0].Name == "plan" || l.Path[0].Name == "diff") || len(l.Path) > 1 && l.Path[0].Name == "policy" && l.Path[1].Name == "test" {
		return true
	}
	flags, _, _ := strings.Cut(strings.Join(l.Args, "\x00"), "\x00--\x00")
	words := strings.Split(flags, "\x00")
	return slices.Contains(words, "--plan") || slices.Contains(words, "--plan=true")
}

// Arrange returns a command line in the order that urfave/cli needs: global flags, commands, the last command's flags, "--",
// positional arguments. Users type flags anywhere, and urfave/cli silently stops reading them at the first positional argument.
// `--` ends the flags. A value is joined to its flag ("--set=a=b"), so that it may start with a dash; but a known flag is never
// read as the value of the flag before it.
func Arrange(app *cli.App, args []string) (Line, error) {
	return arrange(app, inOrder(app, args))
}

func arrange(app *cli.App, args []string) (Line, error) {
	a := arranger{app: app, commands: app.Commands, rest: args}
	if err := a.read(); err != nil {
		return Line{}, err
	}
	l := Line{Args: a.globals, Path: a.path, Help: a.help}
	for i, cmd := range a.path {
		l.Args = append(l.Args, cmd.Name)
		if operand, ok := a.operands[i]; ok {
			l.Args = append(l.Args, "--"+Operand(cmd)+"="+operand)
		}
	}
	l.Args = append(l.Args, a.locals...)
	if len(a.positional) > 0 {
		l.Args = append(append(l.Args, "--"), a.positional...)
	}
	return l, nil
}

// arranger is the state of Arrange.
type arranger struct {
	app      *cli.App
	rest     []string       // words not read yet
	path     []*cli.Command // commands read so far
	commands []*cli.Command // possible next commands
	operands map[int]string // by the index of their command in the path

	globals, locals, positional []string

	help bool
}

// read reads all words.
func (a *arranger) read() error {
	for len(a.rest) > 0 {
		word := a.rest[0]
		a.rest = a.rest[1:]
		var err error
		switch {
		case word == "--":
			a.positional, a.rest = append(a.positional, a.rest...), nil
		case len(word) > 1 && word[0] == '-':
			err = a.flag(word)
		default:
			err = a.word(word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// word reads a word that is not a flag: a command while one can follow, then arguments.
func (a *arranger) word(word string) error {
	if last := len(a.path) - 1; last >= 0 && len(a.positional) == 0 && a.operand(Operand(a.path[last]), word) {
		return nil
	}
	if len(a.commands) == 0 || len(a.positional) > 0 {
		a.positional = append(a.positional, word)
		return nil
	}
	cmd := FindCommand(a.commands, word)
	if cmd == nil && len(a.path) > 0 && TakesArguments(a.path[len(a.path)-1]) {
		a.positional = append(a.positional, word)
		return nil
	}
	if cmd == nil {
		return a.unknownCommand(word)
	}
	a.path, a.commands = append(a.path, cmd), cmd.Subcommands
	return nil
}

// operand reads the operand of the last command, if the command has one of this name and it is not set yet.
func (a *arranger) operand(name, value string) bool {
	last := len(a.path) - 1
	if _, taken := a.operands[last]; taken || last < 0 || name == "" || name != Operand(a.path[last]) {
		return false
	}
	a.operands = map[int]string{last: value}
	return true
}

// flag reads a flag, with its value from the next word if it needs one.
func (a *arranger) flag(word string) error {
	name, value, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if name == "help" || name == "h" {
		a.help = true
		return nil
	}
	if hasValue && a.operand(name, value) {
		return nil
	}
	flag, global := a.find(name)
	if flag == nil && word[1] != '-' { // -ojson
		if short, g := a.find(word[1:2]); short != nil && TakesValue(short) {
			flag, global, name, value, hasValue = short, g, word[1:2], word[2:], true
		}
	}
	if flag == nil {
		return unknownFlag(a.app, a.path, word)
	}
	if !hasValue {
		var err error
		if value, hasValue, err = a.value(flag, name); err != nil {
			return err
		}
	}
	token := "--" + name
	if name == "dry-run" && value == "server" { // kubectl's form; only the server has dry runs
		value = "true"
	}
	if name == "dry-run" && hasValue && value != "true" && value != "false" {
		return Errorf("--dry-run=%s: it is the server that checks, and shows the result; write --dry-run", value)
	}
	if hasValue {
		token += "=" + value
	}
	if global {
		a.globals = append(a.globals, token)
	} else {
		a.locals = append(a.locals, token)
	}
	return nil
}

// value reads the next word if it is the flag's value.
func (a *arranger) value(flag cli.Flag, name string) (value string, ok bool, err error) {
	next := ""
	if len(a.rest) > 0 {
		next = a.rest[0]
	}
	switch {
	case takesBool(flag) && (next == "true" || next == "false"): // --enabled false
	case !TakesValue(flag):
		return "", false, nil
	case len(a.rest) == 0:
		return "", false, Errorf("the flag --%s needs a value", name)
	default:
		if other, _ := a.find(FlagName(next)); other != nil {
			return "", false, Errorf("the flag --%s needs a value, and got the flag %s; write --%s=%s if you mean it", name, next, name, next)
		}
	}
	a.rest = a.rest[1:]
	return next, true, nil
}

// find looks up a flag of the commands read so far, the innermost first, then of the program.
func (a *arranger) find(name string) (f cli.Flag, global bool) {
	for _, cmd := range slices.Backward(a.path) {
		if f := FindFlag(cmd.Flags, name); f != nil && name != Operand(cmd) {
			return f, false
		}
	}
	return FindFlag(a.app.Flags, name), true
}

// Operand returns the name of the first argument that becomes the value of a hidden flag, as `type` in `resource TYPE create` and in
// `get resource TYPE`; empty without one. The command's ArgsUsage declares it.
func Operand(cmd *cli.Command) string {
	first, _, _ := strings.Cut(cmd.ArgsUsage, " ")
	name := strings.ToLower(first)
	if f, ok := FindFlag(cmd.Flags, name).(cli.VisibleFlag); ok && !f.IsVisible() {
		return name
	}
	return ""
}

// TakesArguments reports whether a command with subcommands also takes arguments itself, as `bootstrap CLUSTER` beside
// `bootstrap ci`.
func TakesArguments(cmd *cli.Command) bool {
	return len(cmd.Subcommands) > 0 && cmd.ArgsUsage != "" && Operand(cmd) == "" && !TakesKind(cmd)
}

// TakesKind reports whether the subcommands of a command are kinds, as those of `get KIND`. They differ in flags only.
func TakesKind(cmd *cli.Command) bool {
	return len(cmd.Subcommands) > 0 && strings.HasPrefix(cmd.ArgsUsage, "KIND ")
}

// FlagName returns the name of a word that is a flag; empty for other words.
func FlagName(token string) string {
	if !strings.HasPrefix(token, "-") {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimLeft(token, "-"), "=")
	return name
}

// FindFlag returns the flag of a name; nil without one.
func FindFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if name != "" && slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// FindCommand returns the command of a name or alias; nil without one.
func FindCommand(commands []*cli.Command, name string) *cli.Command {
	for _, cmd := range commands {
		if cmd.HasName(name) {
			return cmd
		}
	}
	return nil
}

// TakesValue reports whether a flag is not boolean.
func TakesValue(f cli.Flag) bool {
	_, isBool := f.(*cli.BoolFlag)
	return !isBool
}

// takesBool reports whether a boolean flag may be followed by its value as a separate word.
func takesBool(f cli.Flag) bool {
	b, isBool := f.(*cli.BoolFlag)
	return isBool && b.Category == SettingCategory
}

// formerWords are former names of commands, with the present ones.
var formerWords = map[string]string{"update": "set", "patch": "set", "freeze": "pin", "unfreeze": "unpin"}

// verbFirst returns the command line for a verb of its own, that was written after the kind; "" for other words. App.Metadata has
// the kinds of these verbs. The flags that every command has are left out: tokens are among them.
func (a *arranger) verbFirst(verb string, rest ...string) string {
	cmd := FindCommand(a.app.Commands, verb)
	if len(a.path) != 1 || cmd == nil || !strings.HasPrefix(cmd.ArgsUsage, "KIND ") {
		return ""
	}
	kind := a.path[0].Name
	if operand, taken := a.operands[0]; taken {
		kind += "/" + operand
	}
	of, _ := a.app.Metadata[verb].([]string)
	if !slices.ContainsFunc(of, func(name string) bool { return name == a.path[0].Name || strings.HasPrefix(name, a.path[0].Name+"/") }) {
		return ""
	}
	line := arranger{app: a.app, commands: a.app.Commands, rest: append([]string{verb, kind}, rest...)}
	_ = line.read() // a wrong flag is left out
	words := slices.Concat([]string{Program, verb}, line.positional, line.locals)
	for i, word := range words {
		if strings.ContainsAny(word, " \t\n'\"$&|;<>()*?[]\\`") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

func (a *arranger) unknownCommand(arg string) error {
	app, path := a.app, a.path
	commands, parent := app.Commands, Program
	if len(path) > 0 {
		last := path[len(path)-1]
		commands, parent = last.Subcommands, last.HelpName
	}
	if now := a.verbFirst(arg, a.rest...); now != "" {
		return Errorf("%s %s is now: %s", parent, arg, now)
	}
	if now, known := formerWords[arg]; known && FindCommand(commands, now) != nil {
		return Errorf("%s %s is now: %s %s", parent, arg, parent, now)
	}
	if now := a.verbFirst("history", "NAME"); arg == "rollback" && parent != Program+" rollout" && now != "" {
		return Errorf("%s rollback is now: %s revision revert REVISION; %s lists the revisions", parent, Program, now)
	}
	if _, verb := kubectlVerbs[arg]; verb && len(path) == 0 {
		return Errorf("%s %s needs a kind: %s", parent, arg, ListOf(Visible(kindsOf(app, "get"))))
	}
	if use := suggestCommand(app, path, arg); use != "" {
		return Errorf("%s has no command %q; use: %s", parent, arg, use)
	}
	if len(path) > 0 && TakesKind(path[len(path)-1]) {
		return Errorf("%s has no kind %q; it has %s; for a definition of a resource type write resource TYPE", parent, arg, ListOf(Visible(commands)))
	}
	if similar := Closest(arg, Visible(commands)); similar != "" {
		return Errorf("%s has no command %q; did you mean %q?", parent, arg, similar)
	}
	return Errorf("%s has no command %q; it has %s", parent, arg, ListOf(Visible(commands)))
}

// formerFlags are former names of flags, with what to write instead.
var formerFlags = map[string]string{
	"as-sub": "--as-claim sub=SUB", "pointer": "--path", "revert": "revision revert REVISION --rollout NAME",
}

// maxListedFlags is the number of flags of a command up to which the error about an unknown one lists them.
const maxListedFlags = 12

func unknownFlag(app *cli.App, path []*cli.Command, arg string) error {
	flags, of := app.Flags, Program
	if len(path) > 0 {
		last := path[len(path)-1]
		flags, of = append(slices.Clone(last.Flags), app.Flags...), last.HelpName
	}
	if now, former := formerFlags[FlagName(arg)]; former {
		return Errorf("%s --%s is now: %s", of, FlagName(arg), now)
	}
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()[0])
	}
	if similar := Closest(FlagName(arg), names); similar != "" {
		return Errorf("%s has no flag %s; did you mean --%s?", of, arg, similar)
	}
	if len(path) > 0 {
		if own, _ := SplitChanges(path[len(path)-1].Flags); len(own) > 0 && len(own) <= maxListedFlags {
			names = nil
			for _, f := range own {
				names = append(names, "--"+f.Names()[0])
			}
			return Errorf("%s has no flag %s; it has %s", of, arg, ListOf(names))
		}
	}
	return Errorf("%s has no flag %s; see %s --help", of, arg, of)
}

// Visible returns the names of the commands that help lists.
func Visible(commands []*cli.Command) []string {
	var names []string
	for _, cmd := range commands {
		if !cmd.Hidden {
			names = append(names, cmd.Name)
		}
	}
	return names
}

// Closest returns the candidate with the smallest edit distance to word; empty if none is near.
func Closest(word string, candidates []string) string {
	best, limit := "", (len(word)+1)/3
	for _, c := range candidates {
		if d := smetrics.WagnerFischer(strings.ToLower(word), strings.ToLower(c), 1, 1, 1); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// ListOf joins names for a sentence: a, b and c.
func ListOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
