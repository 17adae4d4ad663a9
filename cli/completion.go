package cli

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// The scripts ask the program itself what can follow, with the hidden command __complete, so they never go stale.
//
//go:embed completion/*
var completionScripts embed.FS

var shells = []string{"bash", "zsh", "fish", "powershell"}

func (s *session) completionCommand() *cli.Command {
	install := map[string]string{
		"bash":       "source <(" + programName + " completion bash)",
		"zsh":        "source <(" + programName + " completion zsh)   (after compinit)",
		"fish":       programName + " completion fish | source",
		"powershell": programName + " completion powershell | Out-String | Invoke-Expression",
	}
	cmd := &cli.Command{Name: "completion", Usage: "Print the script that lets a shell complete commands, flags and names"}
	for _, shell := range shells {
		cmd.Subcommands = append(cmd.Subcommands, &cli.Command{
			Name: shell, Usage: "The script for " + shell, Description: "Put this into the shell's start-up file:\n\n    " + install[shell],
			Action: func(c *cli.Context) error {
				if _, err := arguments(c); err != nil {
					return err
				}
				script, err := completionScripts.ReadFile("completion/" + shell)
				if err != nil {
					return err
				}
				_, err = s.env.Stdout.Write(script)
				return err
			},
		})
	}
	return cmd
}

// completeCommand prints what can stand in place of the last word, one a line. It never fails: a shell has no place
// for an error while somebody types.
func (s *session) completeCommand() *cli.Command {
	return &cli.Command{
		Name: "__complete", Hidden: true, Usage: "Print what can follow the words of a command line", ArgsUsage: "WORD...",
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) == 0 {
				words = []string{""}
			}
			for _, candidate := range s.candidates(c, words) {
				_, _ = fmt.Fprintln(s.env.Stdout, candidate)
			}
			return nil
		},
	}
}

// candidates are the words that start like the last one of words and can stand in its place.
func (s *session) candidates(c *cli.Context, words []string) []string {
	before, word := words[:len(words)-1], words[len(words)-1]
	var (
		path       []*cli.Command
		commands   = s.root.Commands
		flags      = s.root.Flags
		positional int
		flagsEnded bool
	)
	for i := 0; i < len(before); i++ {
		w := before[i]
		switch {
		case w == "--":
			flagsEnded = true
		case flagsEnded || !strings.HasPrefix(w, "-"):
			cmd := findCommand(commands, w)
			if cmd == nil || positional > 0 {
				positional++
				continue
			}
			path, commands = append(path, cmd), cmd.Subcommands
			flags = append(append([]cli.Flag{}, cmd.Flags...), flags...)
		default:
			flag := findFlag(flags, flagName(w))
			if flag == nil || !takesValue(flag) {
				continue
			}
			_, value, joined := strings.Cut(w, "=")
			if !joined {
				if i++; i == len(before) { // word is its value
					return matching(word, "", s.flagValues(c, flag, path))
				}
				value = before[i]
			}
			if findFlag(s.root.Flags, flagName(w)) == flag { // it may say which server to ask
				_ = c.Set(flag.Names()[0], value)
			}
		}
	}
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") && !flagsEnded {
		if flag := findFlag(flags, flagName(word)); flag != nil {
			return matching(value, name+"=", s.flagValues(c, flag, path))
		}
		return nil
	}
	if strings.HasPrefix(word, "-") && !flagsEnded {
		var names []string
		for _, f := range visibleFlags(flags) {
			names = append(names, "--"+f.Names()[0])
		}
		return matching(word, "", names)
	}
	if len(commands) > 0 {
		return matching(word, "", visible(commands))
	}
	return matching(word, "", s.argumentValues(c, path, positional))
}

func matching(word, prefix string, candidates []string) []string {
	var out []string
	for _, candidate := range candidates {
		if strings.HasPrefix(candidate, word) {
			out = append(out, prefix+candidate)
		}
	}
	return out
}

func (s *session) flagValues(c *cli.Context, flag cli.Flag, path []*cli.Command) []string {
	switch flag.Names()[0] {
	case "output":
		return formats
	case "context":
		return s.contextNames(c)
	case "mode":
		return []string{"uninstall", "orphan"}
	case "deletion-policy":
		return []string{"delete", "orphan"}
	case "kind":
		return []string{"cluster", "platform_component", "namespace", "rolebinding", "token"}
	case "role":
		if len(path) > 0 && path[0].Name == "token" {
			return tokenRoles
		}
		return nil
	case "type":
		if len(path) > 0 && path[0].Name == "inputs" {
			names := make([]string, len(inputTypes))
			for i, t := range inputTypes {
				names[i] = t.name
			}
			return names
		}
		return []string{"helm", "kustomize"}
	case "cluster":
		return s.idsOf(c, clusters)
	case "namespace":
		return s.idsOf(c, namespaces)
	case "component", "depends-on":
		return s.idsOf(c, components)
	case "rolebinding":
		return s.idsOf(c, roleBindings)
	}
	return nil
}

// argumentValues are what the positional argument with this index can be.
func (s *session) argumentValues(c *cli.Context, path []*cli.Command, index int) []string {
	if len(path) == 0 {
		return nil
	}
	leaf := path[len(path)-1]
	switch placeholders := strings.Fields(leaf.ArgsUsage); {
	case len(placeholders) == 0:
		return nil
	case placeholders[0] == "CLUSTER" && index == 0:
		return s.idsOf(c, clusters)
	case leaf.Name == "patch-component" && index == 1:
		return s.idsOf(c, components)
	case path[0].Name == "config" && index == 0:
		return s.contextNames(c)
	case index > 0 && placeholders[0] != "NAME...":
		return nil
	case path[0].Name == tokens.name && leaf.Name != "create":
		return s.tokenNames(c)
	}
	for _, n := range []noun{clusters, namespaces, components, roleBindings} {
		if n.name == path[0].Name && leaf.Name != "create" {
			return s.idsOf(c, n)
		}
	}
	return nil
}

func (s *session) contextNames(c *cli.Context) []string {
	file, err := s.loadConfig(c)
	if err != nil {
		return nil
	}
	names := make([]string, len(file.Contexts))
	for i, f := range file.Contexts {
		names[i] = f.Name
	}
	return names
}

// idsOf asks the server, for no longer than somebody waits for a completion. No answer: no candidates.
func (s *session) idsOf(c *cli.Context, n noun) []string {
	s.quiet = true
	conn, err := s.client(c)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context, 2*time.Second)
	defer cancel()
	a, err := receive(n.api.list(ctx, conn))
	if err != nil {
		return nil
	}
	var docs []struct {
		ID string `json:"id"`
	}
	if a.decode(&docs) != nil {
		return nil
	}
	ids := make([]string, len(docs))
	for i, doc := range docs {
		ids[i] = doc.ID
	}
	return ids
}
