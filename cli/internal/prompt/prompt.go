// Package prompt asks the user at the terminal to confirm changes that cannot easily be reverted.
package prompt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNotConfirmed is the error of a reply that does not confirm.
var ErrNotConfirmed = errors.New("not confirmed; nothing was changed")

var errInterrupted = errors.New("interrupted; nothing was changed")

// Prompter reads replies from the terminal. A run uses one for all prompts, because it buffers input.
type Prompter struct {
	In  io.Reader
	Out io.Writer

	replies *bufio.Reader
}

// Yes prompts for y or yes; every other reply is ErrNotConfirmed.
func (p *Prompter) Yes(what string) error {
	reply, err := p.reply(what + "? [y/N] ")
	if err != nil {
		return err
	}
	if reply = strings.ToLower(reply); reply != "y" && reply != "yes" {
		return ErrNotConfirmed
	}
	return nil
}

// Names prompts for all the names, separated by commas or spaces, so that the user must have read them.
func (p *Prompter) Names(what string, names []string) error {
	reply, err := p.reply(fmt.Sprintf("To %s, type %s: ", what, strings.Join(names, ",")))
	if err != nil {
		return err
	}
	typed := strings.FieldsFunc(reply, func(r rune) bool { return r == ',' || r == ' ' })
	if len(typed) != len(names) {
		return ErrNotConfirmed
	}
	for i, name := range names {
		if typed[i] != name {
			return ErrNotConfirmed
		}
	}
	return nil
}

func (p *Prompter) reply(question string) (string, error) {
	if _, err := io.WriteString(p.Out, question); err != nil {
		return "", err
	}
	if p.replies == nil {
		p.replies = bufio.NewReader(p.In)
	}
	line, err := p.replies.ReadString('\n')
	if errors.Is(err, context.Canceled) {
		_, _ = io.WriteString(p.Out, "\n")
		return "", errInterrupted
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}
