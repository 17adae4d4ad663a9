package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

var versionsNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// imageDigest returns the n-th digest of tests.
func imageDigest(n int) string { return fmt.Sprintf("sha256:%064x", n) }

// seenVersions are known versions, first seen a year ago.
func seenVersions(versions ...string) (out []KnownVersion) {
	for _, v := range versions {
		out = append(out, KnownVersion{Version: v, FirstSeen: versionsNow.AddDate(-1, 0, 0)})
	}
	return out
}

// TestCandidate: the candidate of a version policy, and the reasons why others are not.
func TestCandidate(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for name, test := range map[string]struct {
		stored  string
		policy  string // fields besides the range, or all of them if it begins with {
		known   []KnownVersion
		want    string
		reasons []string // some reasons: VERSION WHY
		problem string
	}{
		"highest of the range":                  {stored: "17.0.0", known: seenVersions("17.1.0", "18.0.0", "17.2.0", "16.9.9"), want: "17.2.0", reasons: []string{"18.0.0 is not in the range ~17", "17.1.0 is older than the candidate", "16.9.9 is not in the range ~17"}},
		"nothing newer":                         {stored: "17.2.0", known: seenVersions("17.1.0", "17.2.0"), reasons: []string{"17.2.0 is the stored version", "17.1.0 is older than the stored version"}},
		"numbers are no text":                   {stored: "17.9.0", known: seenVersions("17.10.0", "17.9.0"), want: "17.10.0"},
		"1.10 and 1.9 have too few numbers":     {stored: "1.9.0", policy: `{"range":">=1"}`, known: seenVersions("1.10", "1.9"), reasons: []string{"1.10 is not a semantic version"}},
		"prefix v":                              {stored: "17.0.0", known: seenVersions("v17", "v17.1.0", "vv17.9.9"), want: "v17.1.0", reasons: []string{"v17 is not a semantic version", "vv17.9.9 is not a semantic version"}},
		"prefix v is no newer version":          {stored: "17.1.0", known: seenVersions("v17.1.0"), reasons: []string{"v17.1.0 is the stored version"}},
		"build metadata is no newer version":    {stored: "17.1.0", known: seenVersions("17.1.0+build9"), reasons: []string{"17.1.0+build9 has the precedence of the stored version"}},
		"highest build":                         {stored: "17.0.0", known: seenVersions("17.1.0+build9", "17.1.0+build10", "17.1.0+build2", "17.1.0"), want: "17.1.0+build10", reasons: []string{"17.1.0+build9 has the precedence of the candidate, and a lower build", "17.1.0+build2 has the precedence of the candidate, and a lower build", "17.1.0 has the precedence of the candidate, and a lower build"}},
		"builds of one version":                 {stored: "17.1.0+k3s1", known: seenVersions("v17.1.0+k3s1", "17.1.0+k3s2"), reasons: []string{"17.1.0+k3s2 has the precedence of the stored version", "v17.1.0+k3s1 is the stored version"}},
		"from build metadata":                   {stored: "17.1.0+build9", known: seenVersions("17.1.0", "17.1.0+build10", "17.1.1+build1"), want: "17.1.1+build1"},
		"date":                                  {stored: "17.0.0", policy: `{"range":">=17"}`, known: seenVersions("20260102", "2026.01.02"), reasons: []string{"20260102 is not a semantic version", "2026.01.02 is not a semantic version"}},
		"hash of digits":                        {stored: "17.0.0", policy: `{"range":">=17"}`, known: seenVersions("12345678", "1234567890123456789012345678901234567890"), reasons: []string{"12345678 is not a semantic version"}},
		"number above 64 bits":                  {stored: "17.0.0", policy: `{"range":">=17"}`, known: seenVersions("99999999999999999999.0.0"), reasons: []string{"99999999999999999999.0.0 is not a semantic version"}},
		"prerelease":                            {stored: "17.0.0", known: seenVersions("17.1.0-rc.1"), reasons: []string{"17.1.0-rc.1 is not in the range ~17"}},
		"prerelease that the range names":       {stored: "17.0.0", policy: `{"range":">=17.0.0-0 <18.0.0-0"}`, known: seenVersions("17.1.0-rc.1", "17.1.0-rc.10", "17.1.0-rc.9"), want: "17.1.0-rc.10"},
		"release over its prerelease":           {stored: "17.1.0-rc.1", policy: `{"range":">=17.0.0-0"}`, known: seenVersions("17.1.0", "17.1.0-rc.2"), want: "17.1.0"},
		"include":                               {stored: "17.0.0", policy: `"include":"^17\\.[0-9.]+$"`, known: seenVersions("v17.3.0", "17.2.0"), want: "17.2.0", reasons: []string{"v17.3.0 does not match include"}},
		"exclude":                               {stored: "17.0.0", policy: `"exclude":"^17\\.3"`, known: seenVersions("17.3.0", "17.2.0"), want: "17.2.0", reasons: []string{"17.3.0 matches exclude"}},
		"withdrawn":                             {stored: "17.0.0", known: []KnownVersion{{Version: "17.2.0", Withdrawn: true, FirstSeen: versionsNow}, {Version: "17.1.0", FirstSeen: versionsNow}}, want: "17.1.0", reasons: []string{"17.2.0 is no longer in the registry"}},
		"the stored one is withdrawn":           {stored: "17.2.0", known: []KnownVersion{{Version: "17.2.0", Withdrawn: true}, {Version: "17.1.0"}}},
		"latest":                                {stored: "latest", known: seenVersions("17.1.0"), problem: `the stored version "latest" is not a semantic version`, reasons: []string{`17.1.0 the stored version "latest" is not a semantic version`}},
		"stored is a range":                     {stored: "17.x", known: seenVersions("17.1.0"), problem: `the stored version "17.x" is not a semantic version`},
		"created in the future":                 {stored: "17.0.0", known: []KnownVersion{{Version: "17.1.0", CreatedAt: versionsNow.Add(day), FirstSeen: versionsNow}}, reasons: []string{"17.1.0 was created in the future, at 2026-01-03T03:04:05Z"}},
		"old enough":                            {stored: "17.0.0", policy: `"min_age":"48h"`, known: []KnownVersion{{Version: "17.1.0", CreatedAt: versionsNow.Add(-3 * day), FirstSeen: versionsNow}, {Version: "17.2.0", CreatedAt: versionsNow.Add(-day), FirstSeen: versionsNow}}, want: "17.1.0", reasons: []string{"17.2.0 is younger than 48h0m0s until 2026-01-03T03:04:05Z"}},
		"age since first seen":                  {stored: "17.0.0", policy: `"min_age":"48h"`, known: []KnownVersion{{Version: "17.1.0", FirstSeen: versionsNow.Add(-day)}}, reasons: []string{"17.1.0 is younger than 48h0m0s until 2026-01-03T03:04:05Z"}},
		"age not known":                         {stored: "17.0.0", policy: `"min_age":"48h"`, known: []KnownVersion{{Version: "17.1.0"}}, reasons: []string{"17.1.0 its age is not known"}},
		"seen by a clock that is a year ahead":  {stored: "17.0.0", policy: `"min_age":"48h"`, known: []KnownVersion{{Version: "17.1.0", FirstSeen: versionsNow.AddDate(1, 0, 0)}}, reasons: []string{"17.1.0 is younger than 48h0m0s until 2027-01-04T03:04:05Z"}},
		"suspended":                             {stored: "17.0.0", policy: `"suspended":true`, known: seenVersions("17.1.0"), problem: "the version policy is suspended"},
		"hostile text":                          {stored: "17.0.0", policy: `{"range":">=17"}`, known: seenVersions("18.0.0\n- evil: true", "18.0.0 ", "../../18.0.0", "18.0.0{tag}", "", strings.Repeat("9", 200), "18.0.0-"+strings.Repeat("a", 200), "\xff\xfe"), reasons: []string{"18.0.0{tag} is not a tag", "../../18.0.0 is not a tag", " is not a tag"}},
		"hostile digest":                        {stored: "17.0.0", known: []KnownVersion{{Version: "17.1.0", Digest: "sha256:x\n", FirstSeen: versionsNow}}, reasons: []string{"17.1.0 has a digest that is not sha256: and 64 hex digits"}},
		"versions of an image are other ones":   {stored: "17.0.0", known: []KnownVersion{{Image: "ghcr.io/acme/web", Version: "17.1.0"}}},
		"the same version in two forms":         {stored: "17.0.0", known: seenVersions("v17.1.0", "17.1.0"), want: "17.1.0"},
		"leading zeros are no semantic version": {stored: "17.0.0", known: seenVersions("17.01.0"), reasons: []string{"17.01.0 is not a semantic version"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := test.policy
			switch {
			case policy == "":
				policy = `{"range":"~17"}`
			case !strings.HasPrefix(policy, "{"):
				policy = `{"range":"~17",` + policy + `}`
			}
			w := newWorld(t)
			w.must(create(KindComponent, fmt.Sprintf(`{"id":"web","component_path":"web","oci_url":"https://charts.example.com","component_version":%q,"version_policies":{"catalog":%s}}`, test.stored, policy)))
			for range 5 {
				report := EvaluateVersions(w.state, "web", "catalog", test.known, versionsNow)
				got := ""
				if report.Chart.Candidate != nil {
					got = report.Chart.Candidate.Version
				}
				require.Equal(t, test.want, got, "%+v", report.Chart)
				require.Equal(t, test.problem, report.Chart.Problem)
				var reasons []string
				for _, r := range report.Chart.Reasons {
					reasons = append(reasons, r.Version+" "+r.Reason)
					require.Equal(t, got != "" && r.Version == got, r.Reason == "", "only the candidate has no reason: %+v", r)
				}
				require.Subset(t, reasons, test.reasons)
				rand.Shuffle(len(test.known), func(i, j int) { test.known[i], test.known[j] = test.known[j], test.known[i] })
			}
		})
	}
}

// TestImageCandidate: candidates of image policies, with the stored version read from what the policies write.
func TestImageCandidate(t *testing.T) {
	t.Parallel()
	const image = "ghcr.io/acme/web"
	seen := func(version string, digest int) KnownVersion {
		k := KnownVersion{Image: image, Version: version, FirstSeen: versionsNow.AddDate(-1, 0, 0)}
		if digest > 0 {
			k.Digest = imageDigest(digest)
		}
		return k
	}
	for name, test := range map[string]struct {
		track, writes, patches string
		known                  []KnownVersion
		want                   string // version, and @ with the number of the digest
		stored, problem        string
	}{
		"digest of a tag":            {`{"tag":"latest"}`, `{"image.tag":"{tag}@{digest}"}`, `{"image.tag":"latest@` + imageDigest(1) + `"}`, []KnownVersion{seen("latest", 2), seen("7.0.0", 3)}, "latest@2", "latest", ""},
		"same digest":                {`{"tag":"latest"}`, `{"image.tag":"{tag}@{digest}"}`, `{"image.tag":"latest@` + imageDigest(1) + `"}`, []KnownVersion{seen("latest", 1)}, "", "latest", ""},
		"no digest known":            {`{"tag":"latest"}`, `{"image.tag":"{tag}@{digest}"}`, `{}`, []KnownVersion{seen("latest", 0)}, "", "", ""},
		"first digest":               {`{"tag":"latest"}`, `{"image.digest":"{digest}"}`, `{}`, []KnownVersion{seen("latest", 1)}, "latest@1", "", ""},
		"alpine":                     {`{"range":">0.0.0-0","include":".*-alpine$"}`, `{"image.tag":"{tag}"}`, `{"image.tag":"7.0.5-alpine"}`, []KnownVersion{seen("7.0.6", 0), seen("7.0.12-alpine", 0), seen("7.0.9-alpine", 0)}, "7.0.12-alpine@0", "7.0.5-alpine", ""},
		"never lower":                {`{"range":">=1.0.0"}`, `{"image.tag":"{tag}"}`, `{"image.tag":"7.0.5"}`, []KnownVersion{seen("7.0.4", 0)}, "", "7.0.5", ""},
		"nothing stored":             {`{"range":">=1.0.0"}`, `{"image.tag":"{tag}"}`, `{}`, []KnownVersion{seen("7.0.4", 0)}, "7.0.4@0", "", ""},
		"digest not known":           {`{"range":">=1.0.0"}`, `{"image.tag":"{tag}@{digest}"}`, `{}`, []KnownVersion{seen("7.0.4", 0), seen("7.0.3", 3)}, "7.0.3@3", "", ""},
		"semver":                     {`{"range":">=1.0.0"}`, `{"image.tag":"{semver}-debian"}`, `{"image.tag":"7.0.3-debian"}`, []KnownVersion{seen("v7.0.4", 0)}, "v7.0.4@0", "7.0.3", ""},
		"whole reference":            {`{"range":">=1.0.0"}`, `{"image":"{image}:{tag}"}`, `{"image":"ghcr.io/acme/web:7.0.3"}`, []KnownVersion{seen("7.0.4", 0)}, "7.0.4@0", "7.0.3", ""},
		"two places agree":           {`{"range":">=1.0.0"}`, `{"a.tag":"{tag}","b.tag":"v{semver}"}`, `{"a.tag":"7.0.3","b.tag":"v7.0.3"}`, []KnownVersion{seen("7.0.4", 0)}, "7.0.4@0", "7.0.3", ""},
		"two places differ":          {`{"range":">=1.0.0"}`, `{"a.tag":"{tag}","b.tag":"{tag}"}`, `{"a.tag":"7.0.3","b.tag":"7.0.2"}`, []KnownVersion{seen("7.0.4", 0)}, "", "7.0.3", "which the policy does not write"},
		"a value that others set":    {`{"range":">=1.0.0"}`, `{"image.tag":"{tag}@{digest}"}`, `{"image.tag":"my-build"}`, []KnownVersion{seen("7.0.4", 4)}, "", "", "which the policy does not write"},
		"an image that others set":   {`{"range":">=1.0.0"}`, `{"image":"{image}:{tag}"}`, `{"image":"mirror.example.com/web:7.0.3"}`, []KnownVersion{seen("7.0.4", 0)}, "", "", "which the policy does not write"},
		"a number that others set":   {`{"range":">=1.0.0"}`, `{"image.tag":"{tag}"}`, `{"image.tag":7}`, []KnownVersion{seen("7.0.4", 0)}, "", "", "which the policy does not write"},
		"a tag that is not semantic": {`{"range":">=1.0.0"}`, `{"image.tag":"{tag}"}`, `{"image.tag":"latest"}`, []KnownVersion{seen("7.0.4", 0)}, "", "latest", "is not a semantic version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.must(create(KindComponent, fmt.Sprintf(`{"id":"web","component_path":"web","oci_url":"https://charts.example.com","patches":%s,
				"image_policies":[{"name":"web","image":%q,"track":%s,"writes":%s}]}`, test.patches, image, test.track, test.writes)))
			report := EvaluateVersions(w.state, "web", "catalog", test.known, versionsNow)
			require.Nil(t, report.Chart)
			got, e := "", report.Images[0]
			if k := e.Candidate; k != nil {
				n := 0
				if k.Digest != "" {
					_, err := fmt.Sscanf(k.Digest, "sha256:%x", &n)
					require.NoError(t, err)
				}
				got = fmt.Sprintf("%s@%d", k.Version, n)
			}
			require.Equal(t, test.want, got, "%+v", e)
			require.Equal(t, test.stored, e.Stored)
			require.Contains(t, e.Problem, test.problem)
		})
	}
}

// TestMovedTag: a tag of a range whose digest the registry has changed is shown, and nothing moves.
func TestMovedTag(t *testing.T) {
	t.Parallel()
	rule, _ := newVersionRule(api.ImageTrack{Range: "~17"}, "")
	e := rule.evaluate(storedVersion{version: "17.0.0", digest: imageDigest(1)}, []KnownVersion{{Version: "17.0.0", Digest: imageDigest(2)}}, &versionAutomation{}, versionsNow)
	require.Nil(t, e.Candidate)
	require.Contains(t, e.Warning, "the registry has another digest")
}

// TestCandidateProperties: whatever a registry answers, a candidate is newer, in the range, and not held; and it depends on the order of
// nothing.
func TestCandidateProperties(t *testing.T) {
	t.Parallel()
	number := rapid.IntRange(0, 3)
	version := rapid.Custom(func(t *rapid.T) string {
		text := fmt.Sprintf("%d.%d.%d", number.Draw(t, "major"), number.Draw(t, "minor"), number.Draw(t, "patch"))
		return rapid.SampledFrom([]string{"", "", "v"}).Draw(t, "prefix") + text + rapid.SampledFrom([]string{"", "", "", "-rc.1", "-alpine", "+b1", "-rc.2+b2"}).Draw(t, "suffix")
	})
	anything := rapid.OneOf(version, version, version, rapid.StringMatching(`[0-9v.]{0,12}`), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		ranges := []string{"~1", "^2", ">=0.0.0-0", "1.x || 3.x", ">1.1.0 <3", "*"}
		text := rapid.SampledFrom(ranges).Draw(t, "range")
		rule, problem := newVersionRule(api.ImageTrack{Range: text}, rapid.SampledFrom([]string{"", "48h"}).Draw(t, "min_age"))
		if problem != "" {
			t.Fatal(problem)
		}
		stored := storedVersion{version: anything.Draw(t, "stored")}
		held := &versionAutomation{}
		for _, v := range rapid.SliceOfN(version, 0, 5).Draw(t, "holds") {
			held.Holds = append(held.Holds, VersionHold{Version: v, By: "ann"})
		}
		var known []KnownVersion
		for _, v := range rapid.SliceOfN(anything, 0, 30).Draw(t, "known") {
			at := versionsNow.Add(time.Duration(rapid.IntRange(-100, 100).Draw(t, "age")) * time.Hour)
			known = append(known, KnownVersion{Version: v, CreatedAt: at, FirstSeen: versionsNow, Withdrawn: rapid.IntRange(0, 5).Draw(t, "withdrawn") == 0})
		}
		e := rule.evaluate(stored, known, held, versionsNow)
		shuffled := rapid.Permutation(known).Draw(t, "order")
		again := rule.evaluate(stored, shuffled, held, versionsNow)
		if len(e.Reasons) != len(known) {
			t.Fatalf("%d versions have %d reasons", len(known), len(e.Reasons))
		}
		if (e.Candidate == nil) != (again.Candidate == nil) || e.Candidate != nil && *e.Candidate != *again.Candidate {
			t.Fatalf("the order decides: %v, %v", e.Candidate, again.Candidate)
		}
		if e.Candidate == nil {
			return
		}
		is := semver.MustParse(e.Candidate.Version)
		from, err := semver.StrictNewVersion(strings.TrimPrefix(stored.version, "v"))
		constraint, _ := semver.NewConstraint(text)
		switch {
		case stored.version != "" && (err != nil || !is.GreaterThan(from)):
			t.Fatalf("%s is not newer than %s", is, stored.version)
		case !constraint.Check(is):
			t.Fatalf("%s is not in %s", is, text)
		case e.Candidate.Withdrawn, e.Candidate.CreatedAt.After(versionsNow.Add(-rule.minAge + maxAhead)):
			t.Fatalf("%+v is withdrawn or too young", e.Candidate)
		case slices.ContainsFunc(held.Holds, func(h VersionHold) bool { return semver.MustParse(h.Version).Equal(is) }):
			t.Fatalf("%s is held", is)
		}
	})
}

// TestManyVersions: a policy reads a limited number of versions.
func TestManyVersions(t *testing.T) {
	t.Parallel()
	var known []KnownVersion
	for i := range maxKnownVersions + 100 {
		known = append(known, KnownVersion{Version: fmt.Sprintf("17.0.%d", i)})
	}
	rule, _ := newVersionRule(api.ImageTrack{Range: "~17"}, "")
	e := rule.evaluate(storedVersion{version: "17.0.0"}, known, &versionAutomation{}, versionsNow)
	require.Len(t, e.Reasons, maxKnownVersions)
	require.Equal(t, fmt.Sprintf("17.0.%d", maxKnownVersions-1), e.Candidate.Version)
}

// BenchmarkEvaluateVersions evaluates a component with 100 known versions.
func BenchmarkEvaluateVersions(b *testing.B) {
	empty, err := NewState(testRules, Head{}, time.Time{}, nil)
	require.NoError(b, err)
	tx := empty.Begin()
	_, err = tx.Create(KindComponent, []byte(`{"id":"web","component_path":"web","oci_url":"https://charts.example.com","component_version":"17.0.0","version_policies":{"catalog":{"range":"~17"}}}`))
	require.NoError(b, err)
	res, err := tx.Finish(Commit{})
	require.NoError(b, err)
	var versions []string
	for i := range 100 {
		versions = append(versions, fmt.Sprintf("17.%d.0", i))
	}
	known := seenVersions(versions...)
	for b.Loop() {
		EvaluateVersions(res.State, "web", "catalog", known, versionsNow)
	}
}
