package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/egress"
)

// errAddress replaces egress.ErrAddress in errors: it names the setting.
var errAddress = errors.New("the address of the receiver is not allowed: it is private, local or reserved (WEBHOOK_ALLOW_PRIVATE)")

// egress returns the rules for the addresses of receivers.
func (d *Deliverer) egress() egress.Config {
	return egress.Config{
		AllowHTTP: d.cfg.AllowHTTP, AllowPrivate: d.cfg.AllowPrivate, Proxy: d.cfg.Proxy,
		Timeout: d.cfg.Timeout, TLS: d.cfg.TLS, Resolver: d.cfg.Resolver,
	}
}

// CheckURL returns the reason for which a URL cannot be that of a webhook with the configuration of this process. Names are
// checked again at each connection, after their resolution.
func (d *Deliverer) CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("is not a URL")
	}
	switch err := d.egress().CheckURL(u); {
	case errors.Is(err, egress.ErrAddress):
		return errAddress
	case err != nil:
		return errors.New("must begin with https:// (WEBHOOK_ALLOW_HTTP)")
	}
	return nil
}

// newTransport returns the transport of requests: a new connection for each request, so that each address is checked.
func (d *Deliverer) newTransport() *http.Transport {
	t := d.egress().Transport()
	t.DisableKeepAlives = true
	return t
}

// requestTimeout is the time for a request, from the resolution of the name to the header of the answer.
const requestTimeout = 10 * time.Second

// noRedirects returns a redirect as the answer: a receiver could redirect the service to any address.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// withTimeout limits a request.
func (d *Deliverer) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.cfg.Timeout, fmt.Errorf("the receiver did not answer within %s", d.cfg.Timeout))
}
