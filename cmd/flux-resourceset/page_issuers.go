package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/ui"
)

// pageIssuers implements [ui.Issuers] with the issuers of the server. The fleet page otherwise uses only the API.
type pageIssuers struct{ issuers *server.Issuers }

var _ ui.Issuers = pageIssuers{}

// newPageIssuers returns nil without issuers.
func newPageIssuers(issuers *server.Issuers) ui.Issuers {
	if issuers == nil {
		return nil
	}
	return pageIssuers{issuers}
}

func serverSignIn(in ui.IssuerSignIn) server.IssuerSignIn {
	return server.IssuerSignIn{Issuer: in.Issuer, RedirectURL: in.RedirectURL, State: in.State, Nonce: in.Nonce, Verifier: in.Verifier}
}

// Names implements ui.Issuers.
func (p pageIssuers) Names() []string { return p.issuers.CanSignIn() }

// URL implements ui.Issuers.
func (p pageIssuers) URL(in ui.IssuerSignIn) (string, error) {
	return p.issuers.SignInURL(serverSignIn(in))
}

// IDToken implements ui.Issuers.
func (p pageIssuers) IDToken(ctx context.Context, in ui.IssuerSignIn, answer url.Values) (token, reason string, err error) {
	token, err = p.issuers.FinishSignIn(ctx, serverSignIn(in), answer)
	if refused, ok := errors.AsType[*server.IDTokenError](err); ok {
		reason = refused.Reason
	}
	return token, reason, err
}
