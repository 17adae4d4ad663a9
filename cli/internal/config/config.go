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
	In     io.Reader // standard input, to read files from
	Stdin  io.Reader // of commands that print tokens
	Stderr io.Writer // of the same
	Now    func() time.Time
	Warn   func(text string)
}
