package server

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
)

// receipt is the request by which a cluster reports that it has applied an input.
type receipt struct {
	list, id string
	input    fleet.Receipt
}

func (s *Server) PollReceipt(c echo.Context, dns, list, id string, p api.PollReceiptParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	cluster, err := findPolled(st, dns)
	if err != nil {
		return err
	}
	r := requestOf(c)
	sent, err := readReceipt(st, list, id, p.Input)
	if err != nil {
		return err
	}
	out, err := s.answerReceipt(r.Request(), r.principal.Role, st, cluster, sent)
	if err != nil {
		return err
	}
	out.age = r.age
	return out.send(c, p.IfNoneMatch)
}

// maxInputID is the longest id of an input in bytes.
const maxInputID = 253

// readReceipt parses a receipt. recordReceipt checks whether the cluster has the input.
func readReceipt(st *fleet.State, list, id, input string) (r receipt, err error) {
	if strings.Contains(id, "/") { // the router matches the rest of a path with the last parameter
		return r, echo.ErrNotFound
	}
	if _, ok := st.PolledAt(list); !ok {
		return r, &fleet.Error{Code: fleet.CodeNotFound, Detail: "there is no list of this name"}
	}
	r.list, r.id = list, id
	var problems []fleet.Problem
	if id == "" || len(id) > maxInputID || !openapi.IsText(id) {
		problems = append(problems, fleet.Problem{Detail: "path parameter input_id: must be the id of an input"})
	}
	var ok bool
	if r.input, ok = fleet.ParseReceipt(input); !ok {
		problems = append(problems, fleet.Problem{Detail: "query parameter input: must be the receipt of an input, 16 hexadecimal digits in lower case"})
	}
	return r, fleet.Invalid(problems)
}

// answerReceipt returns the answer to an authorized receipt, for the router and for the fast path.
func (s *Server) answerReceipt(r *http.Request, caller auth.Role, st *fleet.State, cluster *fleet.Document, sent receipt) (pollAnswer, error) {
	answer, err := fleet.EmptyAnswer()
	if err != nil {
		return pollAnswer{}, err
	}
	if ownPoll(r, caller) {
		if err := s.recordReceipt(st, cluster, sent); err != nil {
			return pollAnswer{}, err
		}
	}
	return s.newPollAnswer(r, answer, st)
}

// recordReceipt records a receipt of a cluster's own Flux. An error makes the cluster send it again.
func (s *Server) recordReceipt(st *fleet.State, cluster *fleet.Document, sent receipt) error {
	now := s.cfg.Now()
	if s.tracker.RecordRepeatedReceipt(cluster.ID, sent.list, sent.id, sent.input, now) {
		return nil
	}
	kind, _ := st.PolledAt(sent.list) // readReceipt has found it
	desired, err := st.Answer(cluster, kind)
	if err != nil {
		return err
	}
	if again := s.tracker.RecordReceipt(cluster.ID, st.DesiredInputsIn(cluster, kind, desired), sent.id, sent.input, now); again > 0 {
		return errEarlyReceipt(again)
	}
	return nil
}

// errEarlyReceipt makes the cluster send a receipt again, which Flux Operator does for more than an hour. It is no fault of
// the service, so it is not one of the 5xx codes, on which alerts fire.
func errEarlyReceipt(wait time.Duration) error {
	seconds := int64(math.Ceil(wait.Seconds()))
	return &httperror.Error{
		Status: http.StatusConflict, Code: "early_receipt",
		Detail:  fmt.Sprintf("the receipt was not recorded, because the cluster was not served this input, or was served another one a moment ago: send it again in %d s", seconds),
		Headers: map[string]string{"Retry-After": strconv.FormatInt(seconds, 10)},
	}
}
