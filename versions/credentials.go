package versions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// maxAuthFile limits the size of the file of credentials, in bytes.
const maxAuthFile = 1 << 20

// credentials are those of hosts, or of paths of a host.
type credentials map[string]credential

type credential struct {
	authn.AuthConfig
	invalid string // the key of an entry that is not valid; only scans of its host fail
}

// readCredentials reads a config.json of Docker. Programs that it names (credHelpers, credsStore) are not run. Errors do not contain
// text of the file.
func readCredentials(path string) (credentials, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the file of REGISTRY_AUTH_FILE: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxAuthFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the file of REGISTRY_AUTH_FILE: %w", err)
	}
	if len(text) > maxAuthFile {
		return nil, errors.New("the file of REGISTRY_AUTH_FILE is larger than 1 MiB")
	}
	var config struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if json.Unmarshal(text, &config) != nil {
		return nil, errors.New("the file of REGISTRY_AUTH_FILE is not a config.json of Docker")
	}
	out := credentials{}
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) {
		var one credential
		if json.Unmarshal(config.Auths[key], &one.AuthConfig) != nil {
			one = credential{invalid: key}
		}
		// Of several spellings of a host: one with credentials, if possible as the host itself is written.
		name := credentialKey(key)
		if other, known := out[name]; !known || one.usable() && (!other.usable() || key == name) {
			out[name] = one
		}
	}
	return out, nil
}

func (c credential) usable() bool { return c.AuthConfig != authn.AuthConfig{} }

// credentialKey returns the host, and the path if there is one, of a key: Docker writes some as URLs of the API.
func credentialKey(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, path, _ := strings.Cut(key, "/")
	host = credentialHost(strings.TrimSuffix(strings.ToLower(host), ":443"))
	if path = strings.Trim(path, "/"); path == "" || path == "v1" || path == "v2" {
		return host
	}
	return host + "/" + path
}

// credentialHost returns one name for the names of Docker Hub.
func credentialHost(host string) string {
	if host == "docker.io" || host == "registry-1.docker.io" {
		return "index.docker.io"
	}
	return host
}

// find returns the credentials for a path of a host: those of the longest path that contains it, else those of the host.
func (c credentials) find(host, path string) (authn.AuthConfig, *Error) {
	key := credentialHost(host) + "/" + strings.Trim(path, "/")
	for {
		one, ok := c[key]
		switch end := strings.LastIndexByte(key, '/'); {
		case one.invalid != "":
			return authn.AuthConfig{}, newError(Invalid, host, "the entry %q of auths in the file of REGISTRY_AUTH_FILE is not valid", one.invalid)
		case ok || end < 0:
			return one.AuthConfig, nil
		default:
			key = key[:end]
		}
	}
}

// authenticator returns the credentials for a registry.
func (c credentials) authenticator(host, path string) (authn.Authenticator, *Error) {
	one, err := c.find(host, path)
	if one == (authn.AuthConfig{}) {
		return authn.Anonymous, err
	}
	return authn.FromConfig(one), err
}

// basicTransport sends credentials to one host only, also after redirects.
type basicTransport struct {
	host  string
	auth  authn.AuthConfig
	inner http.RoundTripper
}

func (t *basicTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if hostName(req.URL) == t.host {
		req = req.Clone(req.Context())
		switch {
		case t.auth.RegistryToken != "":
			req.Header.Set("Authorization", "Bearer "+t.auth.RegistryToken)
		case t.auth.Username != "" || t.auth.Password != "":
			req.SetBasicAuth(t.auth.Username, t.auth.Password)
		}
	}
	return t.inner.RoundTrip(req)
}
