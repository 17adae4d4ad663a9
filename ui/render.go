package ui

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
)

// frame is what every page has around it.
type frame struct {
	Title, Section, Version string
	Revision                string // of the fleet that is shown; empty: none is
	Age                     string // seconds since the store last confirmed it
	Search                  string
	Path                    string // this page, as it is asked for again
	Who                     string // is looking; empty: nobody is signed in
}

// frame is the frame of a page of this visit, when everything that is on it has been asked for.
func (req *pageRequest) frame(title, section string) frame {
	return frame{
		Title: title, Section: section, Version: req.page.cfg.Version, Revision: req.transport.revision, Age: req.transport.age,
		Search: req.query("q"), Path: req.r.URL.RequestURI(), Who: cmp.Or(req.identity.Name, req.identity.Credential),
	}
}

//go:embed templates
var templates embed.FS

// pages are the templates, each with the frame around it.
func pages(now func() time.Time, base string) (map[string]*template.Template, error) {
	out := map[string]*template.Template{}
	files, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")
		if out[name], err = template.New("frame.html").Funcs(templateFuncs(now, base)).ParseFS(templates, "templates/frame.html", file); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// assets is a digest of all static files, so that a browser never uses those of another version.
var assets = sync.OnceValues(func() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(static, "static", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := static.ReadFile(path)
		sum.Write(body)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:8]), err
})

// visibleControls replaces characters that show text in another order than it is, or not at all, with their escapes. No page has them but in
// names and messages from outside.
var visibleControls = func() *strings.Replacer {
	var pairs []string
	for _, r := range "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff" {
		pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
	}
	return strings.NewReplacer(pairs...)
}()

// render answers with a page, or with an error when it cannot be made: never with half of one.
func (p *Page) render(w http.ResponseWriter, r *http.Request, status int, name string, view any) {
	var out bytes.Buffer
	if err := p.pages[name].Execute(&out, view); err != nil {
		p.cfg.Logger.ErrorContext(r.Context(), "a page cannot be made", slog.String("page", name), slog.Any("error", err))
		http.Error(w, "this page cannot be made: the log of the service says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = visibleControls.WriteString(w, out.String()) // fails when the browser is gone
}

func (req *pageRequest) show(name string, view any) error {
	req.page.render(req.w, req.r, http.StatusOK, name, view)
	return nil
}

type failureView struct {
	frame
	Headline, Detail string
	Problems         []string
	Missing          bool // to ask again leads nowhere
}

// failed answers instead of a page.
func (p *Page) failed(w http.ResponseWriter, r *http.Request, req *pageRequest, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		return // nobody waits
	}
	status, view := http.StatusInternalServerError, failureView{Headline: "This page cannot be shown", Detail: "The log of the service says why."}
	problem, answered := errors.AsType[*client.Error](err)
	change := r.Method == http.MethodPost && req != nil
	_, unanswered := errors.AsType[*client.UnansweredError](err)
	switch {
	case change && (unanswered || errors.Is(err, context.DeadlineExceeded) || answered && problem.Problem.Error == client.CodeOutcomeUnknown):
		status, view.Headline, view.Detail = http.StatusServiceUnavailable, "It is not known whether this was done", "The store did not say in time. Look at the changes before you try again."
	case errors.Is(err, errNotFound):
		status, view.Headline, view.Detail = http.StatusNotFound, "There is no such page", "The link may be cut off."
	case answered && problem.StatusCode == http.StatusUnauthorized || errors.Is(err, errMayNotRead): // revoked, expired, or another one by now
		p.setCookie(w, p.cookieName(r), "", -time.Second)
		p.redirectToSignIn(w, r)
		return
	case errors.Is(err, errMayNotWrite):
		status, view.Headline, view.Detail = http.StatusForbidden, "Your token may not do this", err.Error()
	case errors.Is(err, errBadQuery):
		status, view.Detail = http.StatusBadRequest, err.Error()
	case errors.Is(err, errTooManyPages):
		status, view.Headline, view.Detail = http.StatusTooManyRequests, "Too many pages at once", "You have asked for more than can be made at a time. Nothing was done; try again in a moment."
		w.Header().Set("Retry-After", "2")
	case errors.Is(err, context.DeadlineExceeded):
		status, view.Detail = http.StatusServiceUnavailable, "It takes too long at the moment: others are asking as well."
		w.Header().Set("Retry-After", "5")
	case answered:
		status, view.Detail = problem.StatusCode, problem.Problem.Detail
		for _, one := range problem.Problem.Errors {
			view.Problems = append(view.Problems, one.Detail)
		}
		switch problem.StatusCode {
		case http.StatusNotFound:
			view.Headline = "It is not there"
		case http.StatusForbidden:
			view.Headline = "Your token may not see this"
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			view.Headline = "The fleet cannot be read at the moment"
			if change {
				view.Headline = "Nothing was done"
			}
			maps.Copy(w.Header(), http.Header{"Retry-After": problem.Header["Retry-After"]})
		}
	default:
		p.cfg.Logger.ErrorContext(r.Context(), "a page cannot be shown", slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	view.frame = frame{Title: view.Headline, Version: p.cfg.Version, Path: r.URL.RequestURI()}
	if req != nil {
		view.frame = req.frame(view.Headline, "")
	}
	view.Missing = status == http.StatusNotFound
	p.render(w, r, status, "failure", view)
}
