package config

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// A run builds on what the runs before it saw, whichever process a balancer sends it to: it asks for the newest revision
// that any of them was answered with. That is kept in a file of its own, a line of JSON for each newer revision, because
// lines can be added by several runs at once without anybody waiting.

// SeenFor is for how long a revision is asked for: longer than any process may be behind. After that a server that was
// given another history, and will never have it, is not held against what it had before.
const SeenFor = 10 * time.Minute

// seenSize is from which size on the file is written anew.
const seenSize = 64 << 10

// sighting is a revision that a server had.
type seenRevision struct {
	Server   string    `json:"server"`
	Context  string    `json:"context,omitempty"`
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
}

// of tells whether two sightings are of the same server.
func (s seenRevision) sameServer(other seenRevision) bool {
	return s.Server == other.Server && s.Context == other.Context
}

// Memory is what earlier runs saw of one server.
type RevisionCache struct {
	env  Environment
	seen seenRevision
}

// Recall looks up what earlier runs saw of the server that the settings lead to.
func (w Environment) RevisionCache(set Settings) *RevisionCache {
	m := &RevisionCache{env: w, seen: seenRevision{Server: set.URL, Context: set.Context}}
	for _, known := range w.seenRevisions() {
		if known.sameServer(m.seen) {
			m.seen.Revision = max(m.seen.Revision, known.Revision)
		}
	}
	return m
}

// Forget drops what earlier runs saw of the server, because its history is another one.
func (m *RevisionCache) Forget() error {
	m.seen.Revision = 0
	path := m.Path()
	if path == "" {
		return nil
	}
	others := slices.DeleteFunc(m.env.seenRevisions(), func(known seenRevision) bool { return known.sameServer(m.seen) })
	return writeSeenRevisions(path, others)
}

// Revision is the newest that was seen; 0: none.
func (m *RevisionCache) Revision() int64 { return m.seen.Revision }

// Path is the file that it is kept in; empty when there is no place for one.
func (m *RevisionCache) Path() string { return m.env.seenPath() }

// Remember keeps a newer revision for the next runs.
func (m *RevisionCache) Save(revision int64) error {
	path := m.Path()
	if path == "" || revision <= m.seen.Revision {
		return nil
	}
	now := m.seen
	now.Revision, now.At = revision, m.env.Now().UTC()
	return appendSeenRevision(path, now, m.env.seenRevisions)
}

// seenPath is where the revisions are kept; empty when there is no place for them.
func (w Environment) seenPath() string {
	dir := w.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home := w.Getenv("HOME")
		if info, err := os.Stat(home); err != nil || !info.IsDir() { // none, or one in name only, as /dev/null is
			return w.temporaryPath()
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "flux-resourceset", "revisions.jsonl")
}

// temporaryPath is where they are kept for who has no home, as in many CI jobs: in a directory that is ours alone, because
// whoever else could write to it could have us ask for revisions that there will never be.
func (w Environment) temporaryPath() string {
	above := w.Getenv("TMPDIR")
	if above == "" {
		above = os.TempDir()
	}
	dir := filepath.Join(above, fmt.Sprintf("flux-resourceset-%d", os.Getuid()))
	err := os.Mkdir(dir, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = checkPrivate(dir)
	}
	if err != nil {
		w.Warn(fmt.Sprintf("the next command may not see what this one did: there is no place to keep the newest revision (%v); set XDG_STATE_HOME", err))
		return ""
	}
	return filepath.Join(dir, "revisions.jsonl")
}

// oursAlone makes sure that a directory is one, and that only this user can use it.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case runtime.GOOS == "windows": // where the directory for temporary files is the user's own
		return nil
	case info.Mode().Perm() != 0o700 || !ownedByUser(info):
		return fmt.Errorf("%s is not this user's alone", dir)
	}
	return nil
}

// sightings are what the file holds and is not too old. A file that cannot be read is as good as none: nothing depends on
// it but being told when a server is behind.
func (w Environment) seenRevisions() []seenRevision {
	path := w.seenPath()
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		w.Warn(fmt.Sprintf("the revisions that earlier runs saw are not known: %v", err))
		return nil
	}
	var known []seenRevision
	damaged := false
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, seenSize)
	for lines.Scan() {
		var one seenRevision
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			damaged = true
			continue
		}
		if age := w.Now().Sub(one.At); age >= 0 && age < SeenFor {
			known = append(known, one)
		}
	}
	if damaged || lines.Err() != nil {
		w.Warn(path + " is damaged; what cannot be read of it is ignored, and it may be deleted")
	}
	return known
}

// addSighting adds a line to the file, which is written anew when it has become large.
func appendSeenRevision(path string, one seenRevision, known func() []seenRevision) error {
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > seenSize {
		return writeSeenRevisions(path, append(known(), one))
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// rewriteSightings keeps the newest revision of each server.
func writeSeenRevisions(path string, known []seenRevision) error {
	var newest []seenRevision
	for _, one := range known {
		found := false
		for i := range newest {
			if newest[i].sameServer(one) {
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
