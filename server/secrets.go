package server

import (
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// Users paste secrets where a reason, an id or a name belongs. A commit stays in the history, and logs are copied to other systems,
// so requests with a recognizable secret are refused.

// labels are the fields of a body whose texts are shown in lists, logs and the history.
var labels = []string{"id", "name", "description", "reason", "field_manager", "cluster_id", "cluster_name"}

// rejectSecrets refuses a request that has a secret in such a text, in a header or in the path.
func (s *Server) rejectSecrets(c echo.Context) error {
	var problems []fleet.Problem
	look := func(pointer, where, text string) {
		if secret := s.masker.Find(text); secret != "" {
			problems = append(problems, fleet.Problem{Pointer: pointer, Detail: fmt.Sprintf(
				"%slooks like %s, and would stay in the history: remove it, and rotate it if it is a secret", where, secret)})
		}
	}
	for _, name := range []string{response.HeaderChangeReason, response.HeaderChangeAuthor} {
		look("", "header "+name+": ", c.Request().Header.Get(name))
	}
	look("", "query parameter field_manager: ", c.QueryParam("field_manager"))
	for _, id := range c.ParamValues() {
		look("", "the path: ", id)
	}
	visitLabels(requestOf(c).body.Value, "", func(pointer, text string) { look(pointer, "", text) })
	return fleet.Invalid(problems)
}

// visitLabels visits such texts with their JSON pointers, also in the operations of a batch and in their documents and patches.
func visitLabels(body any, at string, visit func(pointer, text string)) {
	object, _ := body.(map[string]any)
	for _, field := range labels {
		if text, ok := object[field].(string); ok {
			visit(at+"/"+field, text)
		}
	}
	ids, _ := object["cluster_ids"].([]any)
	for i, id := range ids {
		if text, ok := id.(string); ok {
			visit(fmt.Sprintf("%s/cluster_ids/%d", at, i), text)
		}
	}
	for _, field := range []string{"document", "patch"} {
		if content := object[field]; content != nil {
			visitLabels(content, at+"/"+field, visit)
		}
	}
	operations, _ := object["operations"].([]any)
	for i, op := range operations {
		visitLabels(op, fmt.Sprintf("%s/operations/%d", at, i), visit)
	}
}
