package explain

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// Blame finds the revisions that set the values of one document. It is given the document's changes from the newest to the
// oldest, and compares only those parts of it that contain a value whose revision is not known yet.
type Blame struct {
	root   *blameNode
	values map[string]*blameNode // by pointer
	open   int                   // values whose revision is not known
}

// blameNode is a place in the document, with its value in the oldest version that was compared.
type blameNode struct {
	value    any // [jsontext.Text], a scalar, or absent{}
	below    map[blameStep]*blameNode
	fields   map[string]bool // the keys in below
	wanted   bool
	revision int64 // the revision that set the value; 0: unknown
}

// blameStep leads from an object or a list to a value in it. Entries of lists are found by their id: an entry that only
// moves is the same entry.
type blameStep struct {
	key   string
	index int
	kind  stepKind
}

type stepKind byte

const (
	stepKey stepKind = iota
	stepEntry
	stepIndex
)

type absent struct{}

// NewBlame prepares to find the revisions of the values at JSON pointers into a document, which is its canonical JSON. For a
// pointer without a value it finds the revision that removed the value.
func NewBlame(body []byte, pointers []string) (*Blame, error) {
	b := &Blame{root: &blameNode{value: version(body)}, values: make(map[string]*blameNode, len(pointers))}
	for _, pointer := range pointers {
		n, err := b.find(pointer)
		if err != nil {
			return nil, err
		}
		if b.values[pointer] = n; !n.wanted {
			n.wanted = true
			b.open++
		}
	}
	return b, nil
}

// Done reports whether the revisions of all values are known.
func (b *Blame) Done() bool { return b.open == 0 }

// Step compares with the document before a revision, as canonical JSON; nil: it did not exist.
func (b *Blame) Step(revision int64, before []byte) error {
	return b.visit(b.root, version(before), revision)
}

// Revision returns the revision that set the value at a pointer that NewBlame received; 0: none of the steps did.
func (b *Blame) Revision(pointer string) int64 { return b.values[pointer].revision }

// find returns the node of a pointer, and adds the missing nodes on the way to it.
func (b *Blame) find(pointer string) (*blameNode, error) {
	n := b.root
	if pointer == "" {
		return n, nil
	}
	for key := range strings.SplitSeq(pointer[1:], "/") {
		step, err := n.step(unescape.Replace(key))
		if err != nil {
			return nil, err
		}
		next := n.below[step]
		if next == nil {
			next = &blameNode{}
			if next.value, err = child(n.value, step); err != nil {
				return nil, err
			}
			if n.below == nil {
				n.below, n.fields = map[blameStep]*blameNode{}, map[string]bool{}
			}
			n.below[step] = next
			n.fields[step.key] = true
		}
		n = next
	}
	return n, nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// listIndex parses a key of a pointer as an index of a list of n entries.
func listIndex(key string, n int) (int, bool) {
	index, err := strconv.Atoi(key)
	return index, err == nil && index >= 0 && index < n
}

// step returns the step for one key of a pointer.
func (n *blameNode) step(key string) (blameStep, error) {
	opened, err := open(n.value, nil)
	if err != nil {
		return blameStep{}, err
	}
	list, isList := opened.([]any)
	index, inList := listIndex(key, len(list))
	if !isList || !inList {
		return blameStep{key: key}, nil
	}
	entry, err := open(list[index], nil)
	if err != nil {
		return blameStep{}, err
	}
	if _, id, ok := unstructured.Entry(entry); ok {
		return blameStep{key: id, kind: stepEntry}, nil
	}
	return blameStep{index: index, kind: stepIndex}, nil
}

// visit compares a node with its value before a revision, and sets the revision of changed values.
func (b *Blame) visit(n *blameNode, was any, revision int64) error {
	if same(n.value, was) {
		return nil
	}
	n.value = was
	if n.wanted && n.revision == 0 {
		n.revision = revision
		b.open--
	}
	if len(n.below) == 0 {
		return nil
	}
	opened, err := open(was, n.fields)
	if err != nil {
		return err
	}
	for step, next := range n.below {
		value, err := child(opened, step)
		if err == nil {
			err = b.visit(next, value, revision)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// version parses a document.
func version(body []byte) any {
	if body == nil {
		return absent{}
	}
	return jsontext.Text(body)
}

// open parses one level of an object or a list, unless it is parsed already. Of an object it parses some fields; nil: all.
func open(value any, fields map[string]bool) (any, error) {
	if text, ok := value.(jsontext.Text); ok {
		return jsontext.OpenFields(text, fields)
	}
	return value, nil
}

// child returns the value at a step below a value.
func child(value any, step blameStep) (any, error) {
	value, err := open(value, nil)
	if err != nil {
		return nil, err
	}
	switch of := value.(type) {
	case map[string]any:
		if v, present := of[step.key]; present && step.kind == stepKey {
			return v, nil
		}
	case []any:
		if step.kind == stepIndex && step.index < len(of) {
			return of[step.index], nil
		}
		for _, item := range of {
			entry, err := open(item, nil)
			if err != nil {
				return nil, err
			}
			if step.kind == stepEntry && unstructured.HasID(step.key)(entry) {
				return item, nil
			}
		}
	}
	return absent{}, nil
}

// same reports whether two canonical values are equal.
func same(a, b any) bool {
	x, isText := a.(jsontext.Text)
	y, alsoText := b.(jsontext.Text)
	if isText || alsoText {
		return isText == alsoText && bytes.Equal(x, y)
	}
	return a == b
}
