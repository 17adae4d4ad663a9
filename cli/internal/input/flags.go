package input

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
)

// References returns ids of a flag as [{"id": …}].
func References(_ string, ids []string) (any, error) {
	refs := []map[string]string{}
	for _, id := range ids {
		refs = append(refs, map[string]string{"id": id})
	}
	return refs, nil
}

// Pairs returns texts KEY=VALUE of a flag as an object.
func Pairs(flag string, texts []string) (any, error) {
	pairs := map[string]string{}
	for _, pair := range texts {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, args.Errorf("--%s %q is not KEY=VALUE", flag, pair)
		}
		pairs[key] = value
	}
	return pairs, nil
}

// integer is a text that becomes a number; one above 2^53 stays text, because JSON would round it.
var integer = regexp.MustCompile(`^(?:0|-?[1-9][0-9]{0,14})$`)

// Variables returns texts KEY=VALUE and KEY- of a flag as an object, the latter as null. Values are typed as those of helm --set.
func Variables(flag string, texts []string) (map[string]any, error) {
	vars := map[string]any{}
	for _, text := range texts {
		key, value, set := strings.Cut(text, "=")
		gone, removed := strings.CutSuffix(text, "-")
		switch {
		case !set && removed && gone != "":
			vars[gone] = nil
		case !set || key == "":
			return nil, args.Errorf("--%s %q is neither KEY=VALUE nor KEY-", flag, text)
		case integer.MatchString(value):
			vars[key] = json.Number(value)
		case value == "true" || value == "false":
			vars[key] = value == "true"
		case len(value) > 1 && strings.ContainsAny(value[:1], `"'`) && value[0] == value[len(value)-1]:
			vars[key] = value[1 : len(value)-1]
		default:
			vars[key] = value
		}
	}
	return vars, nil
}

// FluxSettings parses PATH=VALUE and PATH- of a flag into nested objects; PATH- becomes null. Values are typed as those of variables;
// lists and objects are JSON. A dot in a key is written \..
func FluxSettings(flag string, texts []string) (map[string]any, error) {
	given, err := Variables(flag, texts)
	if err != nil {
		return nil, err
	}
	settings := map[string]any{}
	for path, value := range given {
		if text, ok := value.(string); ok && text != "" && strings.ContainsAny(text[:1], "[{") {
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				return nil, args.Errorf("--%s %s: %v", flag, path, err)
			}
		}
		keys := strings.Split(strings.ReplaceAll(path, `\.`, "\x00"), ".")
		into := settings
		for i, key := range keys {
			if key = strings.ReplaceAll(key, "\x00", "."); i == len(keys)-1 {
				into[key] = value
				break
			}
			below, _ := into[key].(map[string]any)
			if below == nil {
				below = map[string]any{}
				into[key] = below
			}
			into = below
		}
	}
	return settings, nil
}

// ValuesFrom parses texts of the form [PATH=]KIND/NAME[:KEY][?] and returns them as the field values_from. Each text names an object
// on the cluster that contains Helm values, or with PATH the value at this path; a ? at the end makes the object optional.
func ValuesFrom(flag string, texts []string) (any, error) {
	refs := []map[string]any{}
	for _, text := range texts {
		path, rest, targeted := strings.Cut(text, "=")
		if !targeted {
			path, rest = "", text
		}
		rest, optional := strings.CutSuffix(rest, "?")
		rest, key, keyed := strings.Cut(rest, ":")
		kind, name, ok := strings.Cut(rest, "/")
		kind = map[string]string{"secret": "Secret", "configmap": "ConfigMap"}[strings.ToLower(kind)]
		if !ok || kind == "" || name == "" || keyed && key == "" || targeted && path == "" {
			return nil, args.Errorf("--%s %q is not secret/NAME or configmap/NAME, optionally with PATH= before it, and :KEY and ? after it", flag, text)
		}
		ref := map[string]any{"kind": kind, "name": name}
		if keyed {
			ref["values_key"] = key
		}
		if optional {
			ref["optional"] = true
		}
		if targeted {
			ref["target_path"] = path
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// Images parses texts of the form NAME[=NEW_NAME][:TAG][@DIGEST], as `kustomize edit set image` reads them, and returns them as the
// field images.
func Images(flag string, texts []string) (any, error) {
	images := []map[string]any{}
	for _, text := range texts {
		name, replacement, renamed := strings.Cut(text, "=")
		if !renamed {
			name, replacement = "", text
		}
		newName, digest, hasDigest := strings.Cut(replacement, "@")
		tag, hasTag := "", false
		if at := strings.LastIndex(newName, ":"); at > strings.LastIndex(newName, "/") { // otherwise it is the port of a registry
			newName, tag, hasTag = newName[:at], newName[at+1:], true
		}
		if !renamed {
			name, newName = newName, ""
		}
		if name == "" || hasTag && tag == "" || hasDigest && digest == "" || renamed && newName == "" && !hasTag && !hasDigest {
			return nil, args.Errorf("--%s %q is not NAME[=NEW_NAME][:TAG][@DIGEST]", flag, text)
		}
		image := map[string]any{"name": name}
		for field, value := range map[string]string{"new_name": newName, "new_tag": tag, "digest": digest} {
			if value != "" {
				image[field] = value
			}
		}
		images = append(images, image)
	}
	return images, nil
}
