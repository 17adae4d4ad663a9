// Package prompt puts questions to the person at the terminal, about what cannot simply be taken back.
package prompt

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNotConfirmed says that the answer was not the one that confirms.
var ErrNotConfirmed = errors.New("not confirmed; nothing was changed")

// Prompter is whoever is at the terminal. One is enough for a run: what is read ahead of an answer is not lost.
type Prompter struct {
	In  io.Reader
	Out io.Writer

	replies *bufio.Reader
}

// Yes asks whether something is meant. Everything but y and yes is a no.
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

// Names asks for words that only somebody types who has read what this is about. All of them have to be there, with commas
// or spaces between them.
func (p *Prompter) Names(what string, names []string) error {
	reply, err := p.reply(fmt.Sprintf("To %s, type %s: ", what, strings.Join(names, ",")))
	if err != nil {
		return err
	}
	resourceType := strings.FieldsFunc(reply, func(r rune) bool { return r == ',' || r == ' ' })
	if len(resourceType) != len(names) {
		return ErrNotConfirmed
	}
	for i, name := range names {
		if resourceType[i] != name {
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
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}
