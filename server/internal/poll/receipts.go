package poll

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
)

// ReceiptRequest is the request by which a cluster reports that it has applied an input.
type ReceiptRequest struct {
	list, id string
	input    fleet.Receipt
}

// MaxInputID is the longest id of an input in bytes.
const MaxInputID = 253

// IsInputID reports whether an id may be that of an input, and whether every store can keep it.
func IsInputID(id string) bool {
	return id != "" && len(id) <= MaxInputID && utf8.ValidString(id) && !strings.ContainsRune(id, 0)
}

// ParseReceipt parses a receipt. recordReceipt checks whether the cluster has the input.
func ParseReceipt(st *fleet.State, list, id, input string) (r ReceiptRequest, err error) {
	if strings.Contains(id, "/") { // the router matches the rest of a path with the last parameter
		return r, echo.ErrNotFound
	}
	if _, ok := st.PolledAt(list); !ok {
		return r, &fleet.Error{Code: fleet.CodeNotFound, Detail: "there is no list of this name"}
	}
	r.list, r.id = list, id
	var problems []fleet.Problem
	if !IsInputID(id) {
		problems = append(problems, fleet.Problem{Detail: "path parameter input_id: must be the id of an input"})
	}
	var ok bool
	if r.input, ok = fleet.ParseReceipt(input); !ok {
		problems = append(problems, fleet.Problem{Detail: "query parameter input: must be the receipt of an input, 16 hexadecimal digits in lower case"})
	}
	return r, fleet.Invalid(problems)
}

// Receipt returns the answer to an authorized receipt.
func (p *Responder) Receipt(r *http.Request, caller *auth.Principal, st *fleet.State, cluster *fleet.Document, sent ReceiptRequest) (Answer, error) {
	answer, err := fleet.EmptyAnswer()
	if err != nil {
		return Answer{}, err
	}
	if reporter, counts := p.Reporter(caller, cluster.ID); counts && fluxPoll(r, caller) {
		if err := p.recordReceipt(st, cluster, reporter, sent); err != nil {
			return Answer{}, err
		}
	}
	return p.newAnswer(r, answer, st)
}

// recordReceipt records a receipt of a cluster's own Flux under the name of a reporter. An error makes the cluster send it again.
func (p *Responder) recordReceipt(st *fleet.State, cluster *fleet.Document, reporter string, sent ReceiptRequest) error {
	now := p.cfg.Now()
	if p.cfg.Tracker.RecordRepeatedReceipt(reporter, sent.list, sent.id, sent.input, now) {
		return nil
	}
	kind, _ := st.PolledAt(sent.list) // ParseReceipt has found it
	desired, err := st.Answer(cluster, kind)
	if err != nil {
		return err
	}
	if again := p.cfg.Tracker.RecordReceipt(reporter, st.DesiredInputsIn(cluster, kind, desired), sent.id, sent.input, now); again > 0 {
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
