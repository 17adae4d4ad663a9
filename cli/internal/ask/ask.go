// Package ask puts questions to the person at the terminal, about what cannot simply be taken back.
package ask

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNo says that the answer was not the one that confirms.
var ErrNo = errors.New("not confirmed; nothing was changed")

// Person is whoever is at the terminal. One is enough for a run: what is read ahead of an answer is not lost.
type Person struct {
	In  io.Reader
	Out io.Writer

	replies *bufio.Reader
}

// Yes asks whether something is meant. Everything but y and yes is a no.
func (p *Person) Yes(what string) error {
	reply, err := p.reply(what + "? [y/N] ")
	if err != nil {
		return err
	}
	if reply = strings.ToLower(reply); reply != "y" && reply != "yes" {
		return ErrNo
	}
	return nil
}

// Names asks for words that only somebody types who has read what this is about. All of them have to be there, with commas
// or spaces between them.
func (p *Person) Names(what string, names []string) error {
	reply, err := p.reply(fmt.Sprintf("To %s, type %s: ", what, strings.Join(names, ",")))
	if err != nil {
		return err
	}
	typed := strings.FieldsFunc(reply, func(r rune) bool { return r == ',' || r == ' ' })
	if len(typed) != len(names) {
		return ErrNo
	}
	for i, name := range names {
		if typed[i] != name {
			return ErrNo
		}
	}
	return nil
}

func (p *Person) reply(question string) (string, error) {
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
