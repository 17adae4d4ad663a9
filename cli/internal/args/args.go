// Package args is the command line as words: it puts them into the order that urfave/cli understands, says what is wrong
// with them, prints the help, and answers what a shell may complete. It knows nothing of the API.
package args

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Program is the program's name.
const Program = "flux-resourceset-cli"

// NameOf is how the program was called, for its help: frs, or kubectl frs as a plugin of kubectl.
func NameOf(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return name
}

// Renamed is a text about the program as it was called.
func Renamed(text, name string) string { return strings.ReplaceAll(text, Program, name) }

// SettingCategory is the category of flags that describe a document. A boolean one takes "true" and "false" as a word of
// its own.
const SettingCategory = "Settings"

// ChangeCategory is the category of flags that all changes share. Help explains them once, in the help of the program.
const ChangeCategory = "Flags of changes"

// Error is a command line that cannot be understood.
type Error struct{ Err error }

func (e Error) Error() string { return e.Err.Error() }

func (e Error) Unwrap() error { return e.Err }

// Errorf makes an [Error].
func Errorf(format string, args ...any) error {
	return Error{fmt.Errorf(format, args...)}
}
