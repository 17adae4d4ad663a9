package clusterstatus

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// simulation is a cluster that polls several processes in turn, while what it is asked for is changed, taken back and made again. It
// begins with what it is given within seconds, is done some time later, and what sent receipts of the version before goes on for a while.
type simulation struct {
	*rand.Rand
	books []*Tracker
	table *fakeStore
	now   time.Time

	want, given, target, before int // versions
	givenAt, lateUntil, readyAt time.Time
	told                        map[int]bool // versions that the cluster was ever given
}

func (s *simulation) asked(version int) fleet.Asked {
	return desiredLists(fmt.Sprint(version), byte(version), 200)[0]
}

func (s *simulation) seconds(most int) time.Duration {
	return time.Duration(s.IntN(1000*most)) * time.Millisecond
}

func (s *simulation) any() *Tracker { return s.books[s.IntN(len(s.books))] }

// poll has the cluster given what is wanted.
func (s *simulation) poll() {
	book, list := s.any(), s.asked(s.want)
	if book.RecordPoll("x", list.List, list.ETag, "flux-operator/v1", s.now) {
		book.RecordServed("x", list, s.now)
	}
	if s.given != s.want {
		s.given, s.givenAt = s.want, s.now
	}
}

// live says whether the cluster is what it was given last.
func (s *simulation) live() bool { return s.target == s.given && !s.now.Before(s.readyAt) }

// apply has it begin with what it was given.
func (s *simulation) apply() {
	if s.target != s.given && s.now.Sub(s.givenAt) > time.Second {
		if s.target != 0 && !s.now.Before(s.readyAt) {
			s.before, s.lateUntil = s.target, s.now.Add(s.seconds(20))
		}
		s.target, s.readyAt = s.given, s.now.Add(s.seconds(60))
	}
}

// receipt has it say what it is, or was, to any process. One that does not know yet what another one served has it say so again.
func (s *simulation) receipt(t *testing.T) {
	t.Helper()
	says := 0
	switch {
	case s.now.Before(s.lateUntil):
		says = s.before
	case !s.now.Before(s.readyAt):
		says = s.target
	}
	if says == 0 {
		return
	}
	if wait := s.any().receive("x", "components", "c0", rcpt(byte(says)), s.now); !s.told[says] {
		require.LessOrEqual(t, wait, receiptRetryAfter, "a new one is held back")
	}
}

// TestStaleReceiptsNeverCount over many such clusters: nothing is confirmed that is not so, by any process, and nothing stays
// unconfirmed.
func TestStaleReceiptsNeverCount(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := &simulation{Rand: rand.New(rand.NewPCG(seed, 1)), table: newFakeStore(), now: noon, want: 1, told: map[int]bool{}}
			for range 1 + seed%3 {
				s.books = append(s.books, NewTracker(Config{Store: s.table}))
			}
			change := noon.Add(30 * time.Second)
			const tick, changing, end = 250 * time.Millisecond, 8 * time.Minute, 14 * time.Minute
			for step := 0; s.now.Before(noon.Add(end)); step++ {
				s.now = s.now.Add(tick)
				for i, book := range s.books {
					if (step+2*i)%6 == 0 {
						book.Sync(t.Context(), s.now)
					}
				}
				if s.now.After(change) && s.now.Before(noon.Add(changing)) {
					s.told[s.want] = true // from when it is withdrawn
					s.want, change = 1+s.IntN(3), s.now.Add(5*time.Second+s.seconds(40))
				}
				if step%20 == 0 {
					s.poll()
				}
				s.apply()
				if step%13 == 0 {
					s.receipt(t)
				}
				if s.given != s.want || s.now.Sub(s.givenAt) < 3*syncInterval {
					continue
				}
				for i, book := range s.books {
					confirmed := book.stateOf("x", s.now, []fleet.Asked{s.one()}) == Confirmed
					require.False(t, confirmed && !s.live(), "process %d of %d confirms version %d at %s", i, len(s.books), s.given, s.now.Sub(noon))
					if s.now.After(noon.Add(end - tick)) {
						require.True(t, confirmed, "process %d of %d does not confirm version %d", i, len(s.books), s.given)
					}
				}
			}
		})
	}
}

// one is what the cluster was given last, with the input that is looked at alone.
func (s *simulation) one() fleet.Asked {
	list := s.asked(s.given)
	list.Receipts = list.Receipts[:1]
	list.Inputs = func(yield func(string, bool) bool) { yield("c0", true) }
	return list
}
