package client

import (
	"sync"
	"testing"
)

func TestRevisionTokenKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var s RevisionToken
	var wg sync.WaitGroup
	for i := range int64(100) {
		wg.Go(func() { s.Note(i * 37 % 101) })
	}
	wg.Wait()
	if s.Revision() != 100 {
		t.Errorf("%d", s.Revision())
	}
	s.Note(5)
	if s.Revision() != 100 {
		t.Errorf("%d", s.Revision())
	}
	s.Forget()
	if s.Note(5); s.Revision() != 5 {
		t.Errorf("%d", s.Revision())
	}
}
