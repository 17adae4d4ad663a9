package ui

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/flux-resourceset/flux-resourceset/internal/windows"
)

// frame is the data of the frame template: header, navigation and footer.
type frame struct {
	Title, Section, Version string
	Revision                string // of the fleet; empty: the page shows no fleet
	Age                     string // seconds since the store last confirmed it
	Search                  string
	Path                    string     // address of this page, for refreshes
	Wall, LeaveWall         string     // Wall: large and without navigation; LeaveWall is the address of the page with navigation
	StopLink                string     // of the form of the emergency stop; empty: the visitor may not, or it is active
	Stop                    *freezeRow // that is active
	Who                     string     // name of the signed-in token; empty: not signed in
}

// set makes every view that embeds a frame a framed one.
func (f *frame) set(to frame) { *f = to }

// frame returns the frame of a page.
func (req *pageRequest) frame(title, section string) frame {
	query := req.r.URL.Query()
	query.Del("wall")
	stop := ""
	if req.offersStop() {
		stop = stopLink("")
	}
	return frame{
		StopLink: stop, Stop: req.stop,
		Wall: req.query("wall"), LeaveWall: strings.TrimSuffix(req.r.URL.Path+"?"+query.Encode(), "?"),
		Title: title, Section: section, Version: req.page.cfg.Version, Revision: req.transport.revision, Age: req.transport.age,
		Search: req.query("q"), Path: req.r.URL.RequestURI(), Who: cmp.Or(req.identity.Name, req.identity.Credential),
	}
}

//go:embed templates
var templates embed.FS

// pages returns the templates by name, each within the frame.
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

// visibleControls replaces invisible and bidirectional control characters by escapes. Only texts from outside contain them.
var visibleControls = func() *strings.Replacer {
	var pairs []string
	for _, r := range "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff" {
		pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
	}
	return strings.NewReplacer(pairs...)
}()

// render writes a complete page, or an error if its template fails.
func (p *Page) render(w http.ResponseWriter, r *http.Request, status int, name string, view any) {
	p.renderPart(w, r, status, name, "frame.html", view)
}

// renderPart writes one of the templates of a page.
func (p *Page) renderPart(w http.ResponseWriter, r *http.Request, status int, name, part string, view any) {
	var out bytes.Buffer
	if err := p.pages[name].ExecuteTemplate(&out, part, view); err != nil {
		p.cfg.Logger.ErrorContext(r.Context(), "a page cannot be rendered", slog.String("page", name), slog.Any("error", err))
		http.Error(w, "this page cannot be rendered: see the log of the service", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = visibleControls.WriteString(w, out.String()) // fails when the browser is gone
}

// show renders a page with status 200. It comes after all API requests of the page, since the frame shows the revision of the last response.
func (req *pageRequest) show(name, title, section string, view framed) error {
	return req.showStatus(http.StatusOK, name, title, section, view)
}

// framed is a view with a frame.
type framed interface{ set(to frame) }

func (req *pageRequest) showStatus(status int, name, title, section string, view framed) error {
	view.set(req.frame(title, section))
	req.page.render(req.w, req.r, status, name, view)
	return nil
}

// failureView is the data of the error page.
type failureView struct {
	frame
	Headline, Detail string
	Problems         []string
	Missing          bool // a repeated request would fail, too
}

// failed renders an error page. req is nil if the error came before the token was checked.
func (p *Page) failed(w http.ResponseWriter, r *http.Request, req *pageRequest, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		return // the browser is gone
	}
	status, view := http.StatusInternalServerError, failureView{Headline: "This page cannot be shown", Detail: "See the log of the service."}
	problem, answered := errors.AsType[*client.Error](err)
	change := r.Method == http.MethodPost && req != nil
	_, unanswered := errors.AsType[*client.UnansweredError](err)
	switch {
	case change && (unanswered || errors.Is(err, context.DeadlineExceeded) || answered && problem.Problem.Error == client.CodeOutcomeUnknown):
		status, view.Headline, view.Detail = http.StatusServiceUnavailable, "The outcome is unknown", "The store did not answer in time. Check the list of changes before you try again."
	case errors.Is(err, errNotFound):
		status, view.Headline, view.Detail = http.StatusNotFound, "Page not found", "The link may be incomplete."
	case answered && problem.StatusCode == http.StatusUnauthorized || errors.Is(err, errMayNotRead): // the token is revoked or expired
		p.setCookie(w, p.cookieName(r), "", -time.Second)
		p.redirectToSignIn(w, r)
		return
	case errors.Is(err, errMayNotWrite):
		p.auditRefusal(r)
		status, view.Headline, view.Detail = http.StatusForbidden, "Your token may not do this", err.Error()
	case errors.Is(err, errNotAdmin):
		p.auditRefusal(r)
		status, view.Headline, view.Detail = http.StatusForbidden, "Your token may not read this", err.Error()
	case errors.Is(err, errBadQuery), errors.Is(err, errBadForm), errors.Is(err, errNotApprovable):
		status, view.Detail = http.StatusBadRequest, err.Error()
	case errors.Is(err, errTooManyPages):
		status, view.Headline, view.Detail = http.StatusTooManyRequests, "Too many pages at once", "This session requested too many pages at a time. Nothing was done; try again in a moment."
		w.Header().Set("Retry-After", "2")
	case errors.Is(err, context.DeadlineExceeded):
		status, view.Detail = http.StatusServiceUnavailable, "The page took too long: the service is busy. Try again in a moment."
		w.Header().Set("Retry-After", "5")
	case answered:
		status, view.Detail = problem.StatusCode, problem.Problem.Detail
		for _, one := range problem.Problem.Errors {
			view.Problems = append(view.Problems, one.Detail)
		}
		switch problem.StatusCode {
		case http.StatusNotFound:
			view.Headline = "Not found"
		case http.StatusForbidden:
			view.Headline = "Your token may not read this"
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

// redirectToSignIn sends the browser to the sign-in form, which returns to the requested page.
func (p *Page) redirectToSignIn(w http.ResponseWriter, r *http.Request) {
	if isRefresh(r) {
		w.WriteHeader(http.StatusUnauthorized) // the script loads the page again
		return
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// Browsers omit SameSite=Strict cookies after a link from another site. This page redirects from our own site, with the cookie.
		p.render(w, r, http.StatusOK, "same_site", sameSiteView{frame{Title: "Fleet", Version: p.cfg.Version}, r.URL.RequestURI()})
		return
	}
	http.Redirect(w, r, prefix+"/sign-in?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

type sameSiteView struct {
	frame
	To string
}

// templateFuncs returns the functions that templates call.
func templateFuncs(now func() time.Time, base string) template.FuncMap {
	return template.FuncMap{
		"ago": func(t any) string { return ago(timeOf(t), now()) }, "nextPoll": func(t time.Time) string { return nextPoll(t, now()) },
		"moment": moment,
		"clock":  func(t any) string { return timeOf(t).UTC().Format("15:04") },
		"day":    func(t any) string { return timeOf(t).UTC().Format(time.DateOnly) },
		"stamp":  func(t any) string { return timeOf(t).UTC().Format(time.RFC3339) },
		"number": number, "plural": plural, "more": func(n, shown int) string { return number(n - shown) },
		"diff":     func(name, was, is string, fields []fieldChange) diffView { return diffView{name, was, is, fields} },
		"truncate": truncate, "windows": windows.Text, "prose": prose, "oneLine": func(message string) string { return summarize.OneLine(message, 240) }, "stateLabel": stateLabel, "meaning": meaning, "kind": kindName, "listTitle": listTitle, "assets": assets,
		// Addresses in views begin with /ui/; templates prepend the base path.
		"base": func() string { return base }, "link": func(parts ...string) string { return base + link(parts...) }, "document": func(kind, id string) string { return base + linkTo(kind, id) },
		"history": func(kind, id string) string { return base + historyLink(kind, id) }, "clustersIn": func(state string) string { return base + clustersLink(state) },
	}
}
