package rig

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// ProviderPassword is the password of every person at a Provider.
const ProviderPassword = "verysecure"

// ProviderClient is the id of the public client at a Provider.
const ProviderClient = "fleet"

// Provider is an OpenID Connect provider of people, of the library zitadel/oidc. Names of people are their ids.
type Provider struct {
	*storage.Storage
	// URL is its issuer. Its host differs from 127.0.0.1, the page's, so that a browser treats both as different sites.
	URL string

	addr    string
	handler http.Handler
	server  *http.Server

	mu     sync.Mutex
	groups map[string][]string // by person
	keys   []providerKey       // the last one signs
}

// StartProvider starts a provider at which the people of groups can sign in, each with a list of groups.
func StartProvider(ctx context.Context, groups map[string][]string) (*Provider, error) {
	p := &Provider{addr: "127.0.0.1:0", groups: groups}
	if err := p.RotateKey(); err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Start lets the provider answer again.
func (p *Provider) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", p.addr)
	if err != nil {
		return err
	}
	if p.handler == nil {
		p.addr = listener.Addr().String()
		p.URL = fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
		client := storage.NativeClient(ProviderClient, "http://127.0.0.1/callback", "http://127.0.0.1/ui/sign-in/callback")
		p.Storage = storage.NewStorageWithClients(people{p}, map[string]*storage.Client{ProviderClient: client})
		p.handler = exampleop.SetupServer(p.URL, p, nil, false)
	}
	p.server = &http.Server{Handler: p.handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(listener) }() // until Stop
	return nil
}

// Stop lets the provider refuse connections, until Start.
func (p *Provider) Stop() { _ = p.server.Close() }

// SetGroups replaces the groups of a person.
func (p *Provider) SetGroups(person string, groups ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups[person] = groups
}

// RotateKey signs later tokens with a new key, and publishes only that.
func (p *Provider) RotateKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = []providerKey{{id: rand.Text(), private: key}}
	return nil
}

func (p *Provider) key() providerKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[0]
}

// SigningKey implements op.Storage.
func (p *Provider) SigningKey(context.Context) (op.SigningKey, error) {
	return signingKey{p.key()}, nil
}

// KeySet implements op.Storage.
func (p *Provider) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{publicKey{p.key()}}, nil
}

// GetClientByClientID implements op.Storage.
func (p *Provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := p.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return publicClient{client}, nil
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest: it adds the groups, without a scope of their own.
func (p *Provider) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, request op.IDTokenRequest, scopes []string) error {
	p.mu.Lock()
	groups := p.groups[request.GetSubject()]
	p.mu.Unlock()
	info.AppendClaims("groups", groups)
	return p.Storage.SetUserinfoFromRequest(ctx, info, request, scopes)
}

type providerKey struct {
	id      string
	private *rsa.PrivateKey
}

func (k providerKey) ID() string { return k.id }

type signingKey struct{ providerKey }

func (signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

func (k signingKey) Key() any { return k.private }

type publicKey struct{ providerKey }

func (publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }

func (publicKey) Use() string { return "sig" }

func (k publicKey) Key() any { return &k.private.PublicKey }

// publicClient is a client of programs and of the page, with claims of the person in its ID tokens.
type publicClient struct{ op.Client }

func (publicClient) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeDeviceCode}
}

func (publicClient) IDTokenUserinfoClaimsAssertion() bool { return true }

// people are the users of a Provider.
type people struct{ p *Provider }

func (s people) GetUserByID(id string) *storage.User {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if _, known := s.p.groups[id]; !known {
		return nil
	}
	return &storage.User{ID: id, Username: id, Password: ProviderPassword, FirstName: id, Email: id + "@example.com", EmailVerified: true}
}

func (s people) GetUserByUsername(name string) *storage.User { return s.GetUserByID(name) }

func (people) ExampleClientID() string { return storage.ServiceUserID }
