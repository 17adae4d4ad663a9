package ui

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
)

// maxAPIRequests limits the concurrent API requests of all pages together, since each may read ten thousand clusters. More wait.
const maxAPIRequests = 16

// New returns a Page. It fails if a template or a static file is broken.
func New(cfg Config) (*Page, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	all, err := pages(cfg.Now, cfg.BasePath)
	if err != nil {
		return nil, err
	}
	if _, err := assets(); err != nil {
		return nil, err
	}
	if cfg.SessionKey == "" {
		cfg.Logger.Info("SESSION_KEY is not set: sessions of the fleet page end with this process and are not valid on other replicas")
	}
	cipher, err := newSessionCipher(cfg.SessionKey, cfg.SessionKeyPrevious)
	if err != nil {
		return nil, err
	}
	p := &Page{
		cfg: cfg, cipher: cipher, routes: http.NewServeMux(), origins: http.NewCrossOriginProtection(), apiSlots: make(chan struct{}, maxAPIRequests),
		sessionLimits: sessionLimits{each: map[string]*sessionQueue{}}, pages: all,
	}
	files, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	p.routes.Handle("GET "+prefix+"/static/", http.StripPrefix(prefix+"/static/", cached(files, http.FileServerFS(files))))
	p.routes.HandleFunc("GET "+prefix+"/static/scripts.js", serveScripts)
	p.routes.HandleFunc("GET "+prefix+"/sign-in", p.signInForm)
	p.routes.HandleFunc("POST "+prefix+"/sign-in", p.signIn)
	p.routes.HandleFunc("POST "+prefix+"/sign-out", p.signOut)
	p.routes.HandleFunc("GET "+prefix+"/live", p.streamRevisions)
	if cfg.Issuers != nil {
		p.routes.HandleFunc("GET "+signInPath, p.startIssuerSignIn)
		p.routes.HandleFunc("GET "+callbackPath, p.finishIssuerSignIn)
	}
	for pattern, show := range map[string]func(*pageRequest) error{
		"/{$}":                              showOverview,
		"/clusters":                         showClusters,
		"/clusters/{id}":                    showCluster,
		"/clusters/{id}/inputs/{list}/{in}": showInput,
		"/clusters/{id}/access":             showClusterAccess,
		"/clusters/{id}/connect":            showConnect,
		"/components":                       showComponents,
		"/components/{id}":                  showComponent,
		"/matrix":                           showMatrix,
		"/compare":                          showCompare,
		"/layers":                           showLayers,
		"/layers/{id}":                      showLayer,
		"/rollouts":                         showRollouts,
		"/rollouts/{id}":                    showRollout,
		"/changes":                          showChanges,
		"/changes/{revision}":               showChange,
		"/search":                           showSearch,
		"/search/suggest":                   showSuggestions,
		"/help":                             showHelp,
		"/definitions":                      showDefinitions,
		"/definitions/{list}":               showDocuments,
		"/definitions/{list}/{id}":          showDefinition,
		"/webhooks":                         showWebhooks,
		"/sources":                          showSources,
		"/approvals":                        showApprovals,
		"/":                                 func(*pageRequest) error { return errNotFound },
	} {
		p.routes.Handle("GET "+prefix+pattern, p.pageHandler(show))
	}
	for pattern, makeForm := range changeForms {
		p.routes.Handle("GET "+prefix+pattern, p.pageHandler(previewForm(makeForm)))
		if cfg.Changes {
			p.routes.Handle("POST "+prefix+pattern, p.pageHandler(submitForm(makeForm)))
		}
	}
	for _, method := range []string{"GET ", "POST "} { // it changes nothing, so it needs no setting
		p.routes.Handle(method+prefix+"/components/{id}/version/plan", p.pageHandler(showVersionPlan))
	}
	p.routes.Handle("GET "+prefix, http.RedirectHandler(prefix+"/", http.StatusMovedPermanently))
	return p, nil
}

// ServeHTTP serves /ui/, redirects browsers from / to it, and passes everything else to the API.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == prefix || strings.HasPrefix(path, prefix+"/"):
		p.serve(w, r)
	case path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
		http.Redirect(w, r, prefix+"/", http.StatusSeeOther)
	default:
		p.cfg.API.ServeHTTP(w, r)
	}
}

// policy is the content security policy: scripts, styles, images, requests and forms only of this origin, and no frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxFormBytes is the size limit of a request body, in bytes.
const maxFormBytes = 16 << 10

// serve sets the security headers and refuses requests that no page should see: through a proxy with another path, from forms of
// other sites, with a query that cannot be parsed.
func (p *Page) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if path := forwardedPrefix(r.Header); path != "" && path != p.cfg.BasePath {
		http.Error(w, fmt.Sprintf("the proxy in front serves this page below %q (X-Forwarded-Prefix), and the service below %q: "+
			"set BASE_PATH of the service to the proxy's path, or give the service a host of its own", path, p.cfg.BasePath+"/"), http.StatusBadRequest)
		return
	}
	if err := p.origins.Check(r); err != nil {
		p.auditRefusal(r)
		http.Error(w, "forms from other sites are refused", http.StatusForbidden)
		return
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil { // Query() would drop the broken part, and a filter with it
		p.failed(w, r, nil, errBadQuery)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	p.routes.ServeHTTP(w, r)
}

// forwardedPrefix returns the path that proxies removed from the request, from the X-Forwarded-Prefix headers of Traefik and others.
// Each proxy appends its own.
func forwardedPrefix(h http.Header) (prefix string) {
	for part := range strings.SplitSeq(strings.Join(h.Values("X-Forwarded-Prefix"), ","), ",") {
		prefix += strings.TrimRight(strings.TrimSpace(part), "/")
	}
	return prefix
}

// pageHandler returns a handler that shows a page to a signed-in user. It redirects to the sign-in form without a session, waits for
// the session's limit, and shows errors as a page.
func (p *Page) pageHandler(show func(*pageRequest) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, ok := p.session(w, r)
		if !ok {
			p.redirectToSignIn(w, r)
			return
		}
		if p.sendsOtherToken(r, session) {
			http.Error(w, "the request has a session and another bearer token: send one of them", http.StatusUnauthorized)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		release, err := p.sessionLimits.acquire(ctx, cmp.Or(session.ID, session.Token)) // sessions of older versions have no id
		if err != nil {
			p.failed(w, r, nil, err)
			return
		}
		defer release()
		if err := r.ParseForm(); err != nil { // of a broken or too large one, some fields would be missing
			p.failed(w, r, nil, errBadForm)
			return
		}
		req, err := p.newPageRequest(w, r, session)
		if err == nil {
			err = req.identify()
		}
		if err == nil {
			err = req.readFreezes()
		}
		if err == nil {
			err = show(req)
		}
		if err != nil {
			p.failed(w, r, req, err)
		}
	})
}

// changeForms returns the form for each address.
var changeForms = map[string]func(*pageRequest) (changeForm, error){
	"/changes/{revision}/revert":      revertForm,
	"/changes/{revision}/restore":     restoreForm,
	"/add/cluster":                    addClusterForm,
	"/clusters/{id}/protect":          func(req *pageRequest) (changeForm, error) { return protectionForm(req, true), nil },
	"/clusters/{id}/unprotect":        func(req *pageRequest) (changeForm, error) { return protectionForm(req, false), nil },
	"/clusters/{id}/unpin":            unpinForm,
	"/clusters/{id}/delete":           deleteFormOf(client.KindCluster),
	"/components/{id}/delete":         deleteFormOf(client.KindPlatformComponent),
	"/components/{id}/version":        versionForm,
	"/layers/{id}/delete":             deleteFormOf(client.KindLayer),
	"/definitions/{list}/{id}/delete": deleteDefinitionForm,
	"/freezes/create":                 newFreezeForm,
	"/freezes/create-all":             stopForm,
	"/freezes/{id}/end":               endFreezeForm,
	"/rollouts/{id}/{action}":         rolloutForm,
	"/sources/{id}/approve":           approveSourceForm,
	"/sources/{id}/suspend":           func(req *pageRequest) (changeForm, error) { return suspendSourceForm(req, true) },
	"/sources/{id}/resume":            func(req *pageRequest) (changeForm, error) { return suspendSourceForm(req, false) },
}
