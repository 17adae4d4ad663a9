package ui

import (
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// prefix is where the page is; cookies and links are below it.
const prefix = "/ui"

// Config is what the page is made of. API is required.
type Config struct {
	// API answers the requests that pages make.
	API http.Handler
	// SessionKey is the secret that sessions are kept under, the same for all replicas. Empty: sessions end with the process.
	SessionKey string
	// Changes are offered, to those who may make them.
	Changes bool
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
}

// Page is the fleet page in front of an API.
type Page struct {
	cfg     Config
	seal    *seal
	routes  *http.ServeMux
	origins *http.CrossOriginProtection
	places  chan struct{}
}

// maxPages is how many pages are made at a time: each may ask for the state of ten thousand clusters.
const maxPages = 32

//go:embed static
var static embed.FS

// New makes the page. It fails when there is no randomness for a session key.
func New(cfg Config) (*Page, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	sealed, err := newSeal(cfg.SessionKey)
	if err != nil {
		return nil, err
	}
	p := &Page{cfg: cfg, seal: sealed, routes: http.NewServeMux(), origins: http.NewCrossOriginProtection(), places: make(chan struct{}, maxPages)}
	files, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	p.routes.Handle("GET "+prefix+"/static/", http.StripPrefix(prefix+"/static/", cached(http.FileServerFS(files))))
	p.routes.HandleFunc("GET "+prefix+"/sign-in", p.signInForm)
	p.routes.HandleFunc("POST "+prefix+"/sign-in", p.signIn)
	p.routes.HandleFunc("POST "+prefix+"/sign-out", p.signOut)
	for pattern, show := range map[string]func(*visit) error{
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
		"/changes/{revision}/revert":        showRevert,
		"/search":                           showSearch,
		"/":                                 func(*visit) error { return errNotFound },
	} {
		p.routes.Handle("GET "+prefix+pattern, p.visited(show))
	}
	if cfg.Changes {
		p.routes.Handle("POST "+prefix+"/changes/{revision}/revert", p.visited(revert))
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

// maxForm is the largest form, in bytes.
const maxForm = 16 << 10

func (p *Page) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if err := p.origins.Check(r); err != nil {
		http.Error(w, "this form came from another site", http.StatusForbidden)
		return
	}
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	default:
		h.Set("Retry-After", "1")
		http.Error(w, "too many pages are being made: try again in a second", http.StatusServiceUnavailable)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	p.routes.ServeHTTP(w, r)
}

// cached lets browsers keep files of this version.
func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("v") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		next.ServeHTTP(w, r)
	})
}

// visited makes a handler of what shows a page to somebody who is signed in.
func (p *Page) visited(show func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, ok := p.session(w, r)
		if !ok {
			p.toSignIn(w, r)
			return
		}
		v, err := p.newVisit(w, r, session)
		if err == nil {
			err = v.identify()
		}
		if err == nil {
			err = show(v)
		}
		if err != nil {
			p.failed(w, r, v, err)
		}
	})
}

// errNotFound: there is no such page.
var errNotFound = errors.New("there is no such page")
