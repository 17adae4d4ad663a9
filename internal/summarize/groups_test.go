package summarize

import (
	"fmt"
	"testing"
)

// TestRegroup: groups with equal lines are merged; many groups also if only their values differ, which is marked.
func TestRegroup(t *testing.T) {
	t.Parallel()
	several := func(n int) (groups []Group) {
		for i := range n {
			groups = append(groups, Group{Names: []string{fmt.Sprintf("c-%02d", i)}, Lines: []Line{{Text: "~ replicas", Values: fmt.Sprintf(": %d", i%10)}}})
		}
		return groups
	}
	for _, tc := range []struct {
		n, groups int
		full      bool
		values    string
	}{
		{1, 1, false, ": 0"},
		{8, 8, false, ": 0"},
		{20, 1, false, ": 0 (on \"c-00\"; differs: 10 ways)"},
		{20, 10, true, ": 0"},
	} {
		got := Regroup(several(tc.n), tc.full)
		names := 0
		for _, g := range got {
			names += len(g.Names)
		}
		if len(got) != tc.groups || names != tc.n || got[0].Lines[0].Values != tc.values {
			t.Errorf("%d groups, all: %v: got %d with %d names, the first %+v", tc.n, tc.full, len(got), names, got[0])
		}
	}
	// Other things are never put together, however many there are.
	var other []Group
	for i := range 30 {
		other = append(other, Group{Names: []string{"x"}, Lines: []Line{{Text: fmt.Sprintf("~ %d", i)}}})
	}
	if got := Regroup(other, false); len(got) != 30 {
		t.Errorf("got %d groups", len(got))
	}
}
