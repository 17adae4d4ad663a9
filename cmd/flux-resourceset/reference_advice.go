package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gosimple/slug"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// advice is a flag that resolves a problem, and its effect.
type advice struct {
	flag   []string
	effect string
}

func (a *adoption) advise(effect string, flag ...string) {
	if !slices.ContainsFunc(a.advice, func(known advice) bool { return slices.Equal(known.flag, flag) }) {
		a.advice = append(a.advice, advice{flag, effect})
	}
}

func (a *adoption) adviseDuplicates(found int) {
	if found > 0 && !a.dropDuplicates {
		a.advise("keeps the first of duplicate entries", "--drop-duplicates")
	}
}

// err returns the report of the problems as an error; nil if there are none.
func (a *adoption) err(path string) error {
	if len(a.problems) == 0 {
		return nil
	}
	var report strings.Builder
	if err := a.report(&report); err != nil {
		return err
	}
	return fmt.Errorf("%s cannot be imported: it has problems, and nothing was written:\n%s", path, strings.TrimSuffix(report.String(), "\n"))
}

func (a *adoption) adviseDrop(kind fleet.Kind, id string) {
	a.advise("leaves it out; clusters that have it lose it", "--drop", name(kind, id))
}

// report writes the problems, and the flags that resolve them, quoted for a shell.
func (a *adoption) report(w io.Writer) error {
	for _, p := range a.problems {
		at := strings.TrimSpace(p.Pointer)
		if at != "" {
			at += ": "
		}
		if _, err := fmt.Fprintf(w, "  %s%s\n", at, p.Detail); err != nil {
			return err
		}
	}
	if len(a.advice) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "these flags resolve problems; choose other values where you know better:")
	for _, line := range a.advice {
		words := make([]string, len(line.flag))
		for i, word := range line.flag {
			words[i] = shellWord(word)
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "  %s  # %s\n", strings.Join(words, " "), line.effect)
		}
	}
	return err
}

// shellWord quotes a word if a shell would change it.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_=/.,:+@%", r))
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// adviser proposes flags for problems.
type adviser struct {
	*adoption
	rules    fleet.Rules
	taken    map[string]bool         // names already proposed for --rename
	leftOver map[string]map[int]bool // indexes of entries to remove, by document and list
	lists    map[string]func(without map[int]bool)
}

// adviseOn proposes flags for the problems. It decides by the place of a problem and the value there, never by its text.
func (a *adoption) adviseOn(rules fleet.Rules) error {
	docs := map[string]*adopted{}
	for _, kind := range referenceKinds {
		for _, d := range a.docs[kind] {
			docs[at(kind, d.id)] = d
		}
	}
	ad := &adviser{adoption: a, rules: rules, taken: map[string]bool{}, leftOver: map[string]map[int]bool{}, lists: map[string]func(map[int]bool){}}
	for _, p := range a.problems {
		var d *adopted
		for cut := range len(p.Pointer) { // ids may contain the separator
			if known := docs[p.Pointer[:cut+1]]; known != nil {
				d = known
			}
		}
		if d == nil {
			continue
		}
		if err := d.parse(); err != nil {
			return err
		}
		ad.problem(d, strings.TrimPrefix(p.Pointer, at(d.kind, d.id)))
	}
	for _, key := range slices.Sorted(maps.Keys(ad.lists)) {
		ad.lists[key](ad.leftOver[key])
	}
	return nil
}

// parse restores the object of a document that the seed has consumed.
func (d *adopted) parse() (err error) {
	if d.obj == nil {
		d.obj, err = fleet.ParseObject(d.text)
	}
	return err
}

// problem proposes a flag for one problem at a JSON pointer of a document.
func (ad *adviser) problem(d *adopted, pointer string) {
	steps := strings.Split(pointer, "/")
	value, exists := ad.lookup(d, pointer)
	text, _ := value.(string)
	field := ""
	if len(steps) > 1 {
		field = steps[1]
	}
	kind := d.kind
	drop := func() { ad.adviseDrop(kind, d.id) }
	set := func(to, effect string) { ad.advise(effect, "--set", name(kind, d.id)+pointer+"="+to) }
	switch {
	case pointer == "/id":
		ad.proposeID(d)
	case kind == fleet.KindCluster && pointer == "/environment":
		to := "dev"
		if len(ad.rules.Environments) > 0 {
			to = ad.rules.Environments[0]
		}
		ad.advise("or add it to ENVIRONMENTS", "--environment", text+"="+to)
	case kind == fleet.KindCluster && pointer == "/cluster_dns":
		ad.proposeDNS(d, text, drop, set)
	case kind == fleet.KindCluster && pointer == "/cluster_name":
		cleaned := []rune(strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, text)))
		cleaned = cleaned[:min(len(cleaned), 63)]
		to := strings.TrimSpace(string(cleaned))
		if slug.Make(to) == "" {
			to = ""
		}
		set(to, "templates that use cluster.name name objects after it")
	case kind == fleet.KindNamespace && pointer == "/deletion_policy":
		ad.advise("Flux keeps it when it is removed from a cluster", "--orphan", d.id)
	case kind == fleet.KindComponent && pointer == "/component_path" && text == "":
		set(d.id, "the path of the chart or artifact")
	case kind == fleet.KindComponent && pointer == "/oci_url":
		if to := cleanURL(text); to != "" && to != text {
			set(to, "without the parts that Flux does not accept in a URL")
			return
		}
		drop()
	case kind == fleet.KindComponent && pointer == "/type":
		ad.advise("how clusters deploy it", "--type", d.id+"=helm")
	case pointer == "/depends_on":
		set("[]", "ends the cycle of dependencies")
	case field == "depends_on" && !ad.known[fleet.KindComponent][text] || field == "patches" && len(steps) > 2 && ad.helm[steps[2]]:
		// already covered by --drop-dangling and --type
	case field == "depends_on" || field == "subjects" && len(steps) > 2:
		ad.entry(d, steps, value)
	case field == "role" || field == "subjects" || field == "_id" || pointer == "":
		drop()
	case slices.Contains([]string{"platform_components", "namespaces", "rolebindings"}, field) && len(steps) < 5:
		if _, entry := ad.lookup(d, strings.Join(steps[:min(len(steps), 3)], "/")); len(steps) == 2 || !entry {
			drop()
		} else if len(steps) == 4 && steps[3] != "id" {
			ad.removal(d, steps, exists)
		}
	default:
		ad.removal(d, steps, exists)
	}
}

// removal proposes to leave a value out.
func (ad *adviser) removal(d *adopted, steps []string, exists bool) {
	if !exists {
		return
	}
	if list, ok := referenceLists[steps[1]]; ok && d.kind == fleet.KindCluster && list != "" { // an entry's index may change, its id does not
		entry, _ := ad.lookup(d, strings.Join(steps[:3], "/"))
		if entry, _ := entry.(map[string]any); entry != nil {
			if id, _ := entry["id"].(string); id != "" {
				steps = slices.Clone(steps)
				steps[2] = strings.TrimPrefix(fleet.Pointer(id), "/")
			}
		}
	}
	ad.advise("leaves the value out", "--set", name(d.kind, d.id)+strings.Join(steps, "/")+"=")
}

// entry handles a problem of an entry in a list without ids: depends_on, subjects.
func (ad *adviser) entry(d *adopted, steps []string, value any) {
	last := steps[len(steps)-1]
	text, _ := value.(string)
	if (last == "namespace" || last == "apiGroup") && text != "" {
		ad.removal(d, steps, true)
		return
	}
	for _, kind := range []string{"User", "Group", "ServiceAccount"} {
		if last == "kind" && text != kind && strings.EqualFold(text, kind) {
			ad.advise("as Kubernetes spells it", "--set", name(d.kind, d.id)+strings.Join(steps, "/")+"="+kind)
			return
		}
	}
	n, err := strconv.Atoi(steps[2])
	list, ok := d.obj[steps[1]].([]any)
	if err != nil || !ok {
		return
	}
	key := name(d.kind, d.id) + "/" + steps[1]
	if ad.leftOver[key] == nil {
		ad.leftOver[key] = map[int]bool{}
	}
	ad.leftOver[key][n] = true
	ad.lists[key] = func(without map[int]bool) {
		rest := []any{}
		for i, item := range list {
			if !without[i] {
				rest = append(rest, item)
			}
		}
		to, err := json.Marshal(rest)
		if err == nil {
			ad.advise("leaves out the invalid entries", "--set", key+"="+string(to))
		}
	}
}

// proposeID proposes an id equal to the name that Flux derives from the current one for its objects.
func (ad *adviser) proposeID(d *adopted) {
	limit := 63
	switch d.kind { //nolint:exhaustive // the other kinds have the usual limit
	case fleet.KindComponent:
		limit = 53
	case fleet.KindRoleBinding:
		limit = 253
	}
	base := strings.Trim(strings.ReplaceAll(slug.Make(d.id), "_", "-"), "-")
	effect := "Flux makes objects of the new name, and deletes those of the old one"
	switch {
	case base == "":
		base = referenceNames[d.kind]
	case d.kind == fleet.KindRoleBinding && base == d.id: // reserved by Kubernetes or Flux
		base = "fleet-" + base
	case d.kind == fleet.KindCluster:
		effect = "clusters poll by their DNS names, which stay"
	case d.kind == fleet.KindComponent:
		effect = "the form that its id has in the names of objects; release_name and target_namespace stay the same unless they are set"
	}
	for n := 1; ; n++ {
		suffix := ""
		if n > 1 {
			suffix = "-" + strconv.Itoa(n)
		}
		id := strings.TrimRight(base[:min(len(base), limit-len(suffix))], "-") + suffix
		if id == d.id {
			return // the id is valid: the other document has to be renamed
		}
		if proposed := name(d.kind, id); !ad.taken[proposed] && ad.byName[d.kind][id] == nil {
			ad.taken[proposed] = true
			ad.advise(effect, "--rename", name(d.kind, d.id)+"="+id)
			return
		}
	}
}

// proposeDNS handles a DNS name that is invalid, or that another cluster has.
func (ad *adviser) proposeDNS(d *adopted, text string, drop func(), set func(to, effect string)) {
	for _, other := range ad.docs[fleet.KindCluster] {
		var has struct {
			DNS any `json:"cluster_dns"`
		}
		if json.Unmarshal(other.text, &has) != nil {
			continue
		}
		if dns, _ := has.DNS.(string); other != d && strings.EqualFold(dns, text) {
			ad.advise(fmt.Sprintf("cluster %q has the same DNS name: leave out the one that is not in use", other.id), "--drop", name(d.kind, d.id))
			return
		}
	}
	var labels []string
	for label := range strings.SplitSeq(strings.ToLower(text), ".") {
		if label = strings.Trim(strings.ReplaceAll(slug.Make(label), "_", "-"), "-"); label != "" {
			labels = append(labels, label)
		}
	}
	to := strings.Join(labels, ".")
	if to == "" || to == text {
		drop()
		return
	}
	set(to, "the cluster has to poll by this name, then")
}

// cleanURL returns a URL without credentials, query and fragment; "" if Flux does not accept the URL.
func cleanURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"oci", "https", "http"}, u.Scheme) {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
