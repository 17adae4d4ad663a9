package resourceset

import (
	"fmt"
	"strings"
)

// ForType returns the objects of a YAML stream that are named like, renamed to the resource type id, and their ResourceSets with
// the template. So the objects of a resource type have the same guards as the shipped ones. The chart builds them in the same way
// from the same files.
func ForType(shipped, like, id, template string) ([]Object, error) {
	objects, err := ParseObjects(shipped)
	if err != nil {
		return nil, err
	}
	var made []Object
	for _, obj := range objects {
		if Text(obj, "metadata", "name") != like {
			continue
		}
		rename(obj, id)
		if Text(obj, "kind") == Kind {
			spec, _ := obj["spec"].(Object)
			spec["resourcesTemplate"] = template
		}
		made = append(made, obj)
	}
	if len(made) == 0 {
		return nil, fmt.Errorf("the shipped manifests have no objects for %s", like)
	}
	return made, nil
}

// rename renames an object, with all references to the provider of the same name.
func rename(obj Object, name string) {
	metadata, _ := obj["metadata"].(Object)
	was := metadata["name"]
	metadata["name"] = name
	spec, _ := obj["spec"].(Object)
	for _, list := range []string{"dependsOn", "inputsFrom"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			if from, ok := item.(Object); ok && from["name"] == was {
				from["name"] = name
			}
		}
	}
	if url, ok := spec["url"].(string); ok {
		spec["url"] = strings.TrimSuffix(url, fmt.Sprint(was)) + name
	}
}
