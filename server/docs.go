package server

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/swaggest/swgui/v5/static"
	"github.com/swaggest/swgui/v5emb"
	"sigs.k8s.io/yaml"
)

// docsPolicy lets Swagger UI run from our own files and call our own API, and forbids injected scripts and styles.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' '" + logoStyle + "'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// logoStyle is the hash of the only style in the script of Swagger UI: the colors of its logo.
const logoStyle = "sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w="

// docsPage is the page around Swagger UI; the library's own page has inline scripts and styles.
//
//go:embed docs
var docsPage embed.FS

// mountDocs serves Swagger UI at /docs/.
func (s *Server) mountDocs() {
	ui := v5emb.New("", "", "/docs/")
	handler := func(c echo.Context) error {
		file := c.Param("*")
		if file == "" {
			file = "index.html"
		}
		c.Response().Header().Set("Content-Security-Policy", docsPolicy)
		switch {
		case isFile(docsPage, "docs/"+file):
			http.ServeFileFS(c.Response(), c.Request(), docsPage, "docs/"+file)
		case isFile(static.FS, file) || isFile(static.FS, file+".gz"): // most are embedded in compressed form only
			ui.ServeHTTP(c.Response(), c.Request())
		default:
			return echo.ErrNotFound // as a problem document; the file server would answer in plain text
		}
		return nil
	}
	router := withHead{Echo: s.echo}
	router.GET("/docs/openapi.json", s.getDocsSpec)
	router.GET("/docs/*", handler)
	router.GET("/docs", func(c echo.Context) error { return c.Redirect(http.StatusMovedPermanently, "/docs/") })
}

func isFile(files fs.FS, name string) bool {
	info, err := fs.Stat(files, name)
	return err == nil && !info.IsDir()
}

func (s *Server) getDocsSpec(c echo.Context) error {
	doc, err := s.docsSpec()
	if err != nil {
		return fmt.Errorf("the OpenAPI document: %w", err)
	}
	return c.Blob(http.StatusOK, "application/json", doc)
}

// makeDocsSpec returns the OpenAPI document for Swagger UI, without the examples of optional parameters. The page would fill
// them in when a user tries an operation: they would filter, wait for a revision that does not exist, or make a write stale.
func makeDocsSpec(spec []byte) ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(spec, &doc); err != nil {
		return nil, err
	}
	components, _ := doc["components"].(map[string]any)
	parameters, _ := components["parameters"].(map[string]any)
	for _, v := range parameters {
		p, _ := v.(map[string]any)
		if required, _ := p["required"].(bool); !required {
			delete(p, "example")
		}
	}
	return json.Marshal(doc)
}
