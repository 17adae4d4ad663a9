package clusterstatus

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Kinds of subjects: the text before their first slash.
const (
	kindSeen         = "seen"
	kindPoll         = "poll"
	kindReceipt      = "receipt"
	kindInvalidation = "void"
	kindEvent        = "event"
	kindShared       = "shared"    // the last poll with a token that is not the cluster's own
	kindUncounted    = "uncounted" // an answer to a poll with a shared token, if such polls do not count
)

// sharedPrefix is the prefix of the subjects of reports with the shared token.
const sharedPrefix = kindShared + "/"

// subject identifies an observation of a cluster.
type subject struct {
	kind string
	key  inputKey
}

func (s subject) String() string {
	switch s.kind {
	case kindSeen, kindShared:
		return s.kind
	case kindPoll, kindUncounted:
		return s.kind + "/" + s.key.list.Value()
	}
	return s.kind + "/" + s.key.list.Value() + "/" + s.key.id.Value()
}

func parseSubject(text string) (s subject, ok bool) {
	sort, rest, _ := strings.Cut(text, "/")
	list, id, two := strings.Cut(rest, "/")
	s = subject{sort, newInputKey(list, id)}
	switch sort {
	case kindSeen, kindShared:
		return s, rest == ""
	case kindPoll, kindUncounted:
		return s, !two && list != ""
	case kindReceipt, kindInvalidation, kindEvent:
		return s, two && id != ""
	}
	return s, false
}

// subjects returns the subjects of all observations of the cluster.
func (c *cluster) subjects() []subject {
	var out []subject
	if c.seen > 0 {
		out = append(out, subject{kind: kindSeen, key: newInputKey("", "")})
	}
	for _, p := range c.polls {
		if p.etag == "" {
			continue
		}
		out = append(out, subject{kindPoll, newInputKey(p.list, "")})
	}
	if c.sharedSeen > 0 {
		out = append(out, subject{kind: kindShared, key: newInputKey("", "")})
	}
	for _, p := range c.uncounted {
		if p.etag != "" {
			out = append(out, subject{kindUncounted, newInputKey(p.list, "")})
		}
	}
	for key := range c.receipts {
		out = append(out, subject{kindReceipt, key})
	}
	for key := range c.invalidations {
		out = append(out, subject{kindInvalidation, key})
	}
	for key := range c.events {
		out = append(out, subject{kindEvent, key})
	}
	return out
}

// The JSON bodies of rows.
type (
	seenBody struct {
		Agent    string  `json:"agent,omitempty"`
		Interval float64 `json:"interval,omitempty"`
	}
	pollBody struct {
		ETag     string `json:"etag"`
		Revision int64  `json:"revision,omitempty"` // from which it was first served
		// The receipts of the inputs in the list, and of the inputs that were removed from it within settleTime: see encode.
		Served  string `json:"asked,omitempty"`
		Removed string `json:"withdrawn,omitempty"`
	}
	receiptBody struct {
		Input string `json:"input"`
	}
	invalidationBody struct {
		Input string `json:"input"`
	}
)

// encodeRow returns the row of a subject; not ok when the observation was removed.
func (c *cluster) encodeRow(s subject) (Row, bool) {
	var body any
	var observedAt int64
	switch s.kind {
	case kindSeen:
		body, observedAt = seenBody{c.agent, c.interval.Seconds()}, c.seen
	case kindPoll:
		p := c.poll(s.key.list.Value())
		if p == nil || p.etag == "" {
			return Row{}, false
		}
		body, observedAt = pollBody{p.etag, p.revision, p.served.encode(), p.removed.encode(p.since)}, p.since
	case kindShared:
		body, observedAt = struct{}{}, c.sharedSeen
	case kindUncounted:
		p := c.uncounted.find(s.key.list.Value())
		if p == nil || p.etag == "" {
			return Row{}, false
		}
		body, observedAt = pollBody{ETag: p.etag, Revision: p.revision}, p.since
	case kindReceipt:
		r, ok := c.receipts[s.key]
		if !ok {
			return Row{}, false
		}
		body, observedAt = receiptBody{r.input.String()}, r.at
	case kindInvalidation:
		v, ok := c.invalidations[s.key]
		if !ok {
			return Row{}, false
		}
		body, observedAt = invalidationBody{v.input.String()}, v.at
	case kindEvent:
		e, ok := c.events[s.key]
		if !ok {
			return Row{}, false
		}
		body, observedAt = e, e.At.UnixMilli()
	}
	text, err := json.Marshal(body)
	id, shared := clusterOf(c.id)
	subject := s.String()
	if shared {
		subject = sharedPrefix + subject
	}
	return Row{Cluster: id, Subject: subject, Body: string(text), ObservedAt: time.UnixMilli(observedAt)}, err == nil
}

// maxSharedInputs is the limit of the served and of the removed inputs of one list in a row. Larger sets are written as
// tooMany.
const (
	maxSharedInputs = 512
	tooMany         = "*"
)

// encode returns the receipts of the inputs in base64, with a leading "="; empty when they are not known.
func (in inputSet) encode() string {
	switch {
	case !in.known:
		return ""
	case len(in.receipts) > maxSharedInputs:
		return tooMany
	}
	raw := make([]byte, 0, len(in.receipts)*len(fleet.Receipt{}))
	for _, r := range in.receipts {
		raw = append(raw, r[:]...)
	}
	return "=" + base64.RawStdEncoding.EncodeToString(raw)
}

// decodeInputs parses the text of inputSet.encode. Inputs in unreadable text are not known.
func decodeInputs(text string) inputSet {
	raw, ok := decodePacked(text, len(fleet.Receipt{}))
	in := inputSet{known: ok}
	for chunk := range slices.Chunk(raw, len(fleet.Receipt{})) {
		in.receipts = append(in.receipts, fleet.Receipt(chunk))
	}
	return in
}

// decodePacked decodes the base64 text of items of that many bytes; not ok when it is invalid or has too many.
func decodePacked(text string, size int) (raw []byte, ok bool) {
	text, ok = strings.CutPrefix(text, "=")
	if !ok || len(text) > base64.RawStdEncoding.EncodedLen(maxSharedInputs*size) {
		return nil, false
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(raw)%size != 0 {
		return nil, false
	}
	return raw, true
}

// ageBytes is the size of an encoded age in milliseconds; settleTime, the largest, fits into it.
const ageBytes = 2

// encode returns the removed inputs in base64, each with its age in milliseconds at a time.
func (w *removedInputs) encode(at int64) string {
	w.expire(at)
	if w.allAt > 0 || len(w.byInput) > maxSharedInputs {
		return tooMany
	}
	if len(w.byInput) == 0 {
		return ""
	}
	raw := make([]byte, 0, len(w.byInput)*(len(fleet.Receipt{})+ageBytes))
	for _, one := range w.byInput {
		raw = binary.BigEndian.AppendUint16(append(raw, one.input[:]...), uint16(max(0, at-one.at))) // at most settleTime: expire
	}
	return "=" + base64.RawStdEncoding.EncodeToString(raw)
}

// decode adds the removed inputs that another process encoded at a time. Unreadable text adds none.
func (w *removedInputs) decode(text string, at int64) {
	if text == tooMany {
		w.allAt = max(w.allAt, at)
	}
	const size = len(fleet.Receipt{}) + ageBytes
	raw, _ := decodePacked(text, size)
	for chunk := range slices.Chunk(raw, size) {
		w.add(fleet.Receipt(chunk), at-int64(binary.BigEndian.Uint16(chunk[size-ageBytes:])))
	}
}
