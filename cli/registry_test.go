package cli_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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
	"sigs.k8s.io/yaml"
)

// standIn is the variable with the name of a program that the test binary stands in for: flux and cosign, which pages run, and which take
// many minutes to build. They push what the programs push.
const standIn = "TEST_STAND_IN"

// runStandIn runs such a program.
func runStandIn(program string, args []string) error {
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	text := map[string]*string{}
	for _, name := range []string{"path", "source", "revision", "output", "tag", "key", "username"} {
		text[name] = flags.String(name, "", "")
	}
	flags.Bool("yes", false, "")
	flags.Bool("reproducible", false, "")
	flags.Bool("password-stdin", false, "")
	var words []string
	for len(args) > 0 { // flags may follow arguments
		if err := flags.Parse(args); err != nil {
			return err
		}
		if args = flags.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	switch command := program + " " + strings.Join(words[:len(words)-1], " "); command {
	case "flux push artifact":
		return pushArtifact(words[2], *text["path"], *text["source"], *text["revision"])
	case "flux tag artifact":
		ref, err := name.NewDigest(strings.TrimPrefix(words[2], "oci://"))
		if err != nil {
			return err
		}
		img, err := remote.Image(ref)
		if err != nil {
			return err
		}
		return remote.Tag(ref.Context().Tag(*text["tag"]), img)
	case "cosign ": // generate-key-pair
		return generateKeys()
	case "cosign login":
		return nil
	case "cosign sign":
		return signArtifact(words[1], *text["key"])
	default:
		return fmt.Errorf("%s is not known here", command)
	}
}

// pushArtifact is `flux push artifact --output json`.
func pushArtifact(url, dir, source, revision string) error {
	ref, err := name.NewTag(strings.TrimPrefix(url, "oci://"))
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	w := tar.NewWriter(zipped)
	err = errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), zipped.Close())
	if err != nil {
		return err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.flux.config.v1+json")
	annotated := mutate.Annotations(img, map[string]string{"org.opencontainers.image.source": source, "org.opencontainers.image.revision": revision})
	img, err = mutate.Append(annotated.(v1.Image), mutate.Addendum{Layer: static.NewLayer(archive.Bytes(), "application/vnd.cncf.flux.content.v1.tar+gzip")}) //nolint:forcetypeassert // it returns what it receives
	if err != nil {
		return err
	}
	if err := remote.Write(ref, img); err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{
		"url": "oci://" + ref.Context().Digest(digest.String()).String(), "repository": ref.Context().Name(), "tag": ref.TagStr(), "digest": digest.String(),
	})
}

// generateKeys is `cosign generate-key-pair`, without the encryption of the private key.
func generateKeys() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile("cosign.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
		os.WriteFile("cosign.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600),
	)
}

// signArtifact is `cosign sign --new-bundle-format=false`.
func signArtifact(reference, key string) error {
	ref, err := name.NewDigest(reference)
	if err != nil {
		return err
	}
	data := []byte(os.Getenv(strings.TrimPrefix(key, "env://")))
	if !strings.HasPrefix(key, "env://") {
		if data, err = os.ReadFile(key); err != nil {
			return err
		}
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return errors.New("no key")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, ref.Context().Name(), ref.DigestStr())
	sum := sha256.Sum256(payload)
	signature, err := ecdsa.SignASN1(rand.Reader, private.(*ecdsa.PrivateKey), sum[:]) //nolint:forcetypeassert // generateKeys made it
	if err != nil {
		return err
	}
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer:       static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)},
	})
	if err != nil {
		return err
	}
	return remote.Write(ref.Context().Tag(strings.Replace(ref.DigestStr(), ":", "-", 1)+".sig"), img)
}

// newRegistry starts a registry, and returns its address and a directory with the programs flux and cosign.
func newRegistry(t *testing.T) (address, bin string) {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo))))
	t.Cleanup(s.Close)
	bin = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"flux", "cosign"} {
		script := fmt.Sprintf("#!/bin/sh\n%s=%s exec %q \"$@\"\n", standIn, program, self)
		if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimPrefix(s.URL, "http://"), bin
}

// jobs returns a page in which the jobs of GitHub and GitLab are commands, run in the directory repo with the variables of a job.
func jobs(t *testing.T, page string) string {
	t.Helper()
	n := 0
	return pageBlock.ReplaceAllStringFunc(page, func(fenced string) string {
		block := pageBlock.FindStringSubmatch(fenced)
		if block[1] != "yaml" {
			return fenced
		}
		var pipeline struct {
			Jobs struct {
				Push struct {
					Steps []struct {
						Env map[string]string `json:"env"`
						Run string            `json:"run"`
					} `json:"steps"`
				} `json:"push"`
			} `json:"jobs"`
			Push struct {
				Variables map[string]string `json:"variables"`
				Script    []string          `json:"script"`
			} `json:"push"`
		}
		if err := yaml.Unmarshal([]byte(block[2]), &pipeline); err != nil {
			t.Fatal(err)
		}
		n++
		variables, commands := pipeline.Push.Variables, strings.Join(pipeline.Push.Script, "\n")+"\n"
		for _, step := range pipeline.Jobs.Push.Steps {
			if step.Run != "" {
				variables, commands = step.Env, step.Run
			}
		}
		var script strings.Builder
		fmt.Fprintf(&script, "cd repo\nexport GITHUB_SHA=%040d CI_COMMIT_SHA=%040d GITHUB_REF_NAME=main CI_COMMIT_BRANCH=main GITHUB_SERVER_URL=https://github.com GITHUB_REPOSITORY=example/fleet\n", n, n)
		script.WriteString("export CI_PROJECT_URL=https://gitlab.com/example/fleet CI_REGISTRY=registry.example.com CI_REGISTRY_IMAGE=registry.example.com/platform CI_REGISTRY_USER=ci CI_REGISTRY_PASSWORD=example COSIGN_KEY=\"$(cat ../cosign.key)\"\n")
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			if !strings.Contains(variables[name], "secrets.") {
				fmt.Fprintf(&script, "export %s=\"%s\"\n", name, variables[name])
			}
		}
		return "```sh\n" + script.String() + commands + "```"
	})
}
