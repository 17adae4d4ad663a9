// Package served compares what clusters are served: the settings of a cluster that its inputs depend on, and its inputs. The
// command line and the page show the differences that it finds.
package served

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Settings are what a cluster is served, now or at a revision, with its rollouts and its pin.
type Settings struct {
	Cluster json.RawMessage // environment, labels, deletion protection and layers; nil: not compared
	Inputs  []Input
}

// Input is an input of a list, without the fields that name the cluster and the input.
type Input struct {
	List, ID string
	Fields   map[string]any // numbers as [json.Number]
}

// Of returns the settings of a cluster from the explanation of its inputs and its document, both at one revision. document may be
// nil.
func Of(explained *api.Explanation, document json.RawMessage) (Settings, error) {
	var out Settings
	for i := range explained.Inputs {
		in, err := inputOf(&explained.Inputs[i])
		if err != nil {
			return out, err
		}
		out.Inputs = append(out.Inputs, in)
	}
	if document == nil {
		return out, nil
	}
	var own struct {
		Environment        string         `json:"environment"`
		Labels             map[string]any `json:"labels"`
		DeletionProtection bool           `json:"deletion_protection"`
		Layers             []string       `json:"layers"`
	}
	err := json.Unmarshal(document, &own)
	if err != nil {
		return out, fmt.Errorf("the document of the cluster: %w", err)
	}
	own.Layers = explained.Layers
	out.Cluster, err = json.Marshal(own)
	return out, err
}

func inputOf(explained *api.ExplainedInput) (Input, error) {
	in := Input{List: explained.List, ID: explained.ID}
	decoder := json.NewDecoder(bytes.NewReader(explained.Input))
	decoder.UseNumber()
	if err := decoder.Decode(&in.Fields); err != nil {
		return in, fmt.Errorf("the input %s of %s: %w", in.ID, in.List, err)
	}
	delete(in.Fields, "cluster")
	delete(in.Fields, "id")
	delete(in.Fields, "values_json") // the values again, as text, in which names mask no secrets
	return in, nil
}

// WithoutRepetitions returns the settings without fields that repeat others in another form, for a comparison.
func (s Settings) WithoutRepetitions() Settings {
	out := Settings{Cluster: s.Cluster}
	for _, in := range s.Inputs {
		in.Fields = maps.Clone(in.Fields)
		delete(in.Fields, "dependencies") // depends_on
		if in.Fields["type"] == "helm" {
			delete(in.Fields, "patches") // values
		}
		out.Inputs = append(out.Inputs, in)
	}
	return out
}

// Document returns the settings and the inputs, by list and id, as one document.
func (s Settings) Document() (map[string]any, error) {
	all := map[string]any{}
	if s.Cluster != nil {
		var own map[string]any
		if err := json.Unmarshal(s.Cluster, &own); err != nil {
			return nil, err
		}
		all["cluster"] = own
	}
	for _, in := range s.Inputs {
		list, _ := all[in.List].(map[string]any)
		if list == nil {
			list = map[string]any{}
			all[in.List] = list
		}
		list[in.ID] = in.Fields
	}
	return all, nil
}
