package server

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
	"github.com/flux-resourceset/flux-resourceset/server/internal/poll"
)

// maxEvent is the largest event in bytes. Failures of Helm have some KiB of log.
const maxEvent = 64 << 10

// fluxEvent has the fields of a Flux event that this service reads; others are ignored.
type fluxEvent struct {
	InvolvedObject struct{ Kind, Namespace, Name string } `json:"involvedObject"`
	Severity       string                                 `json:"severity"`
	Timestamp      *time.Time                             `json:"timestamp"`
	Reason         string                                 `json:"reason"`
	Message        string                                 `json:"message"`
	Metadata       map[string]string                      `json:"metadata"`
}

// SendEvent records an event of a cluster. The cluster is that of the path, which the credential was checked for, not that of
// the event.
func (s *Server) SendEvent(c echo.Context, dns string) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	cluster, err := poll.Cluster(st, dns)
	if err != nil {
		return err
	}
	e, err := readEvent(c)
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	list, id, event := e.target(st, now)
	for _, text := range []*string{&id, &event.Object, &event.Reason, &event.Revision, &event.Message} {
		*text = s.masker.All(*text)
	}
	r := requestOf(c)
	reporter, counts := s.polls.Reporter(&r.principal, cluster.ID)
	if poll.IsPerson(r.Request()) || !counts {
		return c.NoContent(http.StatusAccepted) // a test by a person is no event of the cluster
	}
	if !s.tracker.RecordEvent(reporter, list, id, event, now) {
		return &httperror.Error{
			Status: http.StatusTooManyRequests, Code: "too_many_requests",
			Detail: "too many events of this cluster: the event was not recorded; send it again later", Headers: map[string]string{"Retry-After": "1"},
		}
	}
	return c.NoContent(http.StatusAccepted)
}

func readEvent(c echo.Context) (e fluxEvent, err error) {
	r := c.Request()
	if name, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType)); err != nil || name != "application/json" {
		return e, openapi.UnsupportedType("send application/json")
	}
	if enc := r.Header.Get(echo.HeaderContentEncoding); enc != "" && enc != "identity" {
		return e, openapi.UnsupportedType("send the body uncompressed")
	}
	tooLarge := &httperror.Error{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: "an event is at most 64 KiB"}
	if r.ContentLength > maxEvent {
		return e, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, maxEvent))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return e, tooLarge
		}
		return e, &httperror.Error{Status: http.StatusBadRequest, Code: "validation_error", Detail: "the body could not be read to its end"}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		problem := fleet.Problem{Detail: "must be an event of Flux"}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			problem = fleet.Problem{Pointer: "/" + strings.ReplaceAll(wrong.Field, ".", "/"), Detail: "must not be of type " + wrong.Value}
		}
		return e, fleet.Invalid([]fleet.Problem{problem})
	}
	var problems []fleet.Problem
	for _, field := range []struct{ at, value string }{
		{"/involvedObject/kind", e.InvolvedObject.Kind}, {"/involvedObject/name", e.InvolvedObject.Name}, {"/reason", e.Reason}, {"/severity", e.Severity},
	} {
		if field.value == "" {
			problems = append(problems, fleet.Problem{Pointer: field.at, Detail: "is required"})
		}
		if len(field.value) > poll.MaxInputID {
			problems = append(problems, fleet.Problem{Pointer: field.at, Detail: "must be at most 253 bytes"})
		}
	}
	if len(e.InvolvedObject.Namespace) > poll.MaxInputID {
		problems = append(problems, fleet.Problem{Pointer: "/involvedObject/namespace", Detail: "must be at most 253 bytes"})
	}
	return e, fleet.Invalid(problems)
}

// target returns the input, with its list, that an event is about. The list is empty when it is about an object instead.
func (e *fluxEvent) target(st *fleet.State, now time.Time) (list, id string, _ clusterstatus.Event) {
	metadata := func(name string) string {
		if value, ok := e.Metadata[name]; ok {
			return value
		}
		return e.Metadata["event.toolkit.fluxcd.io/"+name]
	}
	object := e.InvolvedObject.Kind + "/" + e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
	out := clusterstatus.Event{
		Severity: e.Severity, Reason: e.Reason, Message: e.Message, Object: object, Revision: metadata("revision"), At: now,
	}
	if e.Timestamp != nil {
		out.At = *e.Timestamp
	}
	if input, ok := fleet.ParseReceipt(metadata("input")); ok {
		out.Input = input.String()
	}
	list, id = metadata("list"), metadata("component")
	if list == "" {
		list = fleet.KindComponent.Endpoint()
	}
	if _, ok := st.PolledAt(list); !ok || !poll.IsInputID(id) || strings.Contains(id, "/") {
		return "", strings.ToValidUTF8(strings.ReplaceAll(object, "\x00", ""), "\uFFFD"), out
	}
	return list, id, out
}
