package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/internal/atomicfile"
	"github.com/urfave/cli/v2"
)

// backupCommand saves the server's store.
func (s *session) backupCommand() *cli.Command {
	return &cli.Command{
		Name:      "backup",
		Usage:     "Save the server's whole store, with its history, in a file",
		ArgsUsage: "FILE|-",
		Description: "It needs an admin's token. The file is a SQLite database for every store: the server's `flux-resourceset restore` " +
			"fills an empty store with it. It is renamed to FILE when it is complete and matches the server's digest; an existing file is " +
			"not replaced. With - it goes to standard output, and exit code 0 means that it is complete.\n\n" +
			args.ExampleText("backup fleet.db", "backup - > fleet.db"),
		Action: args.WithOperands(func(c *cli.Context, operands []string) error {
			if operands[0] == "-" {
				return s.backupTo(c, s.Env.Stdout)
			}
			return s.backupFile(c, operands[0])
		}),
	}
}

// backupTo sends a backup to standard output.
func (s *session) backupTo(c *cli.Context, to io.Writer) error {
	if s.Env.StdoutTerminal {
		return args.Errorf("a backup is no text for a terminal: name a FILE, or send it somewhere")
	}
	saved, err := s.saveBackup(c, to)
	if err == nil {
		s.Note("revision %d, %s, sha256:%x", saved.Revision, bytesText(saved.Size), saved.SHA256)
	}
	return err
}

// backupFile writes a backup to a temporary file and renames it, so that the target is complete or does not exist.
func (s *session) backupFile(c *cli.Context, target string) (err error) {
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		return cmp.Or(err, args.Errorf("%s exists; a backup does not replace a file", target))
	}
	file, err := os.CreateTemp(filepath.Dir(target), ".backup-*") // readable by its owner only: it contains the tokens' digests
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // the file is renamed or gone by then
	saved, err := s.saveBackup(c, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := atomicfile.Publish(file.Name(), target); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists now; a backup does not replace a file", target)
	} else if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Env.Stdout, "%s has revision %d: %s, sha256:%x\n", target, saved.Revision, bytesText(saved.Size), saved.SHA256)
	return err
}

// saveBackup requests a backup, and shows the progress on a terminal.
func (s *session) saveBackup(c *cli.Context, to io.Writer) (apiclient.SavedBackup, error) {
	client, err := s.Connect(c)
	if err != nil {
		return apiclient.SavedBackup{}, err
	}
	if !s.Env.StderrTerminal || s.Quiet {
		return apiclient.Backup(c.Context, client, to, nil)
	}
	line := func(text string) { _, _ = fmt.Fprint(s.Env.Stderr, "\r\033[K"+text) }
	line("The server makes the backup ...")
	var shown time.Time
	defer line("")
	return apiclient.Backup(c.Context, client, to, func(n, of int64) {
		if now := s.Env.Now(); now.Sub(shown) >= 200*time.Millisecond {
			shown = now
			text := bytesText(n)
			if of > 0 { // a proxy may have removed the length
				text += " of " + bytesText(of)
			}
			line(text)
		}
	})
}

func bytesText(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
