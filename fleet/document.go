package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// settleTime is the time after which a changed deletion policy has reached every cluster: Flux applies the policy that it
// received last.
const settleTime = 15 * time.Minute

// decodeModel decodes the value of a document.
func decodeModel(kind *kindRules, rec Record) (any, error) {
	value := kind.empty()
	if err := json.Unmarshal(rec.Body, value); err != nil {
		return nil, fmt.Errorf("%s %q cannot be read: %w", kind.noun, rec.ID, typeError(err))
	}
	return value, nil
}

// Deleted reports whether this is a decommissioned cluster.
func (d *Document) Deleted() bool {
	return d.own != nil && (d.own.Deleted() || pendingTombstone(d))
}

// Cluster returns the document as a cluster, without the settings of layers; it must be one. The result must not be changed.
func (d *Document) Cluster() *api.Cluster { return d.own.cluster }

// View returns the document as the API shows it: a copy of the generated model with revision and times.
func (d *Document) View() any { return d.rules.view(d) }

// decodeError is a value of the wrong type in a document.
type decodeError struct{ pointer, detail string }

func (e *decodeError) Error() string { return e.pointer + ": " + e.detail }

// embedded are the generated models that are embedded in other structs here.
var embedded = []string{"Layer", "ResourceType", "Resource", "Access"}

// typeError converts an error of encoding/json to a decodeError with the JSON pointer of the field.
func typeError(err error) error {
	var t *json.UnmarshalTypeError
	if !errors.As(err, &t) {
		return err
	}
	field := t.Field
	for _, model := range embedded { // the name of an embedded struct is no part of the document
		field = strings.TrimPrefix(field, model+".")
	}
	return &decodeError{"/" + strings.ReplaceAll(field, ".", "/"), fmt.Sprintf("must be a %s, not a %s", t.Type, t.Value)}
}

// pendingTombstone reports whether an edit is a cluster that Finish will decommission.
func pendingTombstone(d *Document) bool { return d != nil && d.Body == nil }

// decodeProblem converts an error of a typed decoder to a problem of the request.
func decodeProblem(err error) Problem {
	if e, ok := errors.AsType[*decodeError](err); ok {
		return Problem{Pointer: e.pointer, Detail: e.detail}
	}
	return Problem{Pointer: "", Detail: err.Error()}
}

// openDocument opens a document; parts that no edit changes stay text.
func openDocument(d *Document) (map[string]any, error) {
	obj, err := unstructured.Open(d.Body)
	if err != nil {
		return nil, d.Unreadable(err)
	}
	return obj, nil
}

// Unreadable wraps the error of a stored document that cannot be parsed.
func (d *Document) Unreadable(err error) error {
	return fmt.Errorf("the stored %s %q cannot be read: %w", d.rules.noun, d.ID, err)
}

// Component returns the document as a catalog entry; it must be one. The result must not be changed.
func (d *Document) Component() *api.PlatformComponent { return d.value.(*api.PlatformComponent) }

// Deleted reports whether this is a decommissioned cluster, which has empty lists.
func (e *Effective) Deleted() bool { return e.cluster.DeletedAt != nil }

// unsettled reports whether a document changed so recently that some clusters may not have polled since.
func (d *Document) unsettled(now time.Time) bool {
	return now.Sub(d.UpdatedAt) < settleTime && d.UpdatedAt.After(d.CreatedAt)
}
