// Package config finds the server of a command and the way to reach it, from the file with the contexts, the environment and flags:
// address, tokens and certificates. It also stores the revisions of a server that earlier runs saw.
package config

import (
	"io"
	"time"
)

// Environment is the source of the configuration.
type Environment struct {
	Getenv func(name string) string
	Stdin  io.Reader
	Stderr io.Writer // for commands that print tokens
	Now    func() time.Time
	Warn   func(text string)
}
