package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"sync"
)

//go:embed static
var static embed.FS

// scriptFiles are the scripts of all pages, in the order of their execution.
var scriptFiles = []string{"page.js", "strip.js", "search.js", "news.js"}

// serveScripts serves all scripts as one file: it is smaller compressed, and one request.
func serveScripts(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	cache(w, r)
	for _, name := range scriptFiles {
		text, err := static.ReadFile("static/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		_, _ = w.Write(text) // fails when the browser is gone
	}
}

// cache lets browsers cache the answer if the v parameter is the digest of this version.
func cache(w http.ResponseWriter, r *http.Request) {
	if digest, err := assets(); err == nil && r.URL.Query().Get("v") == digest {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
}

// cached lets browsers cache a file if the v parameter is the digest of this version. During an update a browser may request a file of
// the new version from an old process, which must not be cached.
func cached(files fs.FS, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := fs.Stat(files, r.URL.Path)
		if err != nil || info.IsDir() {
			http.NotFound(w, r)
			return
		}
		cache(w, r)
		next.ServeHTTP(w, r)
	})
}

// assets returns a digest of all static files. Their addresses contain it, so that a browser never uses files of another version.
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
