package oidc

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Issuer is the configuration of an OpenID Connect issuer.
type Issuer struct {
	// Name is the name of the issuer in this service: in access documents and in actors.
	Name string `json:"name"`
	// URL is the claim iss of its tokens. Discovery reads its keys below it.
	URL string `json:"url"`
	// ClientID is this service's public client, for people; empty: workloads only.
	ClientID string `json:"client_id"`
	// Audiences are accepted as the claim aud, in addition to ClientID.
	Audiences []string `json:"audiences"`
	// GroupsClaim is the claim that lists a person's groups; empty: none.
	GroupsClaim string `json:"groups_claim"`
	// UserClaim is the claim with the name that readers see in the log; empty: sub.
	UserClaim string `json:"user_claim"`
	// Scopes are requested when people sign in; empty: openid, profile, email.
	Scopes []string `json:"scopes"`
	// JWKSFile has the keys of an issuer that this service must not or cannot reach; empty: discovery.
	JWKSFile string `json:"jwks_file"`
}

// maxIssuers limits the number of issuers, whose keys are all fetched at the start.
const maxIssuers = 20

// issuerName matches valid names, which are part of actors and file names.
var issuerName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// ParseIssuers reads a list of issuers, as YAML or JSON, and returns all problems together.
func ParseIssuers(text string) (issuers []Issuer, problems []string) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := yaml.UnmarshalStrict([]byte(text), &issuers); err != nil {
		return nil, []string{fmt.Sprintf("must be a list such as [{name: corp, url: https://login.example.com, client_id: fleet}]: %v", err)}
	}
	if len(issuers) > maxIssuers {
		problems = append(problems, fmt.Sprintf("has %d issuers: at most %d", len(issuers), maxIssuers))
	}
	for i, is := range issuers {
		name := fmt.Sprintf("issuer %q", is.Name)
		problem := func(format string, args ...any) {
			problems = append(problems, name+": "+fmt.Sprintf(format, args...))
		}
		if !issuerName.MatchString(is.Name) {
			problem("name must be 1 to 40 lower-case letters, digits and dashes")
		}
		if err := checkURL(is.URL); err != nil {
			problem("url %q %v", is.URL, err)
		}
		if is.ClientID == "" && len(is.Audiences) == 0 {
			problem("needs client_id or audiences: otherwise tokens for other services would be accepted")
		}
		if len(is.Scopes) > 0 && !slices.Contains(is.Scopes, "openid") {
			problem("scopes must contain openid: otherwise the issuer makes no ID token")
		}
		if slices.Contains(is.Audiences, "") {
			problem("an entry of audiences is empty")
		}
		for _, other := range issuers[:i] {
			if other.Name == is.Name {
				problem("two issuers have this name")
			}
			if other.URL == is.URL {
				problem("has the same url as issuer %q", other.Name)
			}
		}
	}
	return issuers, problems
}

// checkURL returns an error unless keys from the URL can be trusted: HTTPS, or plain HTTP on this machine.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("must be a URL such as https://login.example.com")
	case trusted(u):
		return nil
	}
	return errors.New("must start with https://: plain http is accepted for loopback addresses only")
}

func trusted(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && loopback
}

// accepts reports whether a token for these audiences is for this service.
func (is *Issuer) accepts(audiences []string) bool {
	return slices.ContainsFunc(audiences, is.isAudience)
}

// isAudience reports whether a value is the client id or an audience of this service.
func (is *Issuer) isAudience(value string) bool {
	return value != "" && value == is.ClientID || slices.Contains(is.Audiences, value)
}

// endpoint joins the URL of an issuer with the path of its discovery document.
func (is *Issuer) endpoint() string {
	return strings.TrimRight(is.URL, "/") + "/.well-known/openid-configuration"
}
