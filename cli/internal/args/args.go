// Package args parses command lines into the order that urfave/cli understands, reports their errors, prints help and computes
// shell completions. It does not know the API.
package args

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
)

// Program is the program's name.
const Program = "flux-resourceset-cli"

// NameOf returns the name for help under which the program was called: frs, or kubectl frs as a plugin of kubectl.
func NameOf(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return name
}

// Renamed replaces the program's name in a text by the name under which it was called.
func Renamed(text, name string) string { return strings.ReplaceAll(text, Program, name) }

// SettingCategory is the category of flags that describe a document. A boolean flag of it takes "true" and "false" as a separate
// word.
const SettingCategory = "Settings"

// ChangeCategory is the category of flags that all changes share. Only the help of the program explains them.
const ChangeCategory = "Flags of changes"

// Error is the error of a wrong command line.
type Error struct{ Err error }

func (e Error) Error() string { return e.Err.Error() }

func (e Error) Unwrap() error { return e.Err }

// Errorf returns an [Error].
func Errorf(format string, args ...any) error {
	return Error{fmt.Errorf(format, args...)}
}

// CheckID rejects ids that would change the path of the request: an empty one, or a step up.
func CheckID(name, id string) error {
	if id == "" || id == "." || id == ".." {
		return Errorf("%q cannot be a %s", id, name)
	}
	return nil
}

// LoopbackURL reports whether a URL means the machine of the one who uses it.
func LoopbackURL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}
