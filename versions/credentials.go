package versions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// maxAuthFile limits the size of the file of credentials, in bytes.
const maxAuthFile = 1 << 20

// credentials are those of hosts, or of paths of a host.
type credentials map[string]authn.AuthConfig

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
	for key, raw := range config.Auths {
		var one authn.AuthConfig
		if json.Unmarshal(raw, &one) != nil {
			return nil, fmt.Errorf("the file of REGISTRY_AUTH_FILE: the entry %q of auths is not valid", key)
		}
		out[credentialKey(key)] = one
	}
	return out, nil
}

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
func (c credentials) find(host, path string) authn.AuthConfig {
	key := credentialHost(host) + "/" + strings.Trim(path, "/")
	for {
		if one, ok := c[key]; ok {
			return one
		}
		end := strings.LastIndexByte(key, '/')
		if end < 0 {
			return authn.AuthConfig{}
		}
		key = key[:end]
	}
}

// authenticator returns the credentials for a registry.
func (c credentials) authenticator(host, path string) authn.Authenticator {
	if one := c.find(host, path); one != (authn.AuthConfig{}) {
		return authn.FromConfig(one)
	}
	return authn.Anonymous
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
