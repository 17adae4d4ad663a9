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
)

// receipt is what a cluster says by asking for one: that it has applied this input.
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
	said, err := readReceipt(st, list, id, p.Input)
	if err != nil {
		return err
	}
	out, err := s.answerReceipt(r.Request(), r.who.role, st, cluster, said)
	if err != nil {
		return err
	}
	out.age = r.age
	return out.send(c, p.IfNoneMatch)
}

// maxInputID is the longest id of an input.
const maxInputID = 253

// readReceipt reads a receipt. Whether the cluster has that input is not asked: it may be that of a revision that this
// process has not heard of yet.
func readReceipt(st *fleet.State, list, id, input string) (r receipt, err error) {
	if strings.Contains(id, "/") { // the router takes the rest of a path for its last parameter
		return r, echo.ErrNotFound
	}
	if _, ok := st.PolledAt(list); !ok {
		return r, &fleet.Error{Code: fleet.CodeNotFound, Detail: "clusters poll no list of this name"}
	}
	r.list, r.id = list, id
	var problems []fleet.Problem
	if id == "" || len(id) > maxInputID || !isText(id) {
		problems = append(problems, fleet.Problem{Detail: "path parameter input_id: must be the id of an input"})
	}
	var ok bool
	if r.input, ok = fleet.ParseReceipt(input); !ok {
		problems = append(problems, fleet.Problem{Detail: "query parameter input: must be an input's receipt, 16 hexadecimal digits in lower case"})
	}
	return r, fleet.Invalid(problems)
}

// answerReceipt is the answer to a receipt that is allowed, whichever way it came.
func (s *Server) answerReceipt(r *http.Request, who role, st *fleet.State, cluster *fleet.Document, said receipt) (outgoing, error) {
	answer, err := fleet.EmptyAnswer()
	if err != nil {
		return outgoing{}, err
	}
	if ownPoll(r, who) {
		if early := s.book.Received(cluster.ID, said.list, said.id, said.input, s.cfg.Now()); early > 0 {
			return outgoing{}, errEarlyReceipt(early)
		}
	}
	return s.outgoing(r, answer, st)
}

// errEarlyReceipt has the cluster say it again, which Flux Operator does for an hour and more. It is no fault of ours, so it is
// none of the 5xx that somebody is called for.
func errEarlyReceipt(wait time.Duration) error {
	seconds := int64(math.Ceil(wait.Seconds()))
	return &publicError{
		status: http.StatusConflict, code: "early_receipt",
		detail:  fmt.Sprintf("the cluster was asked for something else a moment ago, so that this may be of before: say it again in %d s", seconds),
		headers: map[string]string{"Retry-After": strconv.FormatInt(seconds, 10)},
	}
}
