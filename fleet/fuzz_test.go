package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// FuzzSeed: any seed file is refused with a readable error, or creates a fleet that can answer every poll.
func FuzzSeed(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"clusters":[]}`, `{"clusters":[{"_id":"c","cluster_dns":"c.k","environment":"dev"}]}`,
		`{"namespaces":[{"id":"n"}],"clusters":[{"id":"c","cluster_dns":"c.k","environment":"dev","namespaces":[{"id":"n"}]}]}`,
		`{"components":[{"_id":"p","component_path":"p","oci_url":"oci://r/p","oci_tag":null}],"clusters":[{"id":"c","cluster_dns":"C.K","environment":"dev","platform_components":[{"id":"p","enabled":true}],"patches":{"p":{"A":"1"}}}]}`,
		`{"rolebindings":[{"id":"r","role":"view","subjects":[{"kind":"Group","name":"g"}]}]}`, `{"clusters":{}}`, `{"x":1}`, `[]`, `{"clusters":[null,1,{"id":1}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		seed, err := ParseSeed(body)
		w := newWorld(t)
		var res Result
		if err == nil {
			res, err = w.try(seed.Create)
			err = seed.Locate(err)
		}
		if err != nil {
			var domain *Error
			require.ErrorAs(t, err, &domain)
			require.NotEqual(t, CodeUnresolved, domain.Code)
			return
		}
		for _, doc := range res.State.All(KindCluster) {
			found, ok := res.State.ByDNS(doc.Cluster().ClusterDNS)
			require.True(t, ok)
			for _, r := range []Kind{KindComponent, KindNamespace, KindRoleBinding} {
				answer, err := res.State.Answer(found, r)
				require.NoError(t, err)
				text, err := answer.Body()
				require.NoError(t, err)
				var got struct{ Inputs []struct{ ID string } }
				require.NoError(t, json.Unmarshal(text, &got))
				require.Len(t, got.Inputs, assignedTo(doc, r))
			}
		}
	})
}

func assignedTo(doc *Document, r Kind) int {
	switch r {
	case KindComponent:
		return len(doc.Cluster().PlatformComponents)
	case KindNamespace:
		return len(doc.Cluster().Namespaces)
	case KindRoleBinding:
		return len(doc.Cluster().Rolebindings)
	default:
		return -1
	}
}

// FuzzSelector: any text is refused, or selects the same clusters after formatting and parsing.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{"", "a=b", "environment=dev,region in (eu,us)", "!x", "id notin (c1)", "a>1", "a==b,", "=", "a in ()", "environment", "\x00", "a=ü"} {
		f.Add(s)
	}
	clusters := []*api.Cluster{
		{ID: "c1", Environment: "dev", Labels: map[string]string{"a": "b", "region": "eu"}},
		{ID: "c2", Environment: "prod", Labels: map[string]string{"environment": "dev", "a": "2"}},
		{ID: "c3"},
	}
	f.Fuzz(func(t *testing.T, text string) {
		sel, err := ParseSelector(text)
		if err != nil {
			var domain *Error
			require.ErrorAs(t, err, &domain)
			require.Equal(t, CodeInvalid, domain.Code)
			return
		}
		again, err := ParseSelector(sel.selector.String())
		require.NoError(t, err, "%q", sel.selector.String())
		for _, c := range clusters {
			require.Equal(t, sel.Matches(c), again.Matches(c), "%q and %q on %s", text, sel.selector.String(), c.ID)
		}
	})
}

// FuzzMatchETag: no header causes a panic; a list matches if and only if one of its members does.
func FuzzMatchETag(f *testing.F) {
	const etag = `"7-0a1b2c3d"`
	for _, header := range []string{"", "*", etag, "W/" + etag, `"x", ` + etag, `,,` + etag, `"7-0a1b2c3"`, "w/" + etag, `7-0a1b2c3d`, "\x00"} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got := MatchETag(header, etag)
		require.Equal(t, got, MatchETag(header+`,"other"`, etag))
		require.True(t, MatchETag(header+", W/"+etag, etag))
		if !strings.Contains(header, strings.Trim(etag, `"`)) && !strings.Contains(header, "*") {
			require.False(t, got, "%q", header)
		}
	})
}

// FuzzSecret: LooksLikeSecret accepts the output of FormatSecret, and refuses it with any one character changed.
func FuzzSecret(f *testing.F) {
	f.Add(make([]byte, 32), 5, "x", "frs_")
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 40, "0", FormatSecret([32]byte{}))
	f.Fuzz(func(t *testing.T, seed []byte, at int, char, text string) {
		var random [32]byte
		copy(random[:], seed)
		secret := FormatSecret(random)
		require.True(t, LooksLikeSecret(secret))
		require.Len(t, secret, len(secretPrefix)+secretDigits+checksumDigits)
		i := int(uint(at) % uint(len(secret)))
		if changed := secret[:i] + char + secret[i+1:]; changed != secret && (len(char) == 1 || len(changed) != len(secret)) {
			require.False(t, LooksLikeSecret(changed), "%q was %q", changed, secret)
		}
		if LooksLikeSecret(text) {
			require.Len(t, text, len(secret))
		}
	})
}
