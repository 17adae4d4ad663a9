package server

import (
	"encoding/json"
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// Users paste secrets where a reason, an id or a name belongs. A commit stays in the history, and logs are copied to other systems,
// so requests with a recognizable secret are refused.

// labels are the texts of a body that are shown in lists, logs and the history.
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
	var body labels
	_ = json.Unmarshal(requestBody(c), &body) // validate refuses a body of another form
	body.visit("", func(pointer, text string) { look(pointer, "", text) })
	return fleet.Invalid(problems)
}

// visit visits the texts with their JSON pointers.
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
