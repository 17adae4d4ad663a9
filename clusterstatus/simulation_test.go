package clusterstatus

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// simulation is a cluster that polls several processes in turn, while its desired list is changed, reverted and changed again.
// It starts to apply a list within seconds, is done some time later, and the senders of the previous receipts go on for a
// while.
type simulation struct {
	*rand.Rand
	trackers []*Tracker
	store    *fakeStore
	now      time.Time

	want, given, target, before int
	givenAt, lateUntil, readyAt time.Time
	told                        map[int]bool // versions that the cluster was served
}

func (s *simulation) asked(version int) fleet.DesiredInputs {
	return desiredLists(fmt.Sprint(version), byte(version), 200)[0]
}

func (s *simulation) seconds(most int) time.Duration {
	return time.Duration(s.IntN(1000*most)) * time.Millisecond
}

func (s *simulation) any() *Tracker { return s.trackers[s.IntN(len(s.trackers))] }

// poll serves the cluster the desired version by any process.
func (s *simulation) poll() {
	tracker, list := s.any(), s.asked(s.want)
	if tracker.RecordPoll(Poll{Cluster: "x", List: list.List, ETag: list.ETag, Agent: "flux-operator/v1"}, s.now) {
		tracker.RecordServed("x", list, s.now)
	}
	if s.given != s.want {
		s.given, s.givenAt = s.want, s.now
	}
}

// live reports whether the cluster runs the version that it was served last.
func (s *simulation) live() bool { return s.target == s.given && !s.now.Before(s.readyAt) }

// apply starts to apply the served version.
func (s *simulation) apply() {
	if s.target != s.given && s.now.Sub(s.givenAt) > time.Second {
		if s.target != 0 && !s.now.Before(s.readyAt) {
			s.before, s.lateUntil = s.target, s.now.Add(s.seconds(20))
		}
		s.target, s.readyAt = s.given, s.now.Add(s.seconds(60))
	}
}

// receipt sends a receipt of the running or previous version to any process. A process that does not know yet that the input
// was served has it sent again.
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

// TestStaleReceiptsNeverCount: over many simulated clusters no process confirms an input that the cluster does not run, and
// all confirm it in the end.
func TestStaleReceiptsNeverCount(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := &simulation{Rand: rand.New(rand.NewPCG(seed, 1)), store: newFakeStore(), now: noon, want: 1, told: map[int]bool{}}
			for range 1 + seed%3 {
				s.trackers = append(s.trackers, NewTracker(Config{Store: s.store}))
			}
			change := noon.Add(30 * time.Second)
			const tick, changing, end = 250 * time.Millisecond, 8 * time.Minute, 14 * time.Minute
			for step := 0; s.now.Before(noon.Add(end)); step++ {
				s.now = s.now.Add(tick)
				for i, tracker := range s.trackers {
					if (step+2*i)%6 == 0 {
						tracker.Sync(t.Context(), s.now)
					}
				}
				if s.now.After(change) && s.now.Before(noon.Add(changing)) {
					s.told[s.want] = true // removed from this time on
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
				for i, tracker := range s.trackers {
					confirmed := tracker.stateOf("x", s.now, []fleet.DesiredInputs{s.one()}) == Confirmed
					require.False(t, confirmed && !s.live(), "process %d of %d confirms version %d at %s", i, len(s.trackers), s.given, s.now.Sub(noon))
					if s.now.After(noon.Add(end - tick)) {
						require.True(t, confirmed, "process %d of %d does not confirm version %d", i, len(s.trackers), s.given)
					}
				}
			}
		})
	}
}

// one returns the list that the cluster was served last, with its one input.
func (s *simulation) one() fleet.DesiredInputs {
	list := s.asked(s.given)
	list.Receipts = list.Receipts[:1]
	list.Inputs = func(yield func(string, bool) bool) { yield("c0", true) }
	return list
}
