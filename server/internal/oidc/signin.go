package oidc

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/url"

	"golang.org/x/oauth2"
)

// maxExchanges limits the number of simultaneous requests to the token endpoints of issuers.
const maxExchanges = 16

// SignIn is a sign-in of a person in a browser. All fields but Issuer and RedirectURL are random.
type SignIn struct {
	Issuer      string // its name
	RedirectURL string // to which the issuer redirects the browser
	State       string // of the request; the caller compares it
	Nonce       string // of the ID token
	Verifier    string // of PKCE (RFC 7636)
}

// CanSignIn returns the names of the issuers at which people can sign in with a browser now.
func (v *Verifier) CanSignIn() (names []string) {
	for _, issuer := range v.Clients() {
		if set := v.sources[issuer.URL].current.Load(); set.hasSignIn() {
			names = append(names, issuer.Name)
		}
	}
	return names
}

// hasSignIn reports whether the issuer has the endpoints of a sign-in in a browser.
func (set *keySet) hasSignIn() bool {
	return set != nil && trustedText(set.Metadata.AuthorizationEndpoint) && trustedText(set.Metadata.TokenEndpoint)
}

// trustedText is trusted for the text of an endpoint, which may have a query (RFC 6749).
func trustedText(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && trusted(u)
}

// oauth returns the client at an issuer.
func (v *Verifier) oauth(in SignIn) (*source, *oauth2.Config, error) {
	for _, issuer := range v.Clients() {
		if issuer.Name != in.Issuer {
			continue
		}
		s := v.sources[issuer.URL]
		set := s.current.Load()
		if !set.hasSignIn() {
			break
		}
		return s, &oauth2.Config{
			ClientID: issuer.ClientID, Scopes: issuer.Scopes, RedirectURL: in.RedirectURL,
			Endpoint: oauth2.Endpoint{AuthURL: set.Metadata.AuthorizationEndpoint, TokenURL: set.Metadata.TokenEndpoint, AuthStyle: oauth2.AuthStyleInParams},
		}, nil
	}
	return nil, nil, refuse("issuer %q is not available for sign-in now", in.Issuer)
}

// SignInURL returns the URL of the issuer at which the person signs in.
func (v *Verifier) SignInURL(in SignIn) (string, error) {
	_, oauth, err := v.oauth(in)
	if err != nil {
		return "", err
	}
	return oauth.AuthCodeURL(in.State, oauth2.S256ChallengeOption(in.Verifier), oauth2.SetAuthURLParam("nonce", in.Nonce)), nil
}

// FinishSignIn returns the ID token for the query of the redirect from the issuer. The token is verified, and belongs to this
// sign-in. The error is a *TokenError with the reason for the person, or another error for the log.
func (v *Verifier) FinishSignIn(ctx context.Context, in SignIn, answer url.Values) (idToken string, err error) {
	s, oauth, err := v.oauth(in)
	if err != nil {
		return "", err
	}
	switch issuer := answer.Get("iss"); { // RFC 9207
	case issuer != "" && issuer != s.URL:
		return "", refuse("the answer comes from another issuer")
	case answer.Get("error") != "":
		return "", refuse("the issuer refused the sign-in: %.100q", answer.Get("error"))
	case answer.Get("code") == "":
		return "", refuse("the answer of the issuer has no code")
	}
	if v.exchanges.Add(1) > maxExchanges { // a request without credentials causes one, with any code
		v.exchanges.Add(-1)
		return "", refuse("too many people sign in at this moment; try again")
	}
	defer v.exchanges.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	token, err := oauth.Exchange(context.WithValue(ctx, oauth2.HTTPClient, s.client), answer.Get("code"), oauth2.VerifierOption(in.Verifier))
	if err != nil {
		return "", fmt.Errorf("exchanging the code of the sign-in: %w", err)
	}
	idToken, _ = token.Extra("id_token").(string)
	id, err := v.Verify(ctx, idToken)
	if err != nil {
		return "", err
	}
	if id.Issuer != in.Issuer || subtle.ConstantTimeCompare([]byte(id.Claims["nonce"]), []byte(in.Nonce)) != 1 {
		return "", refuse("the ID token does not belong to this sign-in: its nonce differs")
	}
	return idToken, nil
}
