// Package signin obtains ID tokens for a person, from an OpenID Connect issuer with a browser on this or another machine, and for
// a job of GitHub Actions.
package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const (
	requestTimeout = 15 * time.Second
	maxBytes       = 1 << 20 // of a document of the issuer
	callbackPath   = "/callback"
)

// Issuer is an issuer with the public client of the service.
type Issuer struct {
	URL      string
	ClientID string
	Scopes   []string
}

// Provider is an issuer with its endpoints.
type Provider struct {
	issuer Issuer
	oauth  oauth2.Config
	client *http.Client
}

// Discover reads the endpoints of an issuer. It fails for plain HTTP, except on this machine, and if the discovery document names
// another issuer.
func Discover(ctx context.Context, issuer Issuer) (*Provider, error) {
	p := &Provider{issuer: issuer, client: &http.Client{Timeout: requestTimeout}}
	if err := checkURL(issuer.URL); err != nil {
		return nil, err
	}
	var found struct {
		Issuer        string `json:"issuer"`
		Authorization string `json:"authorization_endpoint"`
		Token         string `json:"token_endpoint"`
		Device        string `json:"device_authorization_endpoint"`
	}
	if err := get(ctx, p.client, strings.TrimRight(issuer.URL, "/")+"/.well-known/openid-configuration", "", &found); err != nil {
		return nil, fmt.Errorf("the issuer: %w", err)
	}
	if found.Issuer != issuer.URL {
		return nil, fmt.Errorf("the discovery document of %s names another issuer: %q", issuer.URL, found.Issuer)
	}
	for _, endpoint := range []string{found.Authorization, found.Token, found.Device} {
		if err := checkURL(endpoint); err != nil && endpoint != "" {
			return nil, err
		}
	}
	p.oauth = oauth2.Config{
		ClientID: issuer.ClientID, Scopes: issuer.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: found.Authorization, TokenURL: found.Token, DeviceAuthURL: found.Device, AuthStyle: oauth2.AuthStyleInParams},
	}
	return p, nil
}

// checkURL refuses URLs without TLS, on which others could read a token.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && addr.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%q is not an https:// URL", text)
}

// get reads a JSON document.
func get(ctx context.Context, client *http.Client, address, bearer string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	rsp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = rsp.Body.Close() }()
	if rsp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", req.URL.Host, rsp.Status)
	}
	return json.NewDecoder(io.LimitReader(rsp.Body, maxBytes)).Decode(v)
}

// Browser signs in with a browser on this machine: the authorization code flow with PKCE (RFC 7636), which redirects to a port of the
// loopback address (RFC 8252). open shows the URL.
func (p *Provider) Browser(ctx context.Context, open func(url string)) (idToken string, err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	oauth, state, nonce, verifier := p.oauth, rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	oauth.RedirectURL = "http://" + ln.Addr().String() + callbackPath
	results := make(chan callback, 1)
	srv := &http.Server{Handler: p.callbackHandler(state, results), ReadHeaderTimeout: requestTimeout}
	go func() { _ = srv.Serve(ln) }() // ends with Shutdown
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the browser has its answer by then
		defer cancel()
		_ = srv.Shutdown(ctx)
	}()
	open(oauth.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("nonce", nonce)))
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case got := <-results:
		if got.err != nil {
			return "", got.err
		}
		token, err := oauth.Exchange(context.WithValue(ctx, oauth2.HTTPClient, p.client), got.code, oauth2.VerifierOption(verifier))
		if err != nil {
			return "", fmt.Errorf("the issuer: %w", err)
		}
		if idToken, err = idTokenOf(token); err != nil {
			return "", err
		}
		return idToken, checkNonce(idToken, nonce)
	}
}

// callback is the result of the redirect to this program.
type callback struct {
	code string
	err  error
}

func (p *Provider) callbackHandler(state string, results chan<- callback) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 { // another site's page
			http.Error(w, "this sign-in was not requested here", http.StatusBadRequest)
			return
		}
		got := callback{code: q.Get("code")}
		switch issuer := q.Get("iss"); { // RFC 9207
		case issuer != "" && issuer != p.issuer.URL:
			got.err = fmt.Errorf("the answer comes from another issuer: %q", issuer)
		case q.Get("error") != "":
			got.err = fmt.Errorf("the issuer refused the sign-in: %q %q", q.Get("error"), q.Get("error_description"))
		case got.code == "":
			got.err = errors.New("the issuer's answer has no code")
		}
		text := "Signed in. You can close this window."
		if got.err != nil {
			text = "The sign-in failed: see the terminal."
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text)
		select {
		case results <- got:
		default: // a second answer
		}
	})
	return mux
}

// Device signs in with a browser on another machine (RFC 8628). show shows the URL and the code to enter there.
func (p *Provider) Device(ctx context.Context, show func(url, code string)) (idToken string, err error) {
	if p.oauth.Endpoint.DeviceAuthURL == "" {
		return "", errors.New("the issuer has no device grant: sign in without --device")
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, p.client)
	asked, err := p.oauth.DeviceAuth(ctx)
	if err != nil {
		return "", fmt.Errorf("the issuer: %w", err)
	}
	show(asked.VerificationURI, asked.UserCode)
	token, err := p.oauth.DeviceAccessToken(ctx, asked)
	if err != nil {
		return "", fmt.Errorf("the issuer: %w", err)
	}
	return idTokenOf(token)
}

func idTokenOf(token *oauth2.Token) (string, error) {
	idToken, _ := token.Extra("id_token").(string)
	if idToken == "" {
		return "", errors.New("the issuer returned no ID token")
	}
	return idToken, nil
}

// checkNonce refuses an ID token of another sign-in. Its signature is verified by the service.
func checkNonce(idToken, nonce string) error {
	parts := strings.Split(idToken, ".")
	var claims struct {
		Nonce string `json:"nonce"`
	}
	if len(parts) == 3 {
		if payload, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil && json.Unmarshal(payload, &claims) == nil && claims.Nonce == nonce {
			return nil
		}
	}
	return errors.New("the ID token does not belong to this sign-in: its nonce differs")
}

// Variables of a job of GitHub Actions with the permission id-token: write.
const (
	actionsURL   = "ACTIONS_ID_TOKEN_REQUEST_URL"
	actionsToken = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
)

// Actions returns an ID token, for an audience, of the GitHub Actions job that runs this program; empty: it does not run in such
// a job.
func Actions(ctx context.Context, getenv func(string) string, audience string) (string, error) {
	if getenv(actionsURL) == "" || getenv(actionsToken) == "" {
		return "", nil
	}
	address, err := url.Parse(getenv(actionsURL))
	if err == nil {
		err = checkURL(address.String())
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", actionsURL, err)
	}
	query := address.Query()
	query.Set("audience", audience)
	address.RawQuery = query.Encode()
	var answer struct {
		Value string `json:"value"`
	}
	if err := get(ctx, &http.Client{Timeout: requestTimeout}, address.String(), getenv(actionsToken), &answer); err != nil {
		return "", fmt.Errorf("the ID token of the job: %w", err)
	}
	if answer.Value == "" {
		return "", errors.New("the ID token of the job is empty")
	}
	return answer.Value, nil
}
