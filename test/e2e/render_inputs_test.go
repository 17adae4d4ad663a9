package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	clusterNames = []string{"c1", "C One", "Zürich (prod)", "a--b", "under_score", "漢字 cluster", strings.Repeat("long name ", 6)}
	hostileTexts = []string{
		"", "plain", "a,b{c}=d", `"quoted"`, "it's", "two\nlines", "\n---\nkind: Secret\n", "a: b # c", "{{ .Values.x }}", "<< inputs.id >>",
		"*alias", "&anchor", "!tag", "!!int 3", "|", ">-", "%d", "@", "`", "? k", "- item", "on", "Yes", "null", "~", "1e3", "0x1f", "007",
		"1_000", "3", "true", "$HOME ${X} $$", "\ttab", " space ", "trailing\n", "\r\n", "üñí 漢字 😀", "\u00a0\u00ad\u2028\u2029", "\u0007\u001b",
		`back\slash`, "[1,2]", "{\"a\":1}", "#", "---", "...", "=", "<&>",
	}
)

// unprintable are the characters that the operator's command line cannot read from a file, cannot print or prints as
// something else in the middle of a text, since it does both as YAML. TestHostileText and TestRenderExactly of package cli
// have those that the API takes.
var unprintable = &unicode.RangeTable{R16: []unicode.Range16{
	{0x7f, 0x9f, 1}, {0x2028, 0x2029, 1}, {0xfeff, 0xfeff, 1}, {0xfffe, 0xffff, 1},
}}

// hostileText is one of hostileTexts, or several in a row with any character between them.
func hostileText(random *rand.Rand) string {
	parts := random.IntN(4)
	if parts == 0 {
		return pick(random, hostileTexts...)
	}
	var text strings.Builder
	for range parts {
		text.WriteString(pick(random, hostileTexts...) + anyRune(random))
	}
	text.WriteString(pick(random, hostileTexts...))
	return strings.Map(func(r rune) rune {
		if unicode.Is(unprintable, r) {
			return -1
		}
		return r
	}, text.String())
}

// anyRune is any character that JSON can carry and the API takes.
func anyRune(random *rand.Rand) string {
	limit := pick(random, 0x80, 0x100, 0x3000, utf8.MaxRune)
	return string(1 + random.Int32N(limit)) // half a surrogate pair is replaced by U+FFFD
}

// hostileName is text as the name of a person or group may be: on one line, and neither starting nor ending with a space.
func hostileName(random *rand.Rand) string {
	for {
		text := hostileText(random)
		if text != "" && text == strings.TrimSpace(text) && !strings.ContainsFunc(text, unicode.IsControl) {
			return text
		}
	}
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func identifier(random *rand.Rand, i int) string {
	return fmt.Sprintf("%s-%d", pick(random, "podinfo", "cert-manager", "a--b", "x", strings.Repeat("n", 45)), i)
}

func clusterBlock(random *rand.Rand) object {
	return object{"name": pick(random, clusterNames...), "dns": "c.example.com", "environment": pick(random, "dev", "prod")}
}

// confirmed adds to an input the fields of a receipt: none, the digest, or also the address of the API.
func confirmed(random *rand.Rand, input object) object {
	switch random.IntN(3) {
	case 0:
		input["settings"] = object{"receipts": object{"url": "https://api.example.com/receipts", "secret": "poll", "interval": "1h"}}
		fallthrough
	case 1:
		input["receipt"] = fmt.Sprintf("%016x", random.Uint64())
	}
	return input
}

func generatedComponent(random *rand.Rand, i int) object {
	kustomize := random.IntN(3) == 0
	kind, url := "helm", pick(random, "https://charts.example.com", "https://charts.example.com/x/", "http://charts.example.com", "oci://registry.example.com/charts", "oci://registry.example.com/charts/", "git+https://git.example.com/charts")
	if kustomize {
		kind, url = "kustomize", pick(random, "oci://registry.example.com/platform", "oci://registry.example.com/platform/", "git+ssh://git@git.example.com/platform/")
	}
	patches, values := object{}, object{}
	for n := range random.IntN(5) {
		value := pick[any](random, hostileText(random), random.IntN(1e6), random.Float64(), true, 1e3, []any{hostileText(random), 1}, object{"k": hostileText(random)})
		name := fmt.Sprintf("%s%d", pick(random, "ui.color", "hosts[0].name", `a\.b`, "ünicode", "values.yaml", "x-", "_"), n)
		if kustomize {
			name, value = fmt.Sprintf("VAR_%d", n), pick(random, "3", "on", "1e3", "text with spaces", "a/b", "")
		}
		patches[name], values[fmt.Sprintf("key%d", n)] = value, value
	}
	var dependencies []object
	for n := range random.IntN(3) {
		dependencies = append(dependencies, object{"id": fmt.Sprintf("dep--%d", n), "type": pick(random, "helm", "kustomize")})
	}
	component := object{
		"id": identifier(random, i), "enabled": random.IntN(8) > 0, "type": kind,
		"component_path":      pick(random, "podinfo", "core/cert-manager/1.14.0", "a/b/", "/leading"),
		"component_version":   pick(random, "latest", "1.2.3", "v1.2.3", "1.2", "1", "1.2.x", "~1.2", ">=1.0.0 <2.0.0", "*", "1.2.3+build.5", "1.2.3-rc.1", "stable", "refs/heads/a=b", strings.Repeat("0a", 20)),
		"source":              object{"oci_url": url, "oci_tag": pick(random, "latest", "v1.0.0", "v1.0.0-1", "1.0", "~1", "refs/heads/1.x", strings.Repeat("0a", 20), `<< inputs.id >>"`)},
		"cluster_env_enabled": random.IntN(2) == 0, "depends_on": []string{}, "dependencies": append([]object{}, dependencies...),
		"patches": patches, "values": values, "release_name": identifier(random, i), "target_namespace": pick(random, "apps", "podinfo"),
		"secret_ref": pick(random, "", "pull"), "cluster": clusterBlock(random),
	}
	if kustomize && random.IntN(2) == 0 {
		component["override_namespace"] = true
	}
	return confirmed(random, component)
}

func generatedNamespace(random *rand.Rand, i int) object {
	labels, annotations := object{}, object{}
	for n := range random.IntN(4) {
		labels[fmt.Sprintf("example.com/l%d", n)] = pick(random, "", "yes", "on", "1e3", "007", "null", "true", "a.b-c_d")
		annotations[pick(random, "example.com/", "", "fluxcd.controlplane.io/prune")+fmt.Sprintf("a%d", n)] = hostileText(random)
	}
	if random.IntN(5) == 0 {
		annotations["fluxcd.controlplane.io/prune"] = pick(random, "enabled", "disabled")
	}
	return confirmed(random, object{
		"id": identifier(random, i), "labels": labels, "annotations": annotations,
		"deletion_policy": pick(random, "delete", "orphan"), "cluster": clusterBlock(random),
	})
}

func generatedRoleBinding(random *rand.Rand, i int) object {
	subjects := []object{}
	for range random.IntN(4) {
		subject := object{"kind": "Group", "name": hostileName(random), "namespace": "", "apiGroup": "rbac.authorization.k8s.io"}
		if random.IntN(3) == 0 {
			subject = object{"kind": "ServiceAccount", "name": "robot", "namespace": "ci", "apiGroup": ""}
		}
		subjects = append(subjects, subject)
	}
	id := pick(random, "", "team: a+b ü ", "Up_per.") + identifier(random, i)
	return confirmed(random, object{"id": id, "role": pick(random, "view", "edit", "team:admin"), "subjects": subjects, "cluster": clusterBlock(random)})
}
