// Package variables implements references in texts, such as ${cluster.id} and ${vars.domain}: it finds them, and replaces them with
// values. Only text that begins with ${cluster. or ${vars. is a reference, since charts and Flux use every other ${…} themselves. A
// second $ before one makes it text. The fleet and the CLI use it.
package variables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var prefixes = []string{"${cluster.", "${vars."}

// reference is the form of a reference; the groups are the name of a variable, and the key of a label in its two forms. A name has no
// character that JSON escapes, so references can be replaced in an encoded text.
var reference = regexp.MustCompile(`^\$\{(?:cluster\.(?:id|name|dns|environment)|vars\.([A-Za-z_][A-Za-z0-9_]{0,62})|cluster\.labels\.([A-Za-z0-9_-]+)|cluster\.labels\['([A-Za-z0-9._/-]+)'\])\}$`)

// ClusterReferences are the references to fields of the cluster's document.
var ClusterReferences = []string{"${cluster.dns}", "${cluster.environment}", "${cluster.id}", "${cluster.name}"}

// LabelReference returns the reference to a label, in the shorter of its two forms.
func LabelReference(key string) string {
	if short := "${cluster.labels." + key + "}"; reference.MatchString(short) {
		return short
	}
	return "${cluster.labels['" + key + "']}"
}

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// IsName reports whether a variable may have a name.
func IsName(text string) bool { return name.MatchString(text) }

// In reports whether a text has a reference, or one that is escaped: expanding it may change it. It needs little time.
func In[T ~[]byte | ~string](text T) bool {
	b := []byte(text)
	return bytes.Contains(b, []byte(prefixes[0])) || bytes.Contains(b, []byte(prefixes[1]))
}

// Find returns the references of a text, or of an encoded one, each once and sorted. The error names one that has no valid form.
func Find(text string) (references []string, err error) {
	_, err = Expand(text, func(ref string) (string, error) {
		references = append(references, ref)
		return "", nil
	})
	slices.Sort(references)
	return slices.Compact(references), err
}

// Expand replaces each reference of a text with its value, and removes the $ that escapes one. It returns the first error of value,
// or that of a reference without a valid form.
func Expand(text string, value func(ref string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		at := next(text)
		if at < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if at > 0 && text[at-1] == '$' {
			out.WriteString(text[:at-1])
			out.WriteString("${")
			text = text[at+len("${"):]
			continue
		}
		out.WriteString(text[:at])
		end := strings.IndexByte(text[at:], '}')
		if end < 0 {
			end = len(text) - at - 1
		}
		ref := text[at : at+end+1]
		if !reference.MatchString(ref) {
			return "", fmt.Errorf("%s is not a reference: possible are ${cluster.id}, ${cluster.name}, ${cluster.dns}, ${cluster.environment}, ${cluster.labels.KEY}, ${cluster.labels['KEY']} and ${vars.NAME}; for this text itself, write $%s", shorten(ref), shorten(ref))
		}
		v, err := value(ref)
		if err != nil {
			return "", err
		}
		out.WriteString(v)
		text = text[at+end+1:]
	}
}

// next returns where the next reference begins, or -1. It reads no further than that, so that texts with many are read once.
func next(text string) int {
	from := 0
	for {
		at := strings.Index(text[from:], "${")
		if at < 0 {
			return -1
		}
		from += at
		if strings.HasPrefix(text[from:], prefixes[0]) || strings.HasPrefix(text[from:], prefixes[1]) {
			return from
		}
		from += len("${")
	}
}

// shorten cuts a text that is quoted in an error.
func shorten(text string) string {
	text, _, _ = strings.Cut(text, `"`)
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}

// Parts returns the name of the variable, or the key of the label, that a reference is to; at most one is not empty.
func Parts(ref string) (variable, label string) {
	m := reference.FindStringSubmatch(ref)
	if m == nil {
		return "", ""
	}
	return m[1], m[2] + m[3]
}

// Text returns the text of a variable's value, which is an encoded string, number or boolean; false: it is none of these.
func Text(value json.RawMessage) (string, bool) {
	switch {
	case len(value) == 0:
		return "", false
	case value[0] == '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err == nil
	case value[0] == '{', value[0] == '[', string(value) == "null":
		return "", false
	}
	return string(value), true
}
