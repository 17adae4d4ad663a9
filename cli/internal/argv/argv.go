// Package argv is the command line as words: it puts them into the order that urfave/cli understands, says what is wrong
// with them, prints the help, and answers what a shell may complete. It knows nothing of the API.
package argv

import "fmt"

// Program is the program's name.
const Program = "flux-resourceset-cli"

// SettingCategory is the category of flags that describe a document. A boolean one takes "true" and "false" as a word of
// its own.
const SettingCategory = "Settings"

// Error is a command line that cannot be understood.
type Error struct{ Err error }

func (e Error) Error() string { return e.Err.Error() }

func (e Error) Unwrap() error { return e.Err }

// Errorf makes an [Error].
func Errorf(format string, args ...any) error {
	return Error{fmt.Errorf(format, args...)}
}
