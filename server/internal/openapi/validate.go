package openapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// maxBody is the largest request body in bytes.
const maxBody = 4 << 20

// MaxProblems is the limit of problems in an answer: a body may have a hundred thousand.
const MaxProblems = 1000

// Validate validates the parameters and the body of a request against the OpenAPI document, and reports all problems. It
// returns the body. It calls begin before it validates a body, because that takes many times the size of
// the body.
func (op *Operation) Validate(c echo.Context, begin func() error) (Body, error) {
	if op.spec == nil {
		return Body{}, nil // mode read-only: no operation takes parameters
	}
	for _, id := range c.ParamValues() {
		if text, err := url.PathUnescape(id); err != nil || !isText(text) {
			return Body{}, echo.ErrNotFound // no document has such an id, and not every store can look for it
		}
	}
	problems := op.checkParameters(c)
	text, err := op.readBody(c)
	if err != nil {
		return Body{}, err
	}
	if err := begin(); err != nil {
		return Body{}, err
	}
	body := Body{Text: text}
	if text != nil {
		var found []fleet.Problem
		if body.Value, found = parse(text); found == nil {
			found = checkValue(op.bodySchema(c.Request().Header.Get(echo.HeaderContentType)), body.Value)
		}
		problems = append(problems, found...)
	}
	return body, fleet.Invalid(problems)
}

// Body is a validated body. It is parsed once, and its value must not be changed.
type Body struct {
	Text  []byte // nil: there is none
	Value any    // as [fleet.ParseJSON] returns it
}

// Object returns the value, which must be an object.
func (b Body) Object() (map[string]any, error) {
	obj, ok := b.Value.(map[string]any)
	if !ok {
		return nil, fleet.Invalid([]fleet.Problem{{Detail: "must be a JSON object"}})
	}
	return obj, nil
}

func (op *Operation) checkParameters(c echo.Context) []fleet.Problem {
	input := &openapi3filter.RequestValidationInput{
		Request: c.Request(), PathParams: map[string]string{}, QueryParams: c.QueryParams(),
		Route:   &routers.Route{Operation: op.spec, PathItem: op.route},
		Options: &openapi3filter.Options{MultiError: true, SkipSettingDefaults: true}, // defaults would change the query
	}
	for i, name := range c.ParamNames() {
		input.PathParams[name] = c.ParamValues()[i]
	}
	var problems []fleet.Problem
	// Parsing drops the parts that it does not understand, which would turn "?cascade=true&dry_run=true;x" into a change.
	if _, err := url.ParseQuery(c.Request().URL.RawQuery); err != nil {
		problems = append(problems, fleet.Problem{Detail: "the query cannot be read: separate parameters with &, and escape every other ; and % as %3B and %25"})
	}
	// HTTP requires that a server honors a condition. POST creates or answers 409, which is the meaning of "*".
	if _, ok := c.Request().Header[response.HeaderIfNoneMatch]; ok && op.Write && c.Request().Method != http.MethodPost {
		problems = append(problems, fleet.Problem{Detail: "header If-None-Match: only for reads; use If-Match for changes"})
	}
	known := map[string]bool{}
	for _, ref := range op.spec.Parameters {
		p := ref.Value
		if p.In == openapi3.ParameterInQuery {
			known[p.Name] = true
		}
		if err := openapi3filter.ValidateParameter(context.WithoutCancel(c.Request().Context()), input, p); err != nil {
			problems = append(problems, fleet.Problem{Detail: fmt.Sprintf("%s parameter %s: %s", p.In, p.Name, parameterReason(err))})
		}
		for _, value := range parameterValues(c, p) {
			switch {
			case !isText(value):
				problems = append(problems, fleet.Problem{Detail: fmt.Sprintf("%s parameter %s: must be UTF-8, without NUL", p.In, p.Name)})
			case value == "" && p.Name == "plan_hash": // likely an empty variable of a script; it must not disable the check
				problems = append(problems, fleet.Problem{Detail: "query parameter plan_hash: must not be empty; leave it out, or send that of a plan"})
			}
		}
		if n := len(c.QueryParams()[p.Name]); p.In == openapi3.ParameterInQuery && n > 1 {
			problems = append(problems, fleet.Problem{Detail: fmt.Sprintf("query parameter %s: given %d times", p.Name, n)})
		}
	}
	// A misspelled dry_run must not become a change.
	for name := range c.QueryParams() {
		if !known[name] {
			problems = append(problems, fleet.Problem{Detail: fmt.Sprintf("query parameter %s: unknown", name)})
		}
	}
	slices.SortFunc(problems, func(a, b fleet.Problem) int { return strings.Compare(a.Detail, b.Detail) })
	return problems
}

// parameterValues returns the values of a query or header parameter.
func parameterValues(c echo.Context, p *openapi3.Parameter) []string {
	switch p.In {
	case openapi3.ParameterInQuery:
		return c.QueryParams()[p.Name]
	case openapi3.ParameterInHeader:
		return c.Request().Header.Values(p.Name)
	}
	return nil
}

// isText reports whether every store can keep a value as text and search for it.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func parameterReason(err error) string {
	if schema, ok := errors.AsType[*openapi3.SchemaError](err); ok {
		return schemaReason(schema)
	}
	if parse, ok := errors.AsType[*openapi3filter.ParseError](err); ok {
		return parse.Reason
	}
	return "is not valid"
}

// readBody reads the body; nil when it is missing and the operation permits that.
func (op *Operation) readBody(c echo.Context) ([]byte, error) {
	req := c.Request()
	want := op.spec.RequestBody
	if want == nil {
		return nil, nil
	}
	if enc := req.Header.Get(echo.HeaderContentEncoding); enc != "" && enc != "identity" {
		return nil, UnsupportedType("send the body uncompressed")
	}
	if req.ContentLength > maxBody {
		return nil, TooLarge(req.ContentLength)
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), req.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, err
		}
		return nil, &httperror.Error{Status: http.StatusBadRequest, Code: "validation_error", Detail: "the body could not be read to its end"}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		if want.Value.Required {
			return nil, fleet.Invalid([]fleet.Problem{{Detail: "a JSON body is required"}})
		}
		return nil, nil
	}
	if op.bodySchema(req.Header.Get(echo.HeaderContentType)) == nil {
		types := make([]string, 0, len(want.Value.Content))
		for name := range want.Value.Content {
			types = append(types, name)
		}
		slices.Sort(types)
		p := UnsupportedType("send " + strings.Join(types, " or "))
		if req.Method == http.MethodPatch {
			p.Headers = map[string]string{"Accept-Patch": strings.Join(types, ", ")}
		}
		return nil, p
	}
	return body, nil
}

// TooLarge refuses a body; size is its Content-Length, or 0.
func TooLarge(size int64) *httperror.Error {
	body := "the body"
	if size > 0 {
		body = fmt.Sprintf("the body of %d bytes", size)
	}
	return &httperror.Error{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: fmt.Sprintf(
		"%s is larger than %d MiB (%d bytes), the most that one request may send: nothing was changed; send it in parts, each a change of its own", body, maxBody>>20, maxBody)}
}

// UnsupportedType refuses the content type of a body.
func UnsupportedType(detail string) *httperror.Error {
	return &httperror.Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Detail: detail}
}

// bodySchema returns the schema of a body of a content type; nil when the operation does not accept that type.
func (op *Operation) bodySchema(contentType string) *openapi3.Schema {
	name, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return nil
	}
	media := op.spec.RequestBody.Value.Content[name]
	if media == nil {
		return nil
	}
	return media.Schema.Value
}

// CheckValue validates a parsed body of a content type that the operation accepts: types, required and unknown fields.
func (op *Operation) CheckValue(contentType string, value any) []fleet.Problem {
	return checkValue(op.bodySchema(contentType), value)
}

// parse parses a body.
func parse(text []byte) (any, []fleet.Problem) {
	value, err := fleet.ParseJSON(text)
	if err == nil {
		return value, nil
	}
	if invalid, ok := errors.AsType[*fleet.Error](err); ok {
		return nil, invalid.Problems
	}
	return nil, []fleet.Problem{{Detail: err.Error()}}
}

// checkValue validates a parsed body.
func checkValue(schema *openapi3.Schema, value any) []fleet.Problem {
	if err := visit(schema, value); err == nil {
		return nil
	}
	if long := longest(value); long > maxListed {
		return problemsInLists(schema, value)
	}
	return schemaProblems(visit(schema, value, openapi3.MultiErrors()))
}

func visit(schema *openapi3.Schema, value any, options ...openapi3.SchemaValidationOption) error {
	return schema.VisitJSON(value, append(options, openapi3.VisitAsRequest(), openapi3.DisableReadOnlyValidation())...)
}

// maxListed is the limit of problems that are collected of one body, one more than an answer has, and the length from which
// the entries of a list are validated one by one. The validator collects all problems with their values: a million of them
// take gigabytes.
const maxListed = MaxProblems + 1

// longest returns the length of the longest list or map in a value.
func longest(value any) int {
	n := 0
	switch v := value.(type) {
	case []any:
		n = len(v)
		for _, e := range v {
			n = max(n, longest(e))
		}
	case map[string]any:
		n = len(v)
		for _, e := range v {
			n = max(n, longest(e))
		}
	}
	return n
}

// problemsInLists returns the first problems of a body with long lists: those of the lists' entries, up to maxListed, or else
// the first one of the body.
func problemsInLists(schema *openapi3.Schema, value any) []fleet.Problem {
	object, _ := value.(map[string]any)
	var found []fleet.Problem
	for _, name := range slices.Sorted(maps.Keys(object)) {
		entries, _ := object[name].([]any)
		property := schema.Properties[name]
		if property == nil || property.Value.Items == nil || property.Value.MaxItems != nil && uint64(len(entries)) > *property.Value.MaxItems {
			continue
		}
		for i, entry := range entries {
			if len(found) >= maxListed {
				return found
			}
			if longest(entry) > maxListed {
				continue // its first problem is found below, if it is the only one
			}
			for _, p := range schemaProblems(visit(property.Value.Items.Value, entry, openapi3.MultiErrors())) {
				found = append(found, fleet.Problem{Pointer: fleet.Pointer(name, strconv.Itoa(i)) + p.Pointer, Detail: p.Detail})
			}
		}
	}
	if len(found) == 0 {
		return schemaProblems(visit(schema, value))
	}
	return found
}

// schemaProblems converts the validator's errors, sorted by their place.
func schemaProblems(err error) []fleet.Problem {
	type object struct {
		at     string
		schema *openapi3.Schema
	}
	seen := map[object]bool{} // objects whose unknown fields are reported
	var out []fleet.Problem
	for _, err := range flatten(err) {
		schema, ok := errors.AsType[*openapi3.SchemaError](err)
		if !ok {
			out = append(out, fleet.Problem{Detail: "the body does not match the OpenAPI document"})
			continue
		}
		at := fleet.Pointer(schema.JSONPointer()...)
		if schema.SchemaField != "properties" {
			out = append(out, fleet.Problem{Pointer: at, Detail: schemaReason(schema)})
			continue
		}
		// The validator has one error for each unknown field, without its name, about the same object.
		if one := (object{at, schema.Schema}); !seen[one] {
			seen[one] = true
			out = append(out, unknownFields(at, schema)...)
		}
	}
	slices.SortStableFunc(out, func(a, b fleet.Problem) int { return strings.Compare(a.Pointer, b.Pointer) })
	return out
}

func flatten(err error) []error {
	if err == nil {
		return nil
	}
	many, ok := errors.AsType[openapi3.MultiError](err)
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range many {
		all = append(all, flatten(e)...)
	}
	return all
}

func unknownFields(at string, e *openapi3.SchemaError) (out []fleet.Problem) {
	object, _ := e.Value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if len(out) < maxListed && e.Schema.Properties[name] == nil {
			out = append(out, fleet.Problem{Pointer: at + fleet.Pointer(name), Detail: "unknown field"})
		}
	}
	return out
}

// schemaReason describes a problem in the terms of this API where the validator's own text is unclear.
func schemaReason(e *openapi3.SchemaError) string {
	switch e.SchemaField {
	case "required":
		return "is required"
	case "nullable":
		return "must not be null"
	case "enum":
		values := make([]string, 0, len(e.Schema.Enum))
		for _, v := range e.Schema.Enum {
			if v != nil {
				values = append(values, fmt.Sprint(v))
			}
		}
		return "must be one of " + strings.Join(values, ", ")
	case "minimum": // the validator writes 1000000 as 1e+06
		return "number must be at least " + plainNumber(*e.Schema.Min)
	case "maximum":
		return "number must be at most " + plainNumber(*e.Schema.Max)
	}
	return e.Reason
}

func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
