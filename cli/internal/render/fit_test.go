package render

import "testing"

func TestCut(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{-1: "", 0: "", 1: "…", 2: "ä…", 3: "äöü", 4: "äöü"} {
		if got := Cut("äöü", width); got != want {
			t.Errorf("%d: %q, not %q", width, got, want)
		}
	}
	if got := Cut("", 0); got != "" {
		t.Errorf("%q", got)
	}
}
