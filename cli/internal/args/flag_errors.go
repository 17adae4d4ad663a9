package args

import (
	"regexp"
	"strconv"

	"github.com/urfave/cli/v2"
)

// badValue matches the error of the flag parser about a value. The parser does not name the expected form.
var badValue = regexp.MustCompile(`^invalid value ("(?:[^"\\]|\\.)*") for flag -(\S+): parse error$`)

// FlagError returns an error of the flag parser as an [Error] that names the expected value.
func FlagError(flags []cli.Flag, err error) error {
	m := badValue.FindStringSubmatch(err.Error())
	if m == nil {
		return Error{Err: err}
	}
	value, unquoteErr := strconv.Unquote(m[1])
	if unquoteErr != nil {
		return Error{Err: err}
	}
	switch FindFlag(flags, m[2]).(type) {
	case *cli.DurationFlag:
		return Errorf("--%s %q is not a duration such as 30s, 10m or 1h30m", m[2], value)
	case *cli.IntFlag:
		return Errorf("--%s %q is not a whole number", m[2], value)
	default:
		return Error{Err: err}
	}
}
