package versions

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/flux-resourceset/flux-resourceset/internal/egress"
)

// Class is the kind of a failure.
type Class string

// The kinds of failures.
const (
	Unreachable  Class = "unreachable"     // no connection, no or a late answer, a status of 500 and above
	Unauthorized Class = "unauthorized"    // the registry refuses the credentials, or their absence
	NotFound     Class = "not_found"       // the repository, the index, or the chart in it does not exist
	Limited      Class = "limited"         // the registry limits requests, or the scanner waits after failures: see RetryAt
	Invalid      Class = "invalid"         // the answer, or the source, is not what it must be
	TooLarge     Class = "too_large"       // the answer exceeds a limit
	Refused      Class = "refused_address" // the scanner does not send requests to the address
	Unverified   Class = "unverified"      // an artifact has no signature of its digest by one of the keys
)

// Error is the failure of a scan. It names the host, and contains neither credentials nor text of the registry.
type Error struct {
	Class   Class
	Host    string
	Message string
	// RetryAt is the time of the next request to the host, of class Limited or Unreachable; else zero.
	RetryAt time.Time
}

func (e *Error) Error() string {
	if e.Host == "" {
		return e.Message
	}
	return e.Host + ": " + e.Message
}

func newError(class Class, host, format string, args ...any) *Error {
	return &Error{Class: class, Host: host, Message: fmt.Sprintf(format, args...)}
}

// errTooLarge is the error of reading a body beyond its limit, errSlow that of a response that exceeds its time limit.
var (
	errTooLarge = errors.New("the answer is too large")
	errSlow     = errors.New("the response timed out")
	errEncoding = errors.New("the answer is compressed although no compression was requested")
)

// scanError returns the Error of a failed request to a host.
func scanError(host string, err error) *Error {
	var (
		known    *Error
		status   *transport.Error
		dns      *net.DNSError
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		netError net.Error
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, egress.ErrAddress):
		return newError(Refused, host, "the address is not allowed: it is private, local or reserved (VERSION_SCAN_ALLOW_PRIVATE)")
	case errors.Is(err, egress.ErrDowngrade):
		return newError(Refused, host, "the registry redirects from https:// to http://")
	case errors.Is(err, egress.ErrScheme):
		return newError(Refused, host, "only https:// is allowed")
	case errors.Is(err, errTooLarge):
		return newError(TooLarge, host, "the answer is too large")
	case errors.Is(err, errEncoding):
		return newError(Invalid, host, "%s", errEncoding)
	case errors.Is(err, errRedirects):
		return newError(Invalid, host, "%s", errRedirects)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return newError(Unreachable, host, "the connection ended early")
	case errors.Is(err, errSlow):
		return newError(Unreachable, host, "%s", errSlow)
	case errors.Is(err, context.Canceled):
		return newError(Unreachable, host, "the scan was canceled")
	case errors.Is(err, context.DeadlineExceeded):
		return newError(Unreachable, host, "%s", errSlow)
	case errors.As(err, &status):
		return statusError(host, status.StatusCode)
	case errors.As(err, &dns):
		return newError(Unreachable, host, "the name of the host cannot be resolved")
	case errors.As(err, &unknown):
		return newError(Unreachable, host, "the certificate is signed by an unknown authority (REGISTRY_CA_FILE)")
	case errors.As(err, &name):
		return newError(Unreachable, host, "the certificate is for another host")
	case errors.As(err, &invalid), errors.As(err, &verify):
		return newError(Unreachable, host, "the certificate is not valid")
	case errors.As(err, &netError):
		if netError.Timeout() {
			return newError(Unreachable, host, "%s", errSlow)
		}
		return newError(Unreachable, host, "the connection failed")
	}
	return newError(Invalid, host, "the answer is not that of a registry, or it names a token service that is not allowed")
}

// statusError returns the Error of an answer with a status that is not a success.
func statusError(host string, status int) *Error {
	text := fmt.Sprintf("status %d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return newError(Unauthorized, host, "%s: the credentials of REGISTRY_AUTH_FILE for this repository are missing or not accepted", text)
	case status == http.StatusNotFound:
		return newError(NotFound, host, "%s", text)
	case status == http.StatusTooManyRequests:
		return newError(Limited, host, "%s", text)
	case status >= 500, status == http.StatusRequestTimeout:
		return newError(Unreachable, host, "%s", text)
	}
	return newError(Invalid, host, "unexpected %s", text)
}
