package fleet

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

const (
	maxAnnotationsBytes = 256 << 10 // Kubernetes' limit for all annotations of an object
	// maxLabels is our own limit: Kubernetes limits each label, and their number only by the size of the object. Every list
	// of clusters contains them, and every selector searches them.
	maxLabels = 64
)

// maxProblems limits the reported problems of a document, maxAllProblems those of a commit.
const (
	maxProblems    = 100
	maxAllProblems = 1_000
)

// full reports whether the limit of problems is reached.
func (c *checker) full() bool { return c.limit > 0 && len(c.problems) >= c.limit }

// atMost reports too many items; a document that has more already may keep or reduce them.
func (c *checker) atMost(at string, n, limit int, noun string) {
	if n > limit {
		c.problems = append(c.problems, Problem{Pointer: at, Detail: fmt.Sprintf("there are %d %s; at most %d are taken", n, noun, limit), size: n})
	}
}

// problem reports a problem at a JSON pointer.
func (c *checker) problem(at, format string, args ...any) {
	c.problems = append(c.problems, Problem{Pointer: at, Detail: fmt.Sprintf(format, args...)})
}

// limitOf reports a size that is well-formed but more than Flux accepts; such a request is answered with 422, not 400.
func (c *checker) limitOf(size int, at, format string, args ...any) {
	c.limits = append(c.limits, Problem{Pointer: at, Detail: fmt.Sprintf(format, args...), size: size})
}

// warn adds a warning, once.
func (c *checker) warn(format string, args ...any) {
	w := fmt.Sprintf(format, args...)
	if c.warned == nil {
		c.warned = map[string]bool{}
	}
	if !c.warned[w] {
		c.warned[w] = true
		c.warnings = append(c.warnings, w)
	}
}

// required reports an empty string.
func (c *checker) required(at, s string) {
	if s == "" {
		c.problem(at, "is required and must not be empty")
	}
}

// text checks a free string, and returns whether it is valid: its length in bytes, and that it has no control characters, which no
// Kubernetes field accepts.
func (c *checker) text(at, s string, limit int) bool {
	before := len(c.problems)
	if len(s) > limit {
		c.problem(at, "must be at most %d bytes", limit)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		c.problem(at, "must not contain control characters")
	}
	if strings.TrimSpace(s) != s {
		c.problem(at, "must not start or end with a space")
	}
	return len(c.problems) == before
}

// oneOf reports a string that is not one of the allowed ones.
func (c *checker) oneOf(at, s string, allowed ...string) {
	if !slices.Contains(allowed, s) {
		c.problem(at, "%q is not one of %s", s, strings.Join(allowed, ", "))
	}
}

// dnsLabel reports a string that is not a DNS label (RFC 1123), as Kubernetes requires for names.
func (c *checker) dnsLabel(at, s string) {
	for _, msg := range validation.IsDNS1123Label(s) {
		c.problem(at, "%s", msg)
	}
}

// dnsSubdomain reports a string that is not a DNS subdomain (RFC 1123).
func (c *checker) dnsSubdomain(at, s string) {
	hint, valid := "", strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(s))
	if len(validation.IsDNS1123Subdomain(valid)) == 0 {
		hint = fmt.Sprintf("; %q would be valid", valid)
	}
	for _, msg := range validation.IsDNS1123Subdomain(s) {
		c.problem(at, "%s%s", msg, hint)
	}
}

// labels checks labels by the rules of Kubernetes.
func (c *checker) labels(at string, labels map[string]string) {
	if c.atMost(at, len(labels), maxLabels, "labels"); c.limit == maxProblems && len(labels) > maxLabels {
		return // this is the first problem, so it refuses the label
	}
	for _, k := range sortedKeys(labels) {
		if c.full() {
			return
		}
		for _, msg := range validation.IsQualifiedName(k) {
			c.problem(at+jsontext.Pointer(k), "label key: %s", msg)
		}
		for _, msg := range validation.IsValidLabelValue(labels[k]) {
			c.problem(at+jsontext.Pointer(k), "label value: %s", msg)
		}
	}
}

// annotations checks annotations by the rules of Kubernetes.
func (c *checker) annotations(at string, annotations map[string]string) {
	size := 0
	for _, k := range sortedKeys(annotations) {
		if c.full() {
			return
		}
		// Kubernetes compares the key's prefix in lower case only.
		for _, msg := range validation.IsQualifiedName(lowerASCII(k)) {
			c.problem(at+jsontext.Pointer(k), "annotation key: %s", msg)
		}
		size += len(k) + len(annotations[k])
	}
	if size > maxAnnotationsBytes {
		c.problem(at, "annotations are at most %d bytes in all", maxAnnotationsBytes)
	}
}

// check returns the problems of a document in a State, up to a limit.
func check(s *State, d *Document, limit int, work work) *checker {
	c := &checker{next: s, limit: limit, work: work}
	if !d.Deleted() {
		if s.kinds.mayBeServed(d.Kind) {
			checkReferences(c, d)
		}
		d.rules.check(c, d)
	}
	return c
}

// checkReferences checks the form and the places of references in a document: they are not possible where they would decide what is
// installed, or who may act.
func checkReferences(c *checker, d *Document) {
	if !variables.In(d.Body) {
		return
	}
	obj, err := unstructured.Decode(d.Body)
	if err != nil {
		return // it cannot be read either
	}
	if n := countReferences(d); n > maxReferences {
		c.problem("", "has %d references; at most %d are possible in a document", n, maxReferences)
	}
	for _, field := range sortedKeys(obj) {
		if field != "description" {
			c.references(jsontext.Pointer(field), obj[field], slices.Contains(referringFields(d.Kind), field) && field != "platform_components" && field != "overrides" && field != "resources")
		}
	}
}

// references checks the references in a value; allowed: it may have some.
func (c *checker) references(at string, value any, allowed bool) {
	if c.full() {
		return
	}
	switch v := value.(type) {
	case string:
		switch _, err := variables.Find(v); {
		case !variables.In(v):
		case !allowed:
			c.problem(at, "a reference is not possible here, only in values of patches, names of values_from, labels and annotations of namespaces and role bindings, specs and overrides of resources, and variables; for the text itself, write $${cluster. and $${vars.")
		case err != nil:
			c.problem(at, "%v", err)
		}
	case []any:
		for i, item := range v {
			c.references(at+jsontext.Pointer(i), item, allowed)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if variables.In(key) {
				c.problem(at+jsontext.Pointer(key), "a reference is not possible in a key")
			}
			// The settings of a resource are in overrides of its entry.
			c.references(at+jsontext.Pointer(key), v[key], allowed || key == "overrides" && strings.HasPrefix(at, "/resources/") || key == "name" && strings.Contains(at, "/values_from/"))
		}
	}
}

// mayBeServed reports whether documents of a kind hold what clusters are served.
func (ks *kindSet) mayBeServed(kind Kind) bool {
	return kind == KindCluster || kind == KindLayer || ks.byKind[kind] != nil
}
