package cli

import (
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
)

// recall starts with what earlier runs saw of the server that the settings lead to.
func (s *session) recall(set config.Settings) *apiclient.Seen {
	s.memory, s.seen = s.world().Recall(set), &apiclient.Seen{}
	s.seen.Note(s.memory.Revision())
	return s.seen
}

// remember keeps what this run saw for the next ones.
func (s *session) remember() {
	if s.memory == nil {
		return
	}
	if err := s.memory.Remember(s.seen.Revision()); err != nil && s.verbose {
		s.note("what was seen of the server is not kept for the next run: %v", err)
	}
}

// behindHint says what to do when a server does not have what was seen of it before.
func (s *session) behindHint(problem *apiclient.Error) string {
	have, asked, behind := problem.Behind()
	if !behind || s.memory == nil || asked > s.memory.Revision() {
		return ""
	}
	return fmt.Sprintf("nothing was changed. The server has revision %d, and an earlier run saw %d there. If that process is behind, try again in a moment. "+
		"If the server was given another history, such as a restored backup or an empty database, delete %s; what it holds is forgotten after %.0f minutes anyway.",
		have, asked, s.memory.Path(), config.SeenFor.Minutes())
}
