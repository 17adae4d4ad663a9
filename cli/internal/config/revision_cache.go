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

// A run requires at least the newest revision that any earlier run saw, whichever process a load balancer selects. The revisions
// are kept in a file with a line of JSON for each newer one, to which concurrent runs can append without locks.

// SeenFor is the time for which a revision is required: longer than the lag of any process. After it, a server whose history was
// replaced is used again.
const SeenFor = 10 * time.Minute

// seenSize is the size from which the file is compacted, in bytes.
const seenSize = 64 << 10

// seenRevision is a revision that a server had.
type seenRevision struct {
	Server   string    `json:"server"`
	Context  string    `json:"context,omitempty"`
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
}

// sameServer reports whether two revisions are of the same server.
func (s seenRevision) sameServer(other seenRevision) bool {
	return s.Server == other.Server && s.Context == other.Context
}

// RevisionCache holds the newest revision of one server that earlier runs saw.
type RevisionCache struct {
	env  Environment
	seen seenRevision
}

// RevisionCache reads the newest revision of the settings' server.
func (w Environment) RevisionCache(set Settings) *RevisionCache {
	m := &RevisionCache{env: w, seen: seenRevision{Server: set.URL, Context: set.Context}}
	for _, known := range w.seenRevisions() {
		if known.sameServer(m.seen) {
			m.seen.Revision = max(m.seen.Revision, known.Revision)
		}
	}
	return m
}

// Forget removes the server's revisions, because its history was replaced.
func (m *RevisionCache) Forget() error {
	m.seen.Revision = 0
	path := m.Path()
	if path == "" {
		return nil
	}
	others := slices.DeleteFunc(m.env.seenRevisions(), func(known seenRevision) bool { return known.sameServer(m.seen) })
	return writeSeenRevisions(path, others)
}

// Revision returns the newest revision; 0: none.
func (m *RevisionCache) Revision() int64 { return m.seen.Revision }

// Path returns the file of the cache; empty: there is no place for one.
func (m *RevisionCache) Path() string { return m.env.seenPath() }

// Save stores a newer revision for later runs.
func (m *RevisionCache) Save(revision int64) error {
	path := m.Path()
	if path == "" || revision <= m.seen.Revision {
		return nil
	}
	now := m.seen
	now.Revision, now.At = revision, m.env.Now().UTC()
	return appendSeenRevision(path, now, m.env.seenRevisions)
}

// seenPath returns the path of the file; empty: there is no place for one.
func (w Environment) seenPath() string {
	dir := w.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home := w.Getenv("HOME")
		if info, err := os.Stat(home); err != nil || !info.IsDir() { // not set, or not a directory, as /dev/null
			return w.temporaryPath()
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "flux-resourceset", "revisions.jsonl")
}

// temporaryPath returns the path for users without a home directory, as in many CI jobs: in a private directory, because another
// user who can write to it could make runs require revisions that will never exist.
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
		w.Warn(fmt.Sprintf("the next command may not see this change: the newest revision cannot be stored (%v); set XDG_STATE_HOME", err))
		return ""
	}
	return filepath.Join(dir, "revisions.jsonl")
}

// checkPrivate checks that path is a directory which only this user can access.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case runtime.GOOS == "windows": // the directory for temporary files is private
		return nil
	case info.Mode().Perm() != 0o700 || !ownedByUser(info):
		return fmt.Errorf("%s is not this user's alone", dir)
	}
	return nil
}

// seenRevisions returns the entries of the file that are not too old. Without a readable file, a lagging server is not detected;
// all else works.
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
		w.Warn(path + " is damaged; unreadable lines are ignored, and the file may be deleted")
	}
	return known
}

// appendSeenRevision appends a line to the file, or compacts a large one.
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

// writeSeenRevisions writes the newest revision of each server.
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
