package typeschema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// refusedBy returns the reason of a value that the keyword not of a schema refuses: the description there, if the author
// gives one.
func refusedBy(schema any, url string) string {
	_, path, _ := strings.Cut(url, "#")
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		switch in := schema.(type) {
		case map[string]any:
			schema = in[key]
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n < 0 || n >= len(in) {
				return refused
			}
			schema = in[n]
		}
	}
	in, _ := schema.(map[string]any)
	not, _ := in["not"].(map[string]any)
	if why, _ := not["description"].(string); why != "" {
		return "is not accepted: " + shortened(why)
	}
	return refused
}

const refused = "is a value that is not taken (not)"

// problemsOf lists the innermost errors, each at its field. For a value with alternatives it reports only that none fits:
// the reasons of each would not help.
func problemsOf(err *jsonschema.ValidationError, schema, value any) []Problem {
	printer := message.NewPrinter(language.English)
	var found []Problem
	search := maxSearched
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(found) >= maxProblems {
			return
		}
		at := pointer(e.InstanceLocation...)
		switch k := e.ErrorKind.(type) {
		case *kind.AnyOf:
			found = append(found, Problem{at, "fits none of the alternatives (anyOf)"})
		case *kind.OneOf:
			found = append(found, Problem{at, "must fit exactly one of the alternatives (oneOf)"})
		case *kind.Not:
			found = append(found, Problem{at, refusedBy(schema, e.SchemaURL)})
		case *kind.PropertyNames:
			found = append(found, Problem{placeOf(value, len(e.InstanceLocation), k.Property, &search), fmt.Sprintf("%q is not a name that a field may have there (propertyNames)", k.Property)})
		case *kind.Required:
			for _, name := range k.Missing {
				found = append(found, Problem{at + pointer(name), "is required"})
			}
		case *kind.AdditionalProperties:
			for _, name := range k.Properties {
				found = append(found, Problem{at + pointer(name), "is not a field of this type"})
			}
		default:
			if len(e.Causes) == 0 {
				found = append(found, Problem{at, shortened(e.ErrorKind.LocalizedString(printer))})
			}
			for _, cause := range e.Causes {
				walk(cause)
			}
		}
	}
	walk(err)
	slices.SortStableFunc(found, func(a, b Problem) int { return strings.Compare(a.Pointer, b.Pointer) })
	return slices.Compact(found)
}

// shortened returns the beginning of a long text: an enum's values, all of which a message lists, may be 64 KiB.
func shortened(text string) string {
	const most = 1024
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// maxSearched is the number of values that are searched for the places of wrong names.
const maxSearched = 1_000_000

// placeOf returns the pointer to the only field of that name at a depth of a value; empty if there are several. For a wrong
// name the library reports the depth, but not reliably the place.
func placeOf(value any, depth int, name string, search *int) string {
	var found []string
	var walk func(value any, depth int, at string)
	walk = func(value any, depth int, at string) {
		if *search--; *search < 0 {
			return
		}
		switch v := value.(type) {
		case map[string]any:
			if _, has := v[name]; has && depth == 0 {
				found = append(found, at+pointer(name))
			}
			for key, child := range v {
				if depth > 0 {
					walk(child, depth-1, at+pointer(key))
				}
			}
		case []any:
			for i, child := range v {
				if depth > 0 {
					walk(child, depth-1, at+pointer(strconv.Itoa(i)))
				}
			}
		}
	}
	walk(value, depth, "")
	if len(found) == 1 && *search >= 0 {
		return found[0]
	}
	return ""
}
