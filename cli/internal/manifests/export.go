package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
)

// Names of the API in documents with lists of assignments.
const (
	clusterKind    = "cluster"
	layerKind      = "layer"
	componentsList = "platform_components"
)

// Selected is a kind to export, with the sorted ids of its documents; nil for all.
type Selected struct {
	Kind documents.Kind
	IDs  []string
}

// Select reads KIND and KIND/NAME, and returns kinds in the order of a file. No operand means all of them and of these resource
// types. The definitions of all resource types are the kind resource, those of one type resource/TYPE.
func Select(kinds documents.Kinds, operands, types []string) ([]Selected, error) {
	wanted := map[string][]string{}
	for _, arg := range operands {
		word, id, one := documents.SplitName(arg)
		k, ok := kinds.Find(word)
		switch {
		case documents.IsResource(word):
			k.Kind = documents.ResourceKind
		case !ok:
			return nil, args.Errorf("there is no kind %s; there are %s", strconv.Quote(word), args.ListOf(kinds.Words()))
		case k.Type != "" && !slices.Contains(types, k.Type):
			types = append(types, k.Type)
		}
		ids, seen := wanted[k.Kind]
		switch {
		case !one:
			wanted[k.Kind] = nil
		case args.CheckID("NAME", id) != nil:
			return nil, args.CheckID("NAME", id)
		case !seen || ids != nil:
			wanted[k.Kind] = append(ids, id)
		}
	}
	_, resources := wanted[documents.ResourceKind]
	var out []Selected
	for _, k := range kinds.With(slices.Sorted(slices.Values(types))) {
		ids, ok := wanted[k.Kind]
		slices.Sort(ids)
		switch {
		case len(operands) == 0 || resources && k.Type != "":
			out = append(out, Selected{Kind: k})
		case ok:
			out = append(out, Selected{k, slices.Compact(ids)})
		}
	}
	return out, nil
}

// Export collects stored documents in the form that ReadFiles reads.
type Export struct {
	// Typed and Layered: the fleet has resource types and layers. Otherwise their fields are omitted.
	Typed, Layered bool
	// New: the documents are for a fleet that does not have them yet, so no null has to clear a setting.
	New bool
	// Limits are the limits of the identity that exports, as JSON: documents may be missing. Nil: it may read everything.
	Limits json.RawMessage

	files []file
	lists []string // in the order of Add
}

// file is a document with a file of its own.
type file struct {
	kind     documents.Kind
	id       string
	document json.RawMessage
}

// Add adds documents of a kind, whose list is exported even if it is empty.
func (e *Export) Add(k documents.Kind, docs []json.RawMessage) error {
	if !slices.Contains(e.lists, k.List) {
		e.lists = append(e.lists, k.List)
	}
	for _, doc := range docs {
		id, err := idOf(doc)
		if err != nil {
			return err
		}
		applicable, err := e.applicable(doc, k.Kind)
		if err != nil {
			return err
		}
		e.files = append(e.files, file{k, id, applicable})
	}
	return nil
}

// Comment returns the lines of comments of each exported file.
func (e *Export) Comment() string {
	if e.Limits == nil {
		return ""
	}
	return "# This export may be incomplete: the identity that made it may read only a part of the fleet. apply --prune refuses it.\n# " + documents.LimitsComment + " " + string(e.Limits) + "\n"
}

// Names returns the documents as KIND/NAME.
func (e *Export) Names() []string {
	var names []string
	for _, f := range e.files {
		names = append(names, f.kind.Name+"/"+f.id)
	}
	return names
}

// Document returns all documents in lists, in the layout of a seed file. JSON has no comments, so withLimits adds a member for them.
func (e *Export) Document(withLimits bool) json.RawMessage {
	var out object
	if withLimits && e.Limits != nil {
		out.add(documents.LimitsMember, string(e.Limits))
	}
	for _, list := range e.lists {
		var docs []string
		for _, f := range e.files {
			if f.kind.List == list {
				docs = append(docs, string(f.document))
			}
		}
		out.add(list, "["+strings.Join(docs, ",")+"]")
	}
	return out.encode()
}

// WriteFiles writes a file for each document below a directory, and returns their number. The directory must be empty or not exist,
// because apply would also read the files of an earlier export.
func (e *Export) WriteFiles(dir string) (int, error) {
	if err := CheckEmpty(dir); err != nil {
		return 0, err
	}
	for _, f := range e.files {
		if err := f.write(dir, e.Comment()); err != nil {
			return 0, err
		}
	}
	return len(e.files), nil
}

// CheckEmpty returns an error if a directory exists and is not empty.
func CheckEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: nothing was written, because apply would also read the files in it", dir)
	}
	return nil
}

// path returns the file below the directory: clusters/demo-cluster-01.yaml.
func (f file) path() (string, error) {
	dir, name := filepath.FromSlash(f.kind.List), f.id+".yaml"
	if f.kind.Type != "" {
		dir = filepath.Join(documents.ResourcesList, f.kind.Type)
	}
	// Ids contain no separators today; one with a separator must not leave the directory.
	if path := filepath.Join(dir, name); !strings.ContainsAny(f.id, `/\`) && filepath.IsLocal(path) {
		return path, nil
	}
	return "", fmt.Errorf("%s/%s cannot be the name of a file", f.kind.Name, f.id)
}

func (f file) write(dir, comment string) error {
	path, err := f.path()
	if err != nil {
		return err
	}
	document := json.RawMessage(`{"kind":` + strconv.Quote(f.kind.Name) + "," + string(bytes.TrimPrefix(bytes.TrimSpace(f.document), []byte("{"))))
	var text bytes.Buffer
	if err := (render.Output{Document: document, Ends: true, Comment: comment}).Write(&text, render.Style{Format: "yaml"}); err != nil {
		return err
	}
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}

// object is a JSON object that keeps the order of its members.
type object []string

func (o *object) add(name, value string) { *o = append(*o, strconv.Quote(name)+":"+value) }

func (o object) encode() json.RawMessage { return json.RawMessage("{" + strings.Join(o, ",") + "}") }

// applicable returns a document in the form that apply reads: without the fields that the server sets, in its own order. Settings
// that an entry of a cluster's lists does not override are null, because apply keeps fields that are not mentioned. For the same
// reason empty resources and excludes of a cluster are written.
func (e *Export) applicable(doc json.RawMessage, kind string) (json.RawMessage, error) {
	hasResources, hasExcludes := e.Typed && (kind == clusterKind || kind == layerKind), e.Layered && kind == clusterKind
	keys, fields, err := ordered(doc)
	if err != nil {
		return nil, err
	}
	var out object
	for _, key := range keys {
		value := fields[key]
		if slices.Contains(documents.ReadOnly, key) || key == "pinned" { // a copy would be pinned to other inputs
			continue
		}
		switch {
		case e.New:
		case key == componentsList && kind == layerKind:
			value, err = withNulls(value, append([]string{"enabled"}, componentSettings...)...)
		case key == componentsList:
			value, err = withNulls(value, componentSettings...)
		case key == documents.ResourcesList && hasResources:
			value, err = resourcesWithNulls(value)
		}
		if err != nil {
			return nil, err
		}
		out.add(key, string(value))
	}
	if _, has := fields[documents.ResourcesList]; hasResources && !has {
		out.add(documents.ResourcesList, "{}")
	}
	if _, has := fields["excludes"]; hasExcludes && !has {
		out.add("excludes", "{}")
	}
	return out.encode(), nil
}

func resourcesWithNulls(lists json.RawMessage) (json.RawMessage, error) {
	ids, byID, err := ordered(lists)
	if err != nil {
		return nil, err
	}
	var out object
	for _, id := range ids {
		list, err := withNulls(byID[id], "overrides")
		if err != nil {
			return nil, err
		}
		out.add(id, string(list))
	}
	return out.encode(), nil
}

// componentSettings are the settings of an entry of a component that a cluster or a layer may leave out.
var componentSettings = []string{"oci_tag", "oci_digest", "component_path", "component_version", "values_from", "images", "flux"}

func withNulls(entries json.RawMessage, settings ...string) (json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(entries, &list); err != nil {
		return nil, err
	}
	for i, entry := range list {
		_, fields, err := ordered(entry)
		if err != nil {
			return nil, err
		}
		members := []string{string(bytes.TrimSuffix(bytes.TrimSpace(entry), []byte("}")))}
		for _, name := range settings {
			if _, has := fields[name]; !has {
				members = append(members, strconv.Quote(name)+":null")
			}
		}
		list[i] = json.RawMessage(strings.Join(members, ",") + "}")
	}
	return render.Encode(list)
}

// ordered reads an object with the order of its keys.
func ordered(object json.RawMessage) ([]string, map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the opening brace
		return nil, nil, err
	}
	var keys []string
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		key, _ := token.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, nil, err
		}
		keys = append(keys, key)
	}
	return keys, fields, nil
}
