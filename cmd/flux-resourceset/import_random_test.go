package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	frs "github.com/flux-resourceset/flux-resourceset/cli"
)

// referenceFleet is a generated database of the reference, by table.
type referenceFleet struct {
	*rand.Rand
	tables map[string][]map[string]any
}

func (f *referenceFleet) pick(table string) map[string]any {
	return f.tables[table][f.IntN(len(f.tables[table]))]
}

// rename changes the id of a document and all references to it.
func (f *referenceFleet) rename(table, id string) {
	doc := f.pick(table)
	old := doc["_id"].(string)
	doc["_id"] = id
	for _, c := range f.tables["components"] {
		for i, on := range c["depends_on"].([]any) {
			if table == "components" && on == old {
				c["depends_on"].([]any)[i] = id
			}
		}
	}
	for _, c := range f.tables["clusters"] {
		list := map[string]string{"components": "platform_components", "namespaces": "namespaces", "rolebindings": "rolebindings"}[table]
		for _, e := range entriesOf(c, list) {
			if e["id"] == old {
				e["id"] = id
			}
		}
		if patches := c["patches"].(map[string]any); table == "components" && patches[old] != nil {
			patches[id] = patches[old]
			delete(patches, old)
		}
	}
}

func entriesOf(cluster map[string]any, list string) (entries []map[string]any) {
	items, _ := cluster[list].([]any)
	for _, item := range items {
		entries = append(entries, item.(map[string]any))
	}
	return entries
}

// add puts an entry into a list of a document.
func add(doc map[string]any, list string, entry any) {
	items, _ := doc[list].([]any)
	doc[list] = append(items, entry)
}

// subject returns the first subject of a role binding.
func (f *referenceFleet) subject() map[string]any {
	return f.pick("rolebindings")["subjects"].([]any)[0].(map[string]any)
}

func (f *referenceFleet) word(words ...string) string { return words[f.IntN(len(words))] }

// referenceFaults are properties that the reference accepts and this service does not.
var referenceFaults = map[string]func(f *referenceFleet){
	"component id": func(f *referenceFleet) {
		f.rename("components", f.word("Cert_Manager", "cert manager", "a.b.c", "Ünïcode/x"))
	},
	"long component id": func(f *referenceFleet) { f.rename("components", strings.Repeat("component-", 6)+"x") },
	"same object names": func(f *referenceFleet) {
		f.rename("components", strings.Replace(f.pick("components")["_id"].(string), "-", "--", 1))
	},
	"namespace id":      func(f *referenceFleet) { f.rename("namespaces", f.word("Team_A", "team a", "a.b")) },
	"long namespace id": func(f *referenceFleet) { f.rename("namespaces", strings.Repeat("namespace-", 7)) },
	"system namespace":  func(f *referenceFleet) { f.rename("namespaces", f.word("kube-system", "default", "flux-system")) },
	"role binding id": func(f *referenceFleet) {
		f.rename("rolebindings", f.word("team__a", "system:x", "cluster-admin", "a/b"))
	},
	"cluster id":      func(f *referenceFleet) { f.rename("clusters", f.word("US_West", "us west", "us/west/1", "it's")) },
	"long cluster id": func(f *referenceFleet) { f.rename("clusters", strings.Repeat("cluster-", 8)+"x") },
	"environment":     func(f *referenceFleet) { f.pick("clusters")["environment"] = f.word("moon", "Prod", "pre prod", "") },
	"environments":    func(f *referenceFleet) { f.each("clusters", func(c map[string]any) { c["environment"] = "staging" }) },
	"duplicate entry": func(f *referenceFleet) {
		c := f.pick("clusters")
		add(c, "namespaces", map[string]any{"id": entriesOf(c, "namespaces")[0]["id"]})
	},
	"duplicate component": func(f *referenceFleet) {
		c := f.pick("clusters")
		add(c, "platform_components", map[string]any{"id": entriesOf(c, "platform_components")[0]["id"], "enabled": false})
	},
	"duplicate dependency": func(f *referenceFleet) {
		c := f.tables["components"][1]
		add(c, "depends_on", f.tables["components"][0]["_id"])
		add(c, "depends_on", f.tables["components"][0]["_id"])
	},
	"one DNS name": func(f *referenceFleet) {
		f.tables["clusters"][1]["cluster_dns"] = strings.ToUpper(f.tables["clusters"][0]["cluster_dns"].(string))
	},
	"DNS name": func(f *referenceFleet) {
		f.pick("clusters")["cluster_dns"] = f.word("US_West.example.com", "a.example.com.", "a b", "")
	},
	"long name": func(f *referenceFleet) { f.pick("clusters")["cluster_name"] = strings.Repeat("Name ", 13) },
	"name":      func(f *referenceFleet) { f.pick("clusters")["cluster_name"] = f.word("---", "a\tb", " a") },
	"dangling":  func(f *referenceFleet) { add(f.pick("clusters"), "rolebindings", map[string]any{"id": "gone"}) },
	"dangling patch": func(f *referenceFleet) {
		f.pick("clusters")["patches"].(map[string]any)["gone"] = map[string]any{"a": "b"}
	},
	"dangling dependency": func(f *referenceFleet) { add(f.pick("components"), "depends_on", "gone") },
	"Helm of an OCI URL": func(f *referenceFleet) {
		f.pick("components")["oci_url"] = "oci://registry/repo"
		f.each("clusters", func(c map[string]any) {
			for id := range c["patches"].(map[string]any) {
				c["patches"].(map[string]any)[id] = map[string]any{"ui.color": "red"}
			}
		})
	},
	"patches":       func(f *referenceFleet) { f.patch(f.word("a..b", "[", "a[x]", ""), "x") },
	"patch of null": func(f *referenceFleet) { f.patch("replicaCount", nil) },
	"labels": func(f *referenceFleet) {
		f.pick("namespaces")["labels"] = map[string]any{"not ok!": "x", "a/b/c": "y", "team": "not ok!"}
	},
	"annotations": func(f *referenceFleet) {
		f.pick("namespaces")["annotations"] = map[string]any{"fluxcd.controlplane.io/prune": "disabled"}
	},
	"service account": func(f *referenceFleet) {
		add(f.pick("rolebindings"), "subjects", map[string]any{"kind": "ServiceAccount", "name": "ci"})
	},
	"subject's kind":   func(f *referenceFleet) { f.subject()["kind"] = f.word("user", "Robot") },
	"subject's name":   func(f *referenceFleet) { f.subject()["name"] = "" },
	"subject's group":  func(f *referenceFleet) { f.subject()["apiGroup"] = "rbac" },
	"user's namespace": func(f *referenceFleet) { f.subject()["namespace"] = "default" },
	"role":             func(f *referenceFleet) { f.pick("rolebindings")["role"] = f.word("", "a/b") },
	"empty path":       func(f *referenceFleet) { f.pick("components")["component_path"] = "" },
	"URL": func(f *referenceFleet) {
		f.pick("components")["oci_url"] = f.word("https://u:p@example.com/x", "example.com/x", "https://example.com/x?a=b", "")
	},
	"cycle": func(f *referenceFleet) {
		add(f.tables["components"][0], "depends_on", f.tables["components"][1]["_id"])
		add(f.tables["components"][1], "depends_on", f.tables["components"][0]["_id"])
	},
	"own dependency": func(f *referenceFleet) { c := f.pick("components"); add(c, "depends_on", c["_id"]) },
	"node count":     func(f *referenceFleet) { f.pick("clusters")["node_count"] = []any{-1, "3", 1.5}[f.IntN(3)] },
	"unknown field":  func(f *referenceFleet) { f.pick("clusters")["owner team"] = "a/b" },
	"inline namespaces": func(f *referenceFleet) {
		for i, c := range f.tables["clusters"] {
			add(c, "namespaces", map[string]any{"id": "inline", "labels": map[string]any{"n": fmt.Sprint(i)}})
		}
	},
}

// harmless are the faults that the import mends.
var harmless = []string{"dangling", "dangling patch", "dangling dependency", "Helm of an OCI URL"}

func (f *referenceFleet) each(table string, do func(map[string]any)) {
	for _, doc := range f.tables[table] {
		do(doc)
	}
}

// patch sets a value of a component that a cluster has.
func (f *referenceFleet) patch(path string, value any) {
	c := f.pick("clusters")
	id := entriesOf(c, "platform_components")[0]["id"].(string)
	c["patches"].(map[string]any)[id] = map[string]any{path: value}
}

// randomReference writes a database of the reference that has some of the faults.
func randomReference(t *testing.T, seed uint64) (path string, faults []string) {
	t.Helper()
	f := &referenceFleet{rand.New(rand.NewPCG(seed, 0)), map[string][]map[string]any{}}
	for i := range 4 {
		f.tables["components"] = append(f.tables["components"], map[string]any{
			"_id": fmt.Sprintf("component-%d", i), "component_path": "podinfo", "component_version": "6.9.0",
			"cluster_env_enabled": false, "oci_url": "https://charts.example.com", "oci_tag": "latest", "depends_on": []any{},
		})
		f.tables["namespaces"] = append(f.tables["namespaces"], map[string]any{"_id": fmt.Sprintf("namespace-%d", i), "labels": map[string]any{"team": "a"}, "annotations": map[string]any{}})
		f.tables["rolebindings"] = append(f.tables["rolebindings"], map[string]any{
			"_id": fmt.Sprintf("binding-%d", i), "role": "view",
			"subjects": []any{map[string]any{"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}},
		})
	}
	for i := range 5 {
		c := map[string]any{
			"_id": fmt.Sprintf("cluster-%d", i), "cluster_name": fmt.Sprintf("cluster-%d", i), "cluster_dns": fmt.Sprintf("cluster-%d.example.com", i),
			"environment": "dev", "node_count": nil, "patches": map[string]any{},
		}
		for n := range 1 + f.IntN(4) {
			add(c, "platform_components", map[string]any{"id": fmt.Sprintf("component-%d", n), "enabled": true, "oci_tag": nil, "component_path": nil})
			add(c, "namespaces", map[string]any{"id": fmt.Sprintf("namespace-%d", n)})
			add(c, "rolebindings", map[string]any{"id": fmt.Sprintf("binding-%d", n)})
			c["patches"].(map[string]any)[fmt.Sprintf("component-%d", n)] = map[string]any{"replicaCount": "3"}
		}
		f.tables["clusters"] = append(f.tables["clusters"], c)
	}
	names := make([]string, 0, len(referenceFaults))
	for name := range referenceFaults {
		names = append(names, name)
	}
	slices.Sort(names)
	f.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if seed%3 == 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(harmless, name) })
	}
	faults = names[:min(len(names), 2+f.IntN(8))]
	for _, name := range faults {
		referenceFaults[name](f)
	}
	rows := map[string][]string{}
	for table, docs := range f.tables {
		for _, doc := range docs {
			text, err := json.Marshal(doc)
			require.NoError(t, err)
			rows[table] = append(rows[table], string(text))
		}
	}
	return writeReferenceOf(t, rows), faults
}

// document reads a document of an export, without the comments.
func document(t *testing.T, path string) (doc map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &doc), "%s", text)
	return doc
}

// TestImportOfRandomDatabases: a database is imported whole, or not at all and with every problem named; the export has every document,
// with each problem beside its line, and without one it is what the import writes.
func TestImportOfRandomDatabases(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			from, faults := randomReference(t, seed)
			before := sum(t, from)
			dir, url := filepath.Join(t.TempDir(), "files"), "sqlite://"+filepath.Join(t.TempDir(), "fleet.db")
			code, stdout, stderr := invoke(t, "import", "--from", from, "--export-to", dir)
			require.Zero(t, code, stderr)
			require.Equal(t, before, sum(t, from))
			documents, marks := 0, 0
			require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				documents++
				marks += strings.Count(string(text), strings.TrimSpace(problemMark))
				require.NotEmpty(t, document(t, path)["kind"])
				return err
			}))
			want := 17 // and the namespaces of clusters
			if slices.Contains(faults, "inline namespaces") {
				want++
			}
			require.Equal(t, want, documents, "%q", faults)

			importCode, _, importErr := invoke(t, "import", "--from", from, "--database-url", url)
			validateCode, _, validateErr := invoke(t, "validate", "-f", dir)
			if importCode == 0 {
				require.Zero(t, marks, "%q: %s", faults, stdout)
				require.Zero(t, validateCode, "of %q: %s", faults, validateErr)
				p := start(t, "DATABASE_URL="+url, "API_MODE=crud")
				require.Zero(t, frs.Run(t.Context(), []string{"flux-resourceset-cli", "diff", "--api-url", p.Base, "--file", dir}, frs.Env{
					Stdin: strings.NewReader(""), Stdout: t.Output(), Stderr: t.Output(), Version: version,
					Getenv: func(name string) string {
						return map[string]string{"FLUX_API_TOKEN": writeToken, "FLUX_RESOURCESET_CONFIG": os.DevNull, "XDG_STATE_HOME": os.DevNull}[name]
					},
				}))
				return
			}
			require.NotZero(t, marks, "%q: %s", faults, importErr)
			require.NotZero(t, validateCode, "of %q: %s", faults, importErr)
			require.Contains(t, importErr, "--export-to DIR")
			require.NoFileExists(t, strings.TrimPrefix(url, "sqlite://"))
		})
	}
}
