package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// People paste secrets where a reason, an id or a name belongs. What is committed stays in the history, and what is logged
// goes wherever logs go, so neither takes in what is known to be a secret.

// secretLooks are texts that are secrets by their looks alone.
var secretLooks = []struct {
	name string
	look *regexp.Regexp
}{
	{"a token of this service", regexp.MustCompile(`frs_[0-9A-Za-z]{49}`)},
	{"a private key", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY(?s:.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$))?`)},
	{"a JSON web token", regexp.MustCompile(`eyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]*`)},
	{"a key of AWS", regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"a token of GitHub", regexp.MustCompile(`\b(gh[pousr]_[0-9A-Za-z]{36}|github_pat_[0-9A-Za-z_]{50,})`)},
	{"a token of GitLab", regexp.MustCompile(`\bglpat-[0-9A-Za-z_-]{20}`)},
}

// secretIn names the secret that a text contains; empty when it contains none that is known.
func (s *Server) secretIn(text string) string {
	if text == "" {
		return ""
	}
	for _, token := range s.cfg.Tokens.long() {
		if strings.Contains(text, token) {
			return "a token of this server's configuration"
		}
	}
	for _, secret := range secretLooks {
		if secret.look.MatchString(text) {
			return secret.name
		}
	}
	return ""
}

// minMasked is the length of the shortest static token that is looked for in text: shorter ones are parts of words.
const minMasked = 8

// long are the static tokens that can be told from other text.
func (t Tokens) long() []string {
	all := []string{t.Read, t.ReadPrevious, t.Write, t.WritePrevious}
	return slices.DeleteFunc(all, func(token string) bool { return len(token) < minMasked })
}

// named are the texts of a body that name or explain something, and so are shown in lists, logs and the history.
type labels struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Reason       string   `json:"reason"`
	FieldManager string   `json:"field_manager"`
	ClusterID    string   `json:"cluster_id"`
	ClusterName  string   `json:"cluster_name"`
	Document     *labels  `json:"document"`
	Operations   []labels `json:"operations"`
	ClusterIDs   []string `json:"cluster_ids"`
}

// refuseSecrets refuses a request that would put a secret where everybody reads it.
func (s *Server) rejectSecrets(c echo.Context) error {
	var problems []fleet.Problem
	look := func(pointer, where, text string) {
		if what := s.secretIn(text); what != "" {
			problems = append(problems, fleet.Problem{Pointer: pointer, Detail: fmt.Sprintf(
				"%slooks like %s, and would stay in the history: remove it, and rotate it if it is a secret", where, what)})
		}
	}
	for _, name := range []string{headerChangeReason, headerChangeAuthor} {
		look("", "header "+name+": ", c.Request().Header.Get(name))
	}
	look("", "query parameter field_manager: ", c.QueryParam("field_manager"))
	for _, id := range c.ParamValues() {
		look("", "the path: ", id)
	}
	var body labels
	_ = json.Unmarshal(requestBody(c), &body) // what has another form is none of these, and is refused for that elsewhere
	body.visit("", func(pointer, text string) { look(pointer, "", text) })
	return fleet.Invalid(problems)
}

// each visits the texts with where they stand.
func (n *labels) visit(at string, visit func(pointer, text string)) {
	for field, text := range map[string]string{
		"id": n.ID, "name": n.Name, "description": n.Description, "reason": n.Reason, "field_manager": n.FieldManager, "cluster_id": n.ClusterID, "cluster_name": n.ClusterName,
	} {
		visit(at+"/"+field, text)
	}
	for i, id := range n.ClusterIDs {
		visit(fmt.Sprintf("%s/cluster_ids/%d", at, i), id)
	}
	if n.Document != nil {
		n.Document.visit(at+"/document", visit)
	}
	for i := range n.Operations {
		n.Operations[i].visit(fmt.Sprintf("%s/operations/%d", at, i), visit)
	}
}

// MaskSecrets is a handler that passes records on without the tokens of the configuration, and those of this service,
// wherever they stand: in messages, values, and the texts of errors.
func MaskSecrets(next slog.Handler, tokens Tokens) slog.Handler {
	var pairs []string
	for _, token := range tokens.long() {
		pairs = append(pairs, token, "***")
	}
	return &maskingHandler{next, strings.NewReplacer(pairs...)}
}

type maskingHandler struct {
	next   slog.Handler
	static *strings.Replacer
}

// Enabled implements slog.Handler.
func (m *maskingHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return m.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (m *maskingHandler) Handle(ctx context.Context, r slog.Record) error {
	masked := slog.NewRecord(r.Time, r.Level, m.text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(m.attr(a))
		return true
	})
	return m.next.Handle(ctx, masked)
}

// WithAttrs implements slog.Handler.
func (m *maskingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = m.attr(a)
	}
	return &maskingHandler{m.next.WithAttrs(masked), m.static}
}

// WithGroup implements slog.Handler.
func (m *maskingHandler) WithGroup(name string) slog.Handler {
	return &maskingHandler{m.next.WithGroup(name), m.static}
}

func (m *maskingHandler) text(text string) string { return m.static.Replace(redact(text)) }

func (m *maskingHandler) attr(a slog.Attr) slog.Attr {
	a.Key = m.text(a.Key)
	switch v := a.Value.Resolve(); v.Kind() { //nolint:exhaustive // numbers and times hold no token
	case slog.KindString:
		a.Value = slog.StringValue(m.text(v.String()))
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(v.Group()))
		for _, member := range v.Group() {
			group = append(group, m.attr(member))
		}
		a.Value = slog.GroupValue(group...)
	case slog.KindAny:
		if text := fmt.Sprint(v.Any()); m.text(text) != text {
			a.Value = slog.StringValue(m.text(text))
		}
	}
	return a
}
