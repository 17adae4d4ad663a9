package versions

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/internal/publickey"
)

// Names of cosign, for its two forms of signatures. Until version 2 a signature is a layer of the manifest with the tag sha256-DIGEST.sig: an
// annotation of a text of the digest. Since version 3 it is a bundle, a manifest that refers to the digest: an envelope (DSSE) around a
// statement (in-toto) of the digest.
const (
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	signatureType       = "cosign container image signature"
	bundlePrefix        = "application/vnd.dev.sigstore.bundle"
	emptyConfig         = "application/vnd.oci.empty.v1+json" // some registries list the type of the configuration
	statementType       = "application/vnd.in-toto+json"
	signPredicate       = "https://sigstore.dev/cosign/sign/v1"
)

// maxSignatures is the number of signatures of an artifact that are tried.
const maxSignatures = 20

// parseKeys returns public keys from PEM.
func parseKeys(texts []string) ([]crypto.PublicKey, error) {
	var keys []crypto.PublicKey
	for i, text := range texts {
		key, err := publickey.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("key %d %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// signedBy reports whether one of the keys signed a text.
func signedBy(keys []crypto.PublicKey, text, signature []byte) bool {
	sum, long := sha256.Sum256(text), sha512.Sum512(text)
	for _, key := range keys {
		ok := false
		switch k := key.(type) {
		case *ecdsa.PublicKey:
			ok = ecdsa.VerifyASN1(k, sum[:], signature)
		case *rsa.PublicKey:
			ok = rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
		case ed25519.PublicKey:
			ok = ed25519.Verify(k, text, signature) || ed25519.VerifyWithOptions(k, long[:], signature, &ed25519.Options{Hash: crypto.SHA512}) == nil
		}
		if ok {
			return true
		}
	}
	return false
}

// signatures is the result of trying the signatures of an artifact.
type signatures struct {
	digest string
	keys   []crypto.PublicKey
	found  int  // signatures, valid or not
	other  bool // one is by a key, and of another digest
}

// verify returns an error unless one of the keys signed the digest of an artifact.
func (r *repository) verify(ctx context.Context, digest string, keys []crypto.PublicKey) error {
	s := &signatures{digest: digest, keys: keys}
	for _, form := range []func(context.Context, *signatures) (bool, error){r.verifyTag, r.verifyBundles} {
		verified, err := form(ctx, s)
		if err != nil || verified {
			return err
		}
	}
	switch {
	case s.other:
		return newError(Unverified, r.host, "the signature of the artifact is that of another artifact: sign the digest %s", digest)
	case s.found > 0:
		return newError(Unverified, r.host, "no signature of the artifact is by one of the keys")
	}
	return newError(Unverified, r.host, "the artifact is not signed: there is no signature of cosign for the digest %s", digest)
}

// tooMany reports whether no more signatures are tried.
func (s *signatures) tooMany() bool {
	s.found++
	return s.found > maxSignatures
}

// verifyTag tries the signatures of the manifest with the tag of a digest.
func (r *repository) verifyTag(ctx context.Context, s *signatures) (bool, error) {
	m, err := r.optionalManifest(ctx, "manifests/"+strings.Replace(s.digest, ":", "-", 1)+".sig", manifestTypes)
	if err != nil {
		return false, err
	}
	for _, layer := range m.Layers {
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[signatureAnnotation])
		if s.tooMany() {
			break
		}
		if err != nil || len(signature) == 0 || !validDigest(layer.Digest) {
			continue
		}
		text, _, err := r.content(ctx, "blobs/"+layer.Digest, "", layer.Digest)
		if err != nil {
			return false, err
		}
		if signedBy(s.keys, text, signature) {
			if signedDigest(text) == s.digest {
				return true, nil
			}
			s.other = true
		}
	}
	return false, nil
}

// signedDigest returns the digest in a text of cosign; empty: it is another text.
func signedDigest(text []byte) string {
	var payload struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	if json.Unmarshal(text, &payload) != nil || payload.Critical.Type != signatureType {
		return ""
	}
	return payload.Critical.Image.Digest
}

// verifyBundles tries the bundles that refer to a digest: those that the registry lists, else those in the index with the tag of the digest.
func (r *repository) verifyBundles(ctx context.Context, s *signatures) (bool, error) {
	list, err := r.optionalManifest(ctx, "referrers/"+s.digest, ociIndex)
	if err != nil || len(list.Manifests) == 0 {
		if failed := scanError(r.host, err); err != nil && failed.Class != Invalid { // a registry may not know the request
			return false, err
		}
		if list, err = r.optionalManifest(ctx, "manifests/"+strings.Replace(s.digest, ":", "-", 1), ociIndex); err != nil {
			return false, err
		}
	}
	for _, d := range list.Manifests {
		if d.ArtifactType != "" && d.ArtifactType != emptyConfig && !strings.HasPrefix(d.ArtifactType, bundlePrefix) || !validDigest(d.Digest) {
			continue
		}
		if s.tooMany() {
			break
		}
		m, err := r.artifactManifest(ctx, d.Digest)
		if err != nil {
			return false, err
		}
		if len(m.Layers) != 1 || !strings.HasPrefix(m.Layers[0].MediaType, bundlePrefix) || !validDigest(m.Layers[0].Digest) {
			continue
		}
		text, _, err := r.content(ctx, "blobs/"+m.Layers[0].Digest, "", m.Layers[0].Digest)
		if err != nil {
			return false, err
		}
		if s.verifyBundle(text) {
			return true, nil
		}
	}
	return false, nil
}

// verifyBundle verifies the signature in a bundle.
func (s *signatures) verifyBundle(text []byte) bool {
	var bundle struct {
		Envelope struct {
			Payload     []byte `json:"payload"`
			PayloadType string `json:"payloadType"`
			Signatures  []struct {
				Signature []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	e := &bundle.Envelope
	if json.Unmarshal(text, &bundle) != nil || e.PayloadType != statementType || len(e.Signatures) != 1 {
		return false
	}
	signed := fmt.Sprintf("DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
	if !signedBy(s.keys, []byte(signed), e.Signatures[0].Signature) {
		return false
	}
	var statement struct {
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if json.Unmarshal(e.Payload, &statement) != nil || statement.PredicateType != signPredicate {
		return false // such as a list of the parts of an image, which is no approval of it
	}
	for _, subject := range statement.Subject {
		if "sha256:"+subject.Digest["sha256"] == s.digest {
			return true
		}
	}
	s.other = true
	return false
}

// optionalManifest reads a manifest that may not exist.
func (r *repository) optionalManifest(ctx context.Context, path, accept string) (m artifactManifest, err error) {
	text, _, err := r.content(ctx, path, accept, "")
	if err != nil {
		if scanError(r.host, err).Class == NotFound {
			err = nil
		}
		return m, err
	}
	if json.Unmarshal(text, &m) != nil {
		return m, newError(Invalid, r.host, "a manifest of signatures is not valid JSON")
	}
	return m, nil
}
