// Package conn holds what one run of the command line uses: the environment, the connection to the server with requests and responses,
// output, and errors with hints. It knows no kind of document and makes no change.
package conn

import (
	"context"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/prompt"
)

// Session is one run of the program.
type Session struct {
	Console
	Connection Connection
	Program    string // name by which it was called

	Prompter prompt.Prompter // at the terminal
	Line     string          // the summary of the change; empty: the response is printed
	Stdout   *Stdout
}

// New returns the session of a run.
func New(ctx context.Context, env Env) *Session {
	out := &Stdout{to: env.Stdout}
	env.Stdout = out
	s := &Session{Console: Console{Env: env, stdin: prompt.Interruptible(ctx, env.Stdin), warned: map[string]bool{}}, Stdout: out}
	s.Connection.console = &s.Console
	s.Prompter = prompt.Prompter{In: s.stdin, Out: env.Stderr}
	return s
}
