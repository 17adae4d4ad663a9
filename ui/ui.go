package ui

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// prefix is where the page is, below the base path.
const prefix = "/ui"

// Config is what the page is made of. API is required.
type Config struct {
	// API answers the requests that pages make.
	API http.Handler
	// BasePath is the path of the service on its host as browsers see it, such as /fleet; empty: the root. Requests arrive
	// without it: see server.WithBasePath, which also adds it to redirects.
	BasePath string
	// SessionKey is the secret that sessions are kept under, the same for all replicas. Empty: sessions end with the process.
	SessionKey string
	// Ended is where processes tell each other which sessions were ended. nil: a session ends in this process alone.
	EndedSessions EndedSessions
	// Changes are offered, to those who may make them.
	Changes bool
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
}

// Page is the fleet page in front of an API.
type Page struct {
	cfg           Config
	cipher        *sessionCipher
	routes        *http.ServeMux
	origins       *http.CrossOriginProtection
	apiSlots      chan struct{}
	sessionLimits sessionLimits
	ended         localEndedSessions
	pages         map[string]*template.Template
}

// maxAPIRequests is how many requests to the API are under way for all pages together: each may be about ten thousand clusters. The
// others wait.
const maxAPIRequests = 16

//go:embed static
var static embed.FS

// New makes the page.
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
		cfg.Logger.Info("SESSION_KEY is not set: sessions of the fleet page end with this process, and another replica asks again")
	}
	cipher, err := newSessionCipher(cfg.SessionKey)
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
	p.routes.HandleFunc("GET "+prefix+"/sign-in", p.signInForm)
	p.routes.HandleFunc("POST "+prefix+"/sign-in", p.signIn)
	p.routes.HandleFunc("POST "+prefix+"/sign-out", p.signOut)
	for pattern, show := range map[string]func(*pageRequest) error{
		"/{$}":                              showOverview,
		"/clusters":                         showClusters,
		"/clusters/{id}":                    showCluster,
		"/clusters/{id}/inputs/{list}/{in}": showInput,
		"/components":                       showComponents,
		"/components/{id}":                  showComponent,
		"/layers":                           showLayers,
		"/layers/{id}":                      showLayer,
		"/changes":                          showChanges,
		"/changes/{revision}":               showChange,
		"/search":                           showSearch,
		"/definitions":                      showDefinitions,
		"/definitions/{list}/{id}":          showDefinition,
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
	p.routes.Handle("GET "+prefix, http.RedirectHandler(prefix+"/", http.StatusMovedPermanently))
	return p, nil
}

// ServeHTTP answers for the page, and hands everything else to the API.
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

// policy lets a page run our own script and style, and send forms to us, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxFormBytes is the largest form, in bytes.
const maxFormBytes = 16 << 10

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
		http.Error(w, "this form came from another site", http.StatusForbidden)
		return
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil { // what cannot be read would be left out, and a filter with it
		p.failed(w, r, nil, errBadQuery)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	p.routes.ServeHTTP(w, r)
}

// forwardedPrefix is the path that proxies in front removed from the request, as Traefik and others report it. Several proxies
// each add one, the first one first.
func forwardedPrefix(h http.Header) (prefix string) {
	for part := range strings.SplitSeq(strings.Join(h.Values("X-Forwarded-Prefix"), ","), ",") {
		prefix += strings.TrimRight(strings.TrimSpace(part), "/")
	}
	return prefix
}

// cached lets browsers keep files of this version, and of no other: in an update one may ask the old server for the new one's.
func cached(files fs.FS, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := fs.Stat(files, r.URL.Path)
		if err != nil || info.IsDir() {
			http.NotFound(w, r)
			return
		}
		if digest, err := assets(); err == nil && r.URL.Query().Get("v") == digest {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		next.ServeHTTP(w, r)
	})
}

// pageHandler makes a handler of what shows a page to somebody who is signed in.
func (p *Page) pageHandler(show func(*pageRequest) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, ok := p.session(w, r)
		if !ok {
			p.redirectToSignIn(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		release, err := p.sessionLimits.acquire(ctx, cmp.Or(session.ID, session.Token)) // sessions of before there were ids go on
		if err != nil {
			p.failed(w, r, nil, err)
			return
		}
		defer release()
		req, err := p.newPageRequest(w, r, session)
		if err == nil {
			err = req.identify()
		}
		if err == nil {
			err = show(req)
		}
		if err != nil {
			p.failed(w, r, req, err)
		}
	})
}

// errBadQuery: the query of the address is broken.
var errBadQuery = errors.New("the address cannot be read: after the question mark, % and ; have to be escaped")

// errNotFound: there is no such page.
var errNotFound = errors.New("there is no such page")
