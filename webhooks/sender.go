package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/egress"
)

const (
	maxRetryAfter = time.Hour // a longer Retry-After is shortened
	maxAnswer     = 1 << 10   // bytes of an answer that are read
)

// message is one request to a receiver.
type message struct {
	id          string
	contentType string
	body        []byte
	url         string // empty: that of the webhook
	apiKey      string // of Opsgenie
}

// Result is the outcome of a request.
type Result struct {
	Status     int    // 0: there was no answer
	Error      string // empty: delivered
	RetryAfter time.Duration
	Duration   time.Duration
}

// send makes one request. Only a status from 200 to 299 is a delivery.
func (d *Deliverer) send(ctx context.Context, w *fleet.Webhook, m message) (r Result) {
	began := time.Now()
	defer func() { r.Duration = time.Since(began) }()
	if d.cfg.Key == "" {
		return Result{Error: "WEBHOOK_KEY is not set, so events cannot be signed"}
	}
	if err := d.CheckURL(w.URL); err != nil {
		return Result{Error: "the url " + err.Error()}
	}
	ctx, cancel := d.withTimeout(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(m.url, w.URL), bytes.NewReader(m.body))
	if err != nil {
		return Result{Error: "the url is not valid"}
	}
	at := d.cfg.Now()
	req.Header.Set("Content-Type", m.contentType)
	req.Header.Set("User-Agent", "flux-resourceset")
	req.Header.Set("Webhook-Id", m.id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("Webhook-Signature", d.sign(w, m.id, at, m.body))
	if m.apiKey != "" {
		req.Header.Set("Authorization", "GenieKey "+m.apiKey)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return Result{Error: requestError(ctx, err)}
	}
	defer func() { _ = resp.Body.Close() }()
	r = Result{Status: resp.StatusCode, RetryAfter: egress.RetryAfter(resp.Header.Get("Retry-After"), at, maxRetryAfter)}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // as far as it arrives in time
		r.Error = strings.TrimSpace(fmt.Sprintf("the receiver answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
		if line := firstLine(text); line != "" {
			r.Error += ": " + line
		}
	}
	return r
}

// requestError describes an error without the URL, whose query or path may be a secret.
func requestError(ctx context.Context, err error) string {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	switch {
	case errors.Is(err, egress.ErrAddress):
		return errAddress.Error()
	case ctx.Err() != nil:
		return context.Cause(ctx).Error()
	}
	return err.Error()
}

// maxErrorText is the number of characters of an answer that an error contains.
const maxErrorText = 200

// firstLine returns the beginning of an answer for an error message.
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(line, ""))
	if runes := []rune(line); len(runes) > maxErrorText {
		line = string(runes[:maxErrorText]) + "…"
	}
	return line
}
