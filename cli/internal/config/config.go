// Package config says which server a command talks to and how: the file with the contexts, the settings that follow from it,
// the environment and the flags, the tokens they lead to, and what earlier runs saw of a server.
package config

import (
	"io"
	"time"
)

// World is what it is read from.
type Environment struct {
	Getenv func(name string) string
	Stdin  io.Reader
	Stderr io.Writer // of the commands that print tokens
	Now    func() time.Time
	Warn   func(text string)
}
