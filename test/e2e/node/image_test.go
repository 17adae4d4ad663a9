package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

const repository = "ghcr.io/flux-resourceset/flux-resourceset"

// appVersion is the tag that the chart asks for.
func appVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../charts/flux-resourceset/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ AppVersion string }
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	return chart.AppVersion
}

// ourImage is built as in the Dockerfile, with the same user, folder and program.
func ourImage(t *testing.T, tag string) rig.Image {
	t.Helper()
	text, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, final, found := strings.Cut(string(text), "\nFROM scratch\n")
	if !found {
		t.Fatal("the Dockerfile has no stage FROM scratch")
	}
	instruction := func(name string) string {
		match := regexp.MustCompile(`(?m)^` + name + ` (.*)$`).FindStringSubmatch(final)
		if match == nil {
			t.Fatalf("the Dockerfile has no %s", name)
		}
		return match[1]
	}
	var entrypoint []string
	if err := json.Unmarshal([]byte(instruction("ENTRYPOINT")), &entrypoint); err != nil {
		t.Fatal(err)
	}
	return rig.Image{
		Name: repository + ":" + tag, User: instruction("USER"), WorkingDir: instruction("WORKDIR"), Entrypoint: entrypoint,
		Files: []rig.ImageFile{
			{Path: "tmp", Mode: 0o1777},
			{Path: "etc/ssl/certs/ca-certificates.crt", From: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644},
			{Path: "data", Mode: 0o770, UID: 65532},
			program("flux-resourceset"),
			program("flux-resourceset-cli"),
		},
	}
}

func program(name string) rig.ImageFile {
	return rig.ImageFile{Path: name, From: filepath.Join(node.Bin, name), Mode: 0o755}
}

// programImage holds one static program.
func programImage(name, program string) rig.Image {
	return rig.Image{
		Name: name, User: "65532:65532", WorkingDir: "/", Entrypoint: []string{"/" + filepath.Base(program)},
		Files: []rig.ImageFile{{Path: "tmp", Mode: 0o1777}, {Path: filepath.Base(program), From: program, Mode: 0o755}},
	}
}
