package fluxsettings

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Type is the type of a value, as in Flux's CustomResourceDefinitions.
type Type struct {
	Name  string // for messages and the documentation
	check func(at string, value any) []jsontext.Problem
}

// maxItems is the maximum number of entries of a list or an object.
const maxItems = 64

func problem(at, format string, values ...any) []jsontext.Problem {
	return []jsontext.Problem{{Pointer: at, Detail: fmt.Sprintf(format, values...)}}
}

// typed returns a type whose values have the Go type T and pass check, which returns the detail of a problem or the empty string.
func typed[T any](name string, check func(value T) string) Type {
	return Type{name, func(at string, value any) []jsontext.Problem {
		v, ok := value.(T)
		detail := "has the wrong type"
		if ok {
			detail = check(v)
		}
		if detail == "" {
			return nil
		}
		return problem(at, "%s", detail)
	}}
}

var durationForm = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`)

var (
	boolean  = typed("a boolean", func(bool) string { return "" })
	duration = typed("a duration", func(text string) string {
		// The controllers parse durations with Go too. One that does not parse would keep them from reading any object of the kind.
		if _, err := time.ParseDuration(text); err != nil || len(text) > 64 || !durationForm.MatchString(text) {
			return "must be a duration, such as 90s, 10m or 1h30m"
		}
		return ""
	})
	dnsLabel = typed("a name", func(text string) string { return strings.Join(validation.IsDNS1123Label(text), "; ") })
)

func integer(least, most float64) Type {
	return typed(fmt.Sprintf("an integer from %v to %v", least, most), func(n float64) string {
		if n != float64(int(n)) || n < least || n > most {
			return fmt.Sprintf("must be an integer from %v to %v", least, most)
		}
		return ""
	})
}

func text(most int) Type {
	return typed("a string", func(text string) string {
		switch {
		case text == "" || len(text) > most:
			return fmt.Sprintf("must have 1 to %d bytes", most)
		case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }):
			return "must not contain control characters"
		}
		return ""
	})
}

func oneOf(values ...string) Type {
	return typed("one of "+strings.Join(values, ", "), func(text string) string {
		if !slices.Contains(values, text) {
			return fmt.Sprintf("%q is not one of %s", text, strings.Join(values, ", "))
		}
		return ""
	})
}

// only returns the type of a setting with two values in Flux: one is accepted, and the other is refused with the reason.
func only[T comparable](accepted, refused T, reason string) Type {
	return typed(fmt.Sprint(accepted), func(value T) string {
		switch value {
		case accepted:
			return ""
		case refused:
			return fmt.Sprintf("%v is refused: %s", refused, reason)
		}
		return fmt.Sprintf("%v is not %v", value, accepted)
	})
}

func listOf(item Type) Type {
	return Type{"a list", func(at string, value any) (out []jsontext.Problem) {
		list, ok := value.([]any)
		if !ok || len(list) > maxItems {
			return problem(at, "must be a list with at most %d entries", maxItems)
		}
		for i, v := range list {
			out = append(out, item.check(at+jsontext.Pointer(i), v)...)
		}
		return out
	}}
}

// object returns the type of an object with these fields.
func object(fields map[string]Type, required ...string) Type {
	return Type{"an object", func(at string, value any) (out []jsontext.Problem) {
		obj, ok := value.(map[string]any)
		if !ok {
			return problem(at, "must be an object")
		}
		for _, field := range required {
			if obj[field] == nil {
				out = append(out, problem(at+jsontext.Pointer(field), "is required")...)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(obj)) {
			if field, known := fields[key]; known {
				out = append(out, field.check(at+jsontext.Pointer(key), obj[key])...)
			} else {
				out = append(out, problem(at+jsontext.Pointer(key), "unknown field")...)
			}
		}
		return out
	}}
}

// and returns the type with a condition on the whole object, which is tested if its fields are valid.
func (t Type) and(condition func(at string, obj map[string]any) []jsontext.Problem) Type {
	return Type{t.Name, func(at string, value any) []jsontext.Problem {
		if problems := t.check(at, value); len(problems) > 0 {
			return problems
		}
		return condition(at, value.(map[string]any))
	}}
}

// mapOf returns the type of labels or annotations.
func mapOf(name string, value Type) Type {
	isAnnotations := name == "annotations"
	return Type{name, func(at string, v any) (out []jsontext.Problem) {
		obj, ok := v.(map[string]any)
		if !ok || len(obj) > maxItems {
			return problem(at, "must be an object with at most %d strings", maxItems)
		}
		for _, key := range slices.Sorted(maps.Keys(obj)) {
			here := at + jsontext.Pointer(key)
			name := key
			if isAnnotations {
				name = strings.ToLower(key)
			}
			for _, msg := range validation.IsQualifiedName(name) {
				out = append(out, problem(here, "key: %s", msg)...)
			}
			switch {
			case isAnnotations && strings.HasPrefix(name, "helm.sh/"):
				out = append(out, problem(here, "keys of helm.sh are instructions to Helm: it would take every object out of the release, or keep it")...)
			case strings.HasPrefix(name, "kustomize.toolkit.fluxcd.io/"): // kustomize-controller reads them from labels too
				out = append(out, problem(here, "keys of kustomize.toolkit.fluxcd.io are instructions to Flux: it would delete objects to create them again, or keep or ignore them")...)
			}
			text, isText := obj[key].(string)
			switch {
			case !isAnnotations && isText:
				for _, msg := range validation.IsValidLabelValue(text) {
					out = append(out, problem(here, "%s", msg)...)
				}
			case isText && text == "":
			default:
				out = append(out, value.check(here, obj[key])...)
			}
		}
		return out
	}}
}
