// Package fluxdump reads the Kubernetes objects of clusters that Flux manages from files: the output of kubectl get -o yaml, or of
// kustomize build. It knows nothing of fleets.
//
//	FILE or DIR ── Read ──> a Cluster for each file or folder ──> Objects by kind, namespace and name
//
// No content of a Secret leaves the package: an Object of this kind has only its name and type. The values are compared with texts
// ([Cluster.SecretIn]), so that a caller can refuse a text that contains one.
package fluxdump

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

// MaxFileBytes is the maximum size of a file.
const MaxFileBytes = 64 << 20

// minSecretBytes is the size below which the value of a Secret, such as "true" or "admin", is no secret: it would occur everywhere.
const minSecretBytes = 8

// Cluster is what the files of one cluster contain.
type Cluster struct {
	Name   string // of the file without its extension, or of the folder
	Source string // the file or folder
	// Objects in the order of the files. No two have the same kind, namespace and name.
	Objects []Object

	index   map[Ref]int
	secrets []secretValue
}

// Ref identifies an object on a cluster. The version of its API is no part of it.
type Ref struct{ Group, Kind, Namespace, Name string }

func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Object is a Kubernetes object.
type Object struct {
	Ref
	APIVersion string
	Fields     map[string]any // parsed; numbers are json.Number
	Source     string         // the file and the document, and the item of a list
}

type secretValue struct {
	ref   Ref
	value string
}

// Find returns an object, if the cluster has it.
func (c *Cluster) Find(ref Ref) (Object, bool) {
	i, ok := c.index[ref]
	if !ok {
		return Object{}, false
	}
	return c.Objects[i], true
}

// Kind returns the objects of a kind.
func (c *Cluster) Kind(group, kind string) (out []Object) {
	for _, o := range c.Objects {
		if o.Group == group && o.Kind == kind {
			out = append(out, o)
		}
	}
	return out
}

// SecretIn returns the Secret of which a text contains a value. It finds only values of at least 8 bytes.
func (c *Cluster) SecretIn(text string) (Ref, bool) {
	for _, s := range c.secrets {
		if strings.Contains(text, s.value) {
			return s.ref, true
		}
	}
	return Ref{}, false
}

// Mask replaces the values of Secrets in a text, long ones first. quote is applied to a value as it was to the text; nil: not at all.
func (c *Cluster) Mask(text string, quote func(string) string) string {
	for _, s := range c.secrets {
		text = strings.ReplaceAll(text, s.value, "***")
		if quote != nil {
			text = strings.ReplaceAll(text, quote(s.value), "***")
		}
	}
	return text
}

// At returns the value at a path of fields; nil: there is none.
func (o Object) At(path ...string) any {
	var value any = o.Fields
	for _, step := range path {
		fields, _ := value.(map[string]any)
		value = fields[step]
	}
	return value
}

// Text returns the text at a path of fields; empty: there is none.
func (o Object) Text(path ...string) string {
	text, _ := o.At(path...).(string)
	return text
}

// Flag returns the boolean at a path of fields; false: there is none.
func (o Object) Flag(path ...string) bool {
	value, _ := o.At(path...).(bool)
	return value
}

// Read reads the clusters of files and folders. A file is a cluster. Of a folder, each file and each folder in it is a cluster; all
// errors are about the command line.
func Read(names []string) ([]*Cluster, error) {
	var clusters []*Cluster
	known := map[string]string{}
	for _, name := range names {
		sources, err := sourcesOf(name)
		if err != nil {
			return nil, args.Error{Err: err}
		}
		for _, source := range sources {
			cluster, err := ReadCluster(source)
			if err != nil {
				return nil, err
			}
			if other, twice := known[cluster.Name]; twice {
				return nil, args.Errorf("%s and %s are both cluster %q: rename one of them, or put both files into one folder", other, source, cluster.Name)
			}
			known[cluster.Name] = source
			clusters = append(clusters, cluster)
		}
	}
	return clusters, nil
}

// sourcesOf returns the file of an argument, or the files and folders in it.
func sourcesOf(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var sources []string
	for _, e := range entries {
		path := filepath.Join(name, e.Name())
		info, err := os.Stat(path) // follows a symbolic link
		switch {
		case err != nil:
			return nil, err
		case info.IsDir() && !strings.HasPrefix(e.Name(), "."), documents.IsFile(e.Name()):
			sources = append(sources, path)
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("there is no .yaml, .yml or .json file and no folder in %s", name)
	}
	return sources, nil
}

// ReadCluster reads the cluster of one file, or of all files in a folder and below it.
func ReadCluster(source string) (*Cluster, error) {
	name := filepath.Base(source)
	if documents.IsFile(name) {
		name = strings.TrimSuffix(name, filepath.Ext(name))
	}
	c := &Cluster{Name: name, Source: source, index: map[Ref]int{}}
	files, err := manifests.FilesOf(source)
	if err != nil {
		return nil, args.Error{Err: err}
	}
	for _, file := range files {
		if err := c.readFile(file); err != nil {
			return nil, args.Error{Err: err}
		}
	}
	if len(c.Objects) == 0 {
		return nil, args.Errorf("there is no object in %s", source)
	}
	slices.SortStableFunc(c.secrets, func(a, b secretValue) int {
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.value, b.value))
	})
	c.secrets = slices.CompactFunc(c.secrets, func(a, b secretValue) bool { return a.value == b.value })
	return c, nil
}

func (c *Cluster) readFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	switch {
	case err != nil:
		return err
	case len(data) > MaxFileBytes:
		return fmt.Errorf("%s has more than %d MiB: write the kinds of objects into several files, in a folder with the name of the cluster", name, MaxFileBytes>>20)
	case strictyaml.Truncated(data):
		return fmt.Errorf("%s does not end with a new line: it may be cut off", name)
	}
	documents, err := strictyaml.Stream(data)
	if err != nil {
		return fmt.Errorf("%s is neither JSON nor YAML: %w", name, err)
	}
	var errs []error
	for i, document := range documents {
		value, err := strictyaml.Decode(document)
		if err == nil {
			err = c.add(value, fmt.Sprintf("%s, document %d", name, i+1))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// add adds an object, or the objects of a List.
func (c *Cluster) add(value any, source string) error {
	fields, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: a Kubernetes object is expected, with apiVersion, kind and metadata", source)
	}
	object := newObject(fields)
	object.Source = source
	if items, ok := fields["items"].([]any); ok && strings.HasSuffix(object.Kind, "List") {
		var errs []error
		for i, item := range items {
			errs = append(errs, c.add(item, fmt.Sprintf("%s, items[%d]", source, i)))
		}
		return errors.Join(errs...)
	}
	if object.APIVersion == "" || object.Kind == "" || object.Name == "" {
		return fmt.Errorf("%s: a Kubernetes object is expected, with apiVersion, kind and metadata.name", source)
	}
	c.removeSecrets(&object)
	if i, twice := c.index[object.Ref]; twice {
		if reflect.DeepEqual(c.Objects[i].Fields, object.Fields) {
			return nil
		}
		return fmt.Errorf("%s and %s: %s is there twice, with different fields", c.Objects[i].Source, source, object.Ref)
	}
	c.index[object.Ref] = len(c.Objects)
	c.Objects = append(c.Objects, object)
	return nil
}

func newObject(fields map[string]any) Object {
	o := Object{Fields: fields}
	o.APIVersion, o.Kind, o.Name, o.Namespace = o.Text("apiVersion"), o.Text("kind"), o.Text("metadata", "name"), o.Text("metadata", "namespace")
	if group, _, grouped := strings.Cut(o.APIVersion, "/"); grouped {
		o.Group = group
	}
	return o
}

// removeSecrets removes what may contain secrets: the content of a Secret, and the copy of an object that kubectl apply keeps.
func (c *Cluster) removeSecrets(o *Object) {
	metadata, _ := o.Fields["metadata"].(map[string]any)
	delete(metadata, "managedFields")
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	}
	if o.Group != "" || o.Kind != "Secret" {
		return
	}
	if o.Text("type") != "helm.sh/release.v1" { // its content is the release, not what the release must not show
		for _, field := range []string{"data", "stringData"} {
			values, _ := o.Fields[field].(map[string]any)
			for _, value := range values {
				c.remember(o.Ref, value, field == "data")
			}
		}
	}
	o.Fields = map[string]any{"apiVersion": "v1", "kind": "Secret", "type": o.Fields["type"], "metadata": map[string]any{
		"name": o.Name, "namespace": o.Namespace, "labels": metadata["labels"], "uid": metadata["uid"],
	}}
}

// remember keeps the forms of a value of a Secret for comparisons: the encoded value, each line, what follows a = in a line, and the texts
// in YAML or JSON, such as a login to a registry.
func (c *Cluster) remember(ref Ref, value any, encoded bool) {
	text, _ := value.(string)
	if encoded {
		c.keepSecret(ref, text)
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return // a placeholder, or encrypted
		}
		text = string(decoded)
	}
	for line := range strings.Lines(text) {
		c.keepSecret(ref, line)
		if _, setting, found := strings.Cut(line, "="); found {
			c.keepSecret(ref, setting)
		}
	}
	documents, err := strictyaml.Stream([]byte(text))
	if err != nil {
		return // no YAML
	}
	for _, document := range documents {
		if parsed, err := strictyaml.Decode(document); err == nil {
			Map(parsed, nil, func(leaf any) any {
				if text, ok := leaf.(string); ok {
					c.keepSecret(ref, text)
				}
				return nil
			})
		}
	}
}

func (c *Cluster) keepSecret(ref Ref, text string) {
	if text = strings.Trim(text, " \t\r\n\"'"); len(text) < minSecretBytes {
		return
	}
	inJSON, _ := json.Marshal(text) //nolint:errchkjson // a string can be encoded
	for _, form := range []string{text, strings.Trim(string(inJSON), `"`), input.EscapeName(text)} {
		c.secrets = append(c.secrets, secretValue{ref, form})
	}
}
