package server

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5/static"
	"github.com/swaggest/swgui/v5emb"
	"sigs.k8s.io/yaml"
)

// docsPolicy lets Swagger UI run from our own files and talk to our own API, and nothing else.
const docsPolicy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mountDocs serves Swagger UI at /docs/.
func (s *Server) mountDocs() {
	ui := v5emb.NewWithConfig(swgui.Config{
		Title: "flux-resourceset",
		SettingsUI: map[string]string{
			"persistAuthorization": "false", // a token does not outlive the page
			"tryItOutEnabled":      "true",
			"docExpansion":         `"list"`,
		},
	})("flux-resourceset", "/docs/openapi.json", "/docs/")
	handler := func(c echo.Context) error {
		if file := c.Param("*"); file != "" && !isDocsFile(file) {
			return echo.ErrNotFound // as a problem; the file server would answer in plain text
		}
		c.Response().Header().Set("Content-Security-Policy", docsPolicy)
		ui.ServeHTTP(c.Response(), c.Request())
		return nil
	}
	router := withHead{s.echo}
	router.GET("/docs/openapi.json", s.getDocsSpec)
	router.GET("/docs/*", handler)
	router.GET("/docs", func(c echo.Context) error { return c.Redirect(http.StatusMovedPermanently, "/docs/") })
}

// isDocsFile tells whether Swagger UI has the file. Most are embedded in compressed form only.
func isDocsFile(name string) bool {
	for _, stored := range []string{name, name + ".gz"} {
		if info, err := fs.Stat(static.FS, stored); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

func (s *Server) getDocsSpec(c echo.Context) error {
	doc, err := s.docsSpec()
	if err != nil {
		return fmt.Errorf("the OpenAPI document: %w", err)
	}
	return c.Blob(http.StatusOK, "application/json", doc)
}

// makeDocsSpec is the contract as Swagger UI shows it. The page fills in the example of every parameter when somebody
// tries an operation; one of an optional parameter would filter, wait for a revision that is not there, or make a
// write stale.
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
