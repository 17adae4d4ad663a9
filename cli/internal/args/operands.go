package args

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// Operands returns the positional arguments; their number must be that of the names.
func Operands(c *cli.Context, names ...string) ([]string, error) {
	operands := c.Args().Slice()
	if len(operands) != len(names) && c.Bool("version") && FindFlag(c.Command.Flags, "component-version") != nil {
		return nil, Errorf("%s takes %s, not %s: --version prints the version of this program; the version of a component is --component-version", c.Command.HelpName, Counted(names), Counted(operands))
	}
	if len(operands) != len(names) {
		return nil, Errorf("%s takes %s, not %s", c.Command.HelpName, Counted(names), Counted(operands))
	}
	return operands, CheckIDs(names, operands)
}

// WithOperands returns the action of a command that takes exactly the arguments of its usage.
func WithOperands(run func(c *cli.Context, operands []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		names := strings.Fields(c.Command.ArgsUsage)
		if Operand(c.Command) != "" {
			names = names[1:]
		}
		operands, err := Operands(c, names...)
		if err != nil {
			return err
		}
		return run(c, operands)
	}
}

// SeveralOperands returns one or more arguments of one sort.
func SeveralOperands(c *cli.Context, name string) ([]string, error) {
	operands := c.Args().Slice()
	if len(operands) == 0 {
		return nil, Errorf("%s takes %s", c.Command.HelpName, name)
	}
	for _, arg := range operands {
		if err := CheckID(name, arg); err != nil {
			return nil, err
		}
	}
	return operands, nil
}

// Counted joins words for a message; "no arguments" without any.
func Counted(words []string) string {
	if len(words) == 0 {
		return "no arguments"
	}
	return strings.Join(words, " ")
}

// CheckIDs checks arguments, which have these names, as [CheckID] does.
func CheckIDs(names, operands []string) error {
	for i, arg := range operands {
		if err := CheckID(names[i], arg); err != nil {
			return err
		}
	}
	return nil
}

// Required returns the value of a mandatory flag.
func Required(c *cli.Context, flag string) (string, error) {
	value := c.String(flag)
	if value == "" {
		return "", Errorf("%s needs --%s", c.Command.HelpName, flag)
	}
	return value, CheckID("--"+flag, value)
}
