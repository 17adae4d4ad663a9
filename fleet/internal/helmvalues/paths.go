package helmvalues

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of Helm's own path grammar (helm.sh/helm pkg/strvals).
const (
	maxPathDepth = 30
	maxListIndex = 65536
)

// step is one step down a values tree: into a map by name, or into a list by index.
type step struct {
	name  string
	index int // -1: a map step
}

func (s step) isIndex() bool { return s.index >= 0 }

// parsePath parses a Helm value path, as in `helm --set PATH=...`: names separated by dots, list indices in brackets, a
// backslash before a literal character (`nodeSelector.kubernetes\.io/os`). It is stricter than Helm in one point: it refuses
// an empty name, which is always a mistake.
func parsePath(path string) ([]step, error) {
	if path == "" {
		return nil, errors.New("a value path must not be empty")
	}
	if !utf8.ValidString(path) {
		return nil, errors.New("a value path must be valid UTF-8")
	}
	steps := make([]step, 0, 4) // nearly always enough
	names := 0
	for rest := path; ; {
		name, stop, tail, err := scanName(rest)
		if err != nil {
			return nil, err
		}
		if name == "" {
			return nil, errors.New("a name in a value path must not be empty")
		}
		if names++; names > maxPathDepth {
			return nil, fmt.Errorf("a value path has at most %d names", maxPathDepth)
		}
		steps = append(steps, step{name: name, index: -1})
		for stop == '[' {
			var index int
			if index, tail, err = scanIndex(tail); err != nil {
				return nil, err
			}
			if steps = append(steps, step{index: index}); len(steps) > 2*maxPathDepth {
				return nil, fmt.Errorf("a value path has at most %d steps", 2*maxPathDepth)
			}
			if stop = 0; tail != "" {
				stop, tail = rune(tail[0]), tail[1:]
				if stop != '[' && stop != '.' {
					return nil, fmt.Errorf("unexpected %q after a list index", stop)
				}
			}
		}
		if stop == 0 {
			return steps, nil
		}
		rest = tail
	}
}

// scanName reads up to the next unescaped `.` or `[`. It returns that character (0 at the end) and the text after it.
func scanName(s string) (name string, stop rune, tail string, err error) {
	var before []byte // the text before s[from:], without its backslashes
	from := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		end := i
		i += size
		switch {
		case r == '\\':
			if i >= len(s) {
				return "", 0, "", errors.New("a value path must not end with a backslash")
			}
			before, from = append(before, s[from:end]...), i
			_, size = utf8.DecodeRuneInString(s[i:])
			i += size
		case r == '.' || r == '[':
			if r == '.' && i >= len(s) {
				return "", 0, "", errors.New("a value path must not end with a dot")
			}
			return joined(before, s[from:end]), r, s[i:], nil
		case r == ',' || r == '=':
			return "", 0, "", fmt.Errorf("%q in a value path needs a backslash before it", r)
		case r < ' ':
			return "", 0, "", errors.New("a value path must not contain control characters")
		}
	}
	return joined(before, s[from:]), 0, "", nil
}

// joined returns before followed by s. It copies nothing for names without a backslash, which are the common case.
func joined(before []byte, s string) string {
	if before == nil {
		return s
	}
	return string(append(before, s...))
}

// scanIndex reads a list index up to its closing bracket, and returns the text after it.
func scanIndex(s string) (index int, tail string, err error) {
	digits, tail, closed := strings.Cut(s, "]")
	if !closed {
		return 0, "", errors.New("a list index needs a closing bracket")
	}
	index, err = strconv.Atoi(digits)
	if err != nil || index < 0 || digits[0] == '+' || digits[0] == '-' {
		return 0, "", fmt.Errorf("%q is not a list index", digits)
	}
	if index > maxListIndex {
		return 0, "", fmt.Errorf("a list index is at most %d", maxListIndex)
	}
	return index, tail, nil
}

// Keys returns the keys on the way to the value at a path: names as strings, list indices as ints.
func Keys(path string) ([]any, error) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	keys := make([]any, len(steps))
	for i, s := range steps {
		if keys[i] = s.name; s.isIndex() {
			keys[i] = s.index
		}
	}
	return keys, nil
}
