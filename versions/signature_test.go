package versions

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

// signer has a key of one of the kinds.
type signer struct {
	key     crypto.Signer
	prehash bool // of Ed25519
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &signer{key: key}
}

// public returns the public key in PEM.
func (s *signer) public(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func (s *signer) sign(t *testing.T, text []byte) []byte {
	t.Helper()
	sum, long := sha256.Sum256(text), sha512.Sum512(text)
	signed, hash := sum[:], crypto.SHA256
	if _, edwards := s.key.(ed25519.PrivateKey); edwards {
		if signed, hash = text, crypto.Hash(0); s.prehash {
			signed, hash = long[:], crypto.SHA512
		}
	}
	signature, err := s.key.Sign(rand.Reader, signed, hash)
	require.NoError(t, err)
	return signature
}

// signTag signs a digest as cosign 2 does.
func (s *server) signTag(t *testing.T, digest, signed string, signers ...*signer) {
	t.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, one := range signers {
		text := []byte(`{"critical":{"identity":{"docker-reference":"x"},"image":{"docker-manifest-digest":"` + signed + `"},"type":"cosign container image signature"},"optional":null}`)
		var err error
		img, err = mutate.Append(img, mutate.Addendum{
			Layer:       static.NewLayer(text, "application/vnd.dev.cosign.simplesigning.v1+json"),
			Annotations: map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(one.sign(t, text))},
		})
		require.NoError(t, err)
	}
	s.pushImage(t, "fleet:"+strings.Replace(digest, ":", "-", 1)+".sig", img)
}

// bundleOf makes a bundle as cosign 3 does.
func bundleOf(t *testing.T, one *signer, signed, predicate string) []byte {
	t.Helper()
	statement := []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + strings.TrimPrefix(signed, "sha256:") + `"}}],"predicateType":"` + predicate + `"}`)
	text := fmt.Sprintf("DSSEv1 28 application/vnd.in-toto+json %d %s", len(statement), statement)
	bundle, err := json.Marshal(map[string]any{
		"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": map[string]any{"publicKey": map[string]string{"hint": "x"}},
		"dsseEnvelope": map[string]any{"payload": statement, "payloadType": "application/vnd.in-toto+json", "signatures": []any{map[string]any{"sig": one.sign(t, []byte(text))}}},
	})
	require.NoError(t, err)
	return bundle
}

// referrer is a manifest that refers to another one, with a type, which the library's manifests do not have.
type referrer struct{ v1.Image }

func (r referrer) RawManifest() ([]byte, error) {
	raw, err := r.Image.RawManifest()
	if err != nil {
		return nil, err
	}
	return append(raw[:len(raw)-1], `,"artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json"}`...), nil
}

func (r referrer) Digest() (v1.Hash, error) {
	raw, err := r.RawManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	sum := sha256.Sum256(raw)
	return v1.NewHash(fmt.Sprintf("sha256:%x", sum))
}

func (r referrer) Size() (int64, error) {
	raw, err := r.RawManifest()
	return int64(len(raw)), err
}

// signBundle attaches a bundle to a digest: a manifest that refers to it, and without the API of referrers an index with the tag of the digest.
func (s *server) signBundle(t *testing.T, digest string, bundle []byte, index bool) {
	t.Helper()
	subject, err := v1.NewHash(digest)
	require.NoError(t, err)
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.oci.empty.v1+json")
	img, err = mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(bundle, "application/vnd.dev.sigstore.bundle.v0.3+json")})
	require.NoError(t, err)
	img = mutate.Subject(img, v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: subject}).(v1.Image) //nolint:forcetypeassert // it returns what it receives
	one := referrer{img}
	hash, err := one.Digest()
	require.NoError(t, err)
	s.pushImage(t, "fleet@"+hash.String(), one)
	if !index {
		return
	}
	text := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":1,"artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json"}]}`, ociIndex, ociManifest, hash)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/v2/fleet/manifests/"+strings.Replace(digest, ":", "-", 1), strings.NewReader(text))
	require.NoError(t, err)
	req.Header.Set("Content-Type", ociIndex)
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)
}

// newReferrersRegistry is a registry with the API of referrers.
func newReferrersRegistry(t *testing.T) *server {
	t.Helper()
	return newServer(t, registry.New(registry.Logger(quiet), registry.WithReferrersSupport(true)).ServeHTTP)
}

// TestSignatures: an artifact with a signature of its digest by one of the keys is accepted, in each form and with each kind of key.
func TestSignatures(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	elliptic := newSigner(t)
	for name, one := range map[string]*signer{"ECDSA": elliptic, "RSA": {key: private}, "Ed25519": {key: edwards}, "Ed25519ph": {key: edwards, prehash: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, api := newRegistry(t), newReferrersRegistry(t)
			forms := map[string]struct {
				*server
				sign func(digest string)
			}{
				"tag":       {r, func(digest string) { r.signTag(t, digest, digest, newSigner(t), one) }},
				"index":     {r, func(digest string) { r.signBundle(t, digest, bundleOf(t, one, digest, signPredicate), true) }},
				"referrers": {api, func(digest string) { api.signBundle(t, digest, bundleOf(t, one, digest, signPredicate), false) }},
			}
			for form, test := range forms {
				s := newScanner(t, []*server{test.server})
				digest := test.pushArchive(t, "fleet:prod", archiveOf(t, fileEntry(form, form)))
				ref := test.artifact(ArtifactRef{Tag: "prod", Keys: []string{newSigner(t).public(t), one.public(t)}})
				_, err := pull(t, s, ref)
				requireClass(t, err, Unverified, "is not signed")
				test.sign(digest)
				got, err := pull(t, s, ref)
				require.NoError(t, err, form)
				require.Equal(t, digest, got.Digest)
				require.Equal(t, []string{form}, paths(got.Files))
			}
		})
	}
}

// TestSignaturesRefused: what is no signature of the digest by one of the keys does not count, and the archive is not even downloaded.
func TestSignaturesRefused(t *testing.T) {
	t.Parallel()
	one := newSigner(t)
	keys := []string{one.public(t)}
	other := "sha256:" + strings.Repeat("0", 64)
	for name, test := range map[string]struct {
		sign func(r *server, digest string)
		text string
	}{
		"unsigned":       {func(*server, string) {}, "is not signed"},
		"wrong key":      {func(r *server, digest string) { r.signTag(t, digest, digest, newSigner(t)) }, "no signature of the artifact is by one of the keys"},
		"another digest": {func(r *server, digest string) { r.signTag(t, digest, other, one) }, "that of another artifact"},
		"wrong key of a bundle": {func(r *server, digest string) {
			r.signBundle(t, digest, bundleOf(t, newSigner(t), digest, signPredicate), false)
		}, "is by one of the keys"},
		"bundle, another digest": {func(r *server, digest string) { r.signBundle(t, digest, bundleOf(t, one, other, signPredicate), false) }, "that of another artifact"},
		"bundle of parts": {func(r *server, digest string) {
			r.signBundle(t, digest, bundleOf(t, one, digest, "https://spdx.dev/Document"), false)
		}, "is by one of the keys"},
		"no bundle":               {func(r *server, digest string) { r.signBundle(t, digest, []byte("x"), false) }, "is by one of the keys"},
		"a text without a digest": {func(r *server, digest string) { r.signTag(t, digest, "", one) }, "that of another artifact"},
		"many signatures": {func(r *server, digest string) {
			signers := make([]*signer, maxSignatures+1)
			for i := range signers {
				signers[i] = newSigner(t)
			}
			signers[maxSignatures] = one
			r.signTag(t, digest, digest, signers...)
		}, "is by one of the keys"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReferrersRegistry(t)
			digest := r.pushArchive(t, "fleet:prod", archiveOf(t, fileEntry("a", name)))
			layer := static.NewLayer(archiveOf(t, fileEntry("a", name)), fluxArchive)
			hash, err := layer.Digest()
			require.NoError(t, err)
			test.sign(r, digest)
			before := r.count("/blobs/" + hash.String())
			got, err := pull(t, newScanner(t, []*server{r}), r.artifact(ArtifactRef{Tag: "prod", Keys: keys}))
			require.Empty(t, got)
			requireClass(t, err, Unverified, test.text)
			require.Equal(t, before, r.count("/blobs/"+hash.String()))
		})
	}
}

// TestSignatureSwapped: a signature whose content is not that of its digest is refused.
func TestSignatureSwapped(t *testing.T) {
	t.Parallel()
	one := newSigner(t)
	var swap string
	r := newRegistry(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if swap != "" && q.Method == http.MethodGet && strings.Contains(q.URL.Path, swap) {
				_, _ = w.Write([]byte("x"))
				return
			}
			next.ServeHTTP(w, q)
		})
	})
	digest := r.pushArchive(t, "fleet:prod", archiveOf(t, fileEntry("a", "b")))
	r.signTag(t, digest, digest, one)
	ref := r.artifact(ArtifactRef{Tag: "prod", Keys: []string{one.public(t)}})
	s := newScanner(t, []*server{r})
	sig, err := name.ParseReference(r.host() + "/fleet:" + strings.Replace(digest, ":", "-", 1) + ".sig")
	require.NoError(t, err)
	img, err := remote.Image(sig, remote.WithTransport(r.Client().Transport))
	require.NoError(t, err)
	layers, err := img.Layers()
	require.NoError(t, err)
	hash, err := layers[0].Digest()
	require.NoError(t, err)
	_, err = pull(t, s, ref)
	require.NoError(t, err)
	swap = hash.String()
	_, err = pull(t, s, ref)
	requireClass(t, err, Invalid, "is not that of its content")
	swap = ".sig"
	_, err = pull(t, s, ref)
	requireClass(t, err, Invalid, "is not valid JSON")
}

// TestKeys: keys that cannot verify are refused, before a request.
func TestKeys(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	good := newSigner(t).public(t)
	for text, key := range map[string]string{
		"key 2 is not one public key": "", "key 2 is an RSA key of less": (&signer{key: weak}).public(t), "key 2 is of another curve": (&signer{key: large}).public(t),
		"key 2 is not a valid": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
	} {
		_, err := parseKeys([]string{good, key})
		require.ErrorContains(t, err, text)
	}
	for _, key := range []string{good + good, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", good + "x", "\x00"} {
		_, err := parseKeys([]string{key})
		require.ErrorContains(t, err, "key 1 is not one public key")
	}
}
