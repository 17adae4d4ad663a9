package helmvalues

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

var substitutionName = regexp.MustCompile(`^[_A-Za-z][_A-Za-z0-9]*$`)

// Substitutions are the patches of a kustomize component, as Flux's postBuild.substitute takes them: variable names
// and strings. Substitution is textual and drops the author's quotes, so a value must be one line that YAML reads as
// the same scalar with or without quotes around it.
func Substitutions(patches map[string]json.RawMessage) (map[string]string, []jsontext.Problem) {
	var problems []jsontext.Problem
	out := make(map[string]string, len(patches))
	for _, name := range slices.Sorted(maps.Keys(patches)) {
		if !substitutionName.MatchString(name) {
			problems = append(problems, jsontext.Problem{Pointer: jsontext.Pointer(name), Detail: "a kustomize component's patches are substitution variables: letters, digits and underscores, not starting with a digit; a Helm chart from an oci:// URL needs type: helm"})
			continue
		}
		s, err := scalar(patches[name])
		if err == nil {
			err = plainScalar(s)
		}
		if err != nil {
			problems = append(problems, jsontext.Problem{Pointer: jsontext.Pointer(name), Detail: err.Error()})
			continue
		}
		out[name] = s
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}

// scalar returns a JSON string, number or boolean as text.
func scalar(raw json.RawMessage) (string, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", fmt.Errorf("null is not a value; remove the variable instead")
	case raw[0] == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", fmt.Errorf("not a JSON string")
		}
		return s, nil
	case raw[0] == '{' || raw[0] == '[':
		return "", fmt.Errorf("a kustomize component's values are strings, numbers or booleans")
	}
	return string(raw), nil
}

// plainScalar returns an error unless YAML reads a text as the same scalar with and without quotes.
func plainScalar(s string) error {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return fmt.Errorf("a substitution must be one line without control characters")
		}
	}
	switch {
	case s == "":
		return nil
	case s == "~" || s == "null" || s == "Null" || s == "NULL":
		return fmt.Errorf("a substitution must not be %s: YAML would read no value", s)
	case strings.ContainsAny(s, "\"'\\$`"):
		return fmt.Errorf("a substitution must not contain quotes, backslashes, backquotes or $")
	case strings.Contains(s, ": ") || strings.HasSuffix(s, ":"):
		return fmt.Errorf(`a substitution must not contain ": " or end with ":": YAML would read a mapping`)
	case strings.Contains(s, " #"):
		return fmt.Errorf(`a substitution must not contain " #": YAML would read a comment`)
	case strings.ContainsRune(",[]{}#&*!|>%@", rune(s[0])):
		return fmt.Errorf("a substitution must not start with %q: it means something in YAML", s[0])
	case (s[0] == '-' || s[0] == '?' || s[0] == ':') && (len(s) == 1 || s[1] == ' '):
		return fmt.Errorf("a substitution must not start with %q and a space: it means something in YAML", s[0])
	case strings.HasPrefix(s, "---") || strings.HasPrefix(s, "..."):
		return fmt.Errorf("a substitution must not start with --- or ...: they mean something in YAML")
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("a substitution must not start or end with a space")
	}
	return nil
}

var (
	truth = regexp.MustCompile(`^([yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|True|TRUE|False|FALSE)$`)
	// number matches what YAML may read as a number.
	number = regexp.MustCompile(`^[-+]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]+|[0-9][0-9_]*([.][0-9_]*)?([eE][-+]?[0-9]+)?|[.][0-9][0-9_]*([eE][-+]?[0-9]+)?|[.](inf|Inf|INF))$|^[.](nan|NaN|NAN)$`)
)

// Misread returns whether YAML reads a substitution as another text, if it is a whole value, whose quotes are dropped: 1.10 as
// 1.1, 0777 as 511, yes as true. Inside a longer text, such as a name, it stays as it is.
func Misread(s string) bool {
	if s == "" || truth.MatchString(s) {
		return true
	}
	if !number.MatchString(s) {
		return false
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return strconv.FormatInt(n, 10) != s
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return true
	}
	written, err := json.Marshal(f)
	return err != nil || string(written) != s
}
