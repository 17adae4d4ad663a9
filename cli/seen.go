package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/apiclient"
)

// A run builds on what the runs before it saw, whichever process a balancer sends it to: it asks for the newest revision
// that any of them was answered with. That is kept in a file of its own, a line of JSON for each newer revision, because
// lines can be added by several runs at once without anybody waiting.

// seenFor is for how long a revision is asked for: longer than any process may be behind. After that a server that was
// given another history, and will never have it, is not held against what it had before.
const seenFor = 10 * time.Minute

// seenSize is from which size on the file is written anew.
const seenSize = 64 << 10

// sighting is a revision that a server had.
type sighting struct {
	Server   string    `json:"server"`
	Context  string    `json:"context,omitempty"`
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
}

// of tells whether two sightings are of the same server.
func (s sighting) of(other sighting) bool {
	return s.Server == other.Server && s.Context == other.Context
}

// seenPath is where the revisions are kept; empty when there is no place for them.
func (s *session) seenPath() string {
	dir := s.env.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home := s.env.Getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "flux-resourceset", "revisions.jsonl")
}

// recall starts with what earlier runs saw of the server that the settings lead to.
func (s *session) recall(set settings) *apiclient.Seen {
	s.sighting = sighting{Server: set.url, Context: set.context}
	seen := &apiclient.Seen{}
	for _, known := range s.sightings() {
		if known.of(s.sighting) {
			s.sighting.Revision = max(s.sighting.Revision, known.Revision)
		}
	}
	seen.Note(s.sighting.Revision)
	s.seen = seen
	return seen
}

// sightings are what the file holds and is not too old. A file that cannot be read is as good as none: nothing depends on
// it but being told when a server is behind.
func (s *session) sightings() []sighting {
	path := s.seenPath()
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		s.warn(fmt.Sprintf("the revisions that earlier runs saw are not known: %v", err))
		return nil
	}
	var known []sighting
	damaged := false
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, seenSize)
	for lines.Scan() {
		var one sighting
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			damaged = true
			continue
		}
		if age := s.env.Now().Sub(one.At); age >= 0 && age < seenFor {
			known = append(known, one)
		}
	}
	if damaged || lines.Err() != nil {
		s.warn(path + " is damaged; what cannot be read of it is ignored, and it may be deleted")
	}
	return known
}

// remember keeps what this run saw for the next ones.
func (s *session) remember() {
	path := s.seenPath()
	if s.seen == nil || path == "" || s.seen.Revision() <= s.sighting.Revision {
		return
	}
	now := s.sighting
	now.Revision, now.At = s.seen.Revision(), s.env.Now().UTC()
	if err := addSighting(path, now, s.sightings); err != nil && s.verbose {
		s.note("what was seen of the server is not kept for the next run: %v", err)
	}
}

// addSighting adds a line to the file, which is written anew when it has become large.
func addSighting(path string, one sighting, known func() []sighting) error {
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > seenSize {
		return rewriteSightings(path, append(known(), one))
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// rewriteSightings keeps the newest revision of each server.
func rewriteSightings(path string, known []sighting) error {
	var newest []sighting
	for _, one := range known {
		found := false
		for i := range newest {
			if newest[i].of(one) {
				found = true
				if one.Revision > newest[i].Revision {
					newest[i] = one
				}
			}
		}
		if !found {
			newest = append(newest, one)
		}
	}
	var text bytes.Buffer
	for _, one := range newest {
		if err := json.NewEncoder(&text).Encode(one); err != nil {
			return err
		}
	}
	return replaceFile(path, text.Bytes())
}

// behindHint says what to do when a server does not have what was seen of it before.
func (s *session) behindHint(problem *apiclient.Error) string {
	have, asked, behind := problem.Behind()
	if !behind || asked > s.sighting.Revision {
		return ""
	}
	return fmt.Sprintf("nothing was changed. The server has revision %d, and an earlier run saw %d there. If that process is behind, try again in a moment. "+
		"If the server was given another history, such as a restored backup or an empty database, delete %s; what it holds is forgotten after %.0f minutes anyway.",
		have, asked, s.seenPath(), seenFor.Minutes())
}
