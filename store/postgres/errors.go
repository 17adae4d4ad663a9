package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// SQLSTATEs, from https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	codeReadOnly        = "25006"
	codeUniqueViolation = "23505"
	codeUndefinedTable  = "42P01"
	codeUndefinedColumn = "42703"
	codeDenied          = "42501"
	codeLockTimeout     = "55P03"
	codeDiskFull        = "53100"
	codeDataCorrupted   = "XX001"
	codeIndexCorrupted  = "XX002"
	codeProtocol        = "08P01"
)

// passing are the classes and codes of errors that end when the server recovers or its operator acts.
var passing = []string{
	"08",             // connection
	"25P03", "25P04", // a transaction ended by a time-out
	"28",    // authentication, for example while a password is changed
	"3D",    // no such database
	"40",    // rolled back: serialization, deadlock, conflict with a standby's recovery
	"42501", // a missing GRANT
	"53",    // out of disk, memory, connections
	"55006", // in use
	"55P03", // a lock was not to be had in time
	"57",    // the operator: cancelled, shut down, crashed, starting up
	"58",    // the system below the server
	"25006", // a standby, or a server made read-only
}

// errLost marks an error after which the connection was gone.
var errLost = errors.New("the connection to the database was lost")

// errSilent is our own time-out's.
var errSilent = errors.New("the database did not answer in time")

// translate converts a driver error into an error of the contract, by SQLSTATE or by the kind of error. doing names the failed
// operation, ctx is the caller's. An error of the contract keeps its meaning.
func (s *Store) translate(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	switch {
	case s.closing.Err() != nil:
		return fmt.Errorf("%s: %w: it was closed", doing, store.ErrUnavailable)
	case ctx.Err() != nil: // reaches us in many forms; the caller asked for it by its own name
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	return translate(doing, err)
}

func translate(doing string, err error) error {
	var pe *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pe):
		return fmt.Errorf("%s: %w", doing, translateCode(pe, err))
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err): // the caller's own was asked about before
		// Not %w: the deadline is ours, and a caller that tests for its own must not find this one.
		return fmt.Errorf("%s: %w: %w: %v", doing, store.ErrUnavailable, errSilent, err) //nolint:errorlint // see above
	case errors.Is(err, errLost):
		return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func translateCode(pe *pgconn.PgError, err error) error {
	switch pe.Code {
	case codeUndefinedTable, codeUndefinedColumn:
		return fmt.Errorf("%w: %w", store.ErrSchema, err)
	case codeDataCorrupted, codeIndexCorrupted:
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	case codeDiskFull:
		return fmt.Errorf("%w: no space is left for the database: %w", store.ErrUnavailable, err)
	case codeLockTimeout:
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, store.ErrContended, err)
	case codeReadOnly:
		return fmt.Errorf("%w: the server takes no writes; it is a standby, or was made read-only: %w", store.ErrUnavailable, err)
	case codeDenied:
		return fmt.Errorf("%w: the role may not do this: %w", store.ErrUnavailable, err)
	}
	if pe.Code == codeProtocol && !errors.Is(err, errLost) {
		return err // a NUL character, which ends a message; a pooler that closes the connection returns the same code
	}
	passes := func(prefix string) bool { return strings.HasPrefix(pe.Code, prefix) }
	if errors.Is(err, errLost) || slices.ContainsFunc(passing, passes) {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// hasCode reports whether err is a server error with this SQLSTATE.
func hasCode(err error, code string) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == code
}

// violates reports whether err is a violation of this unique constraint.
func violates(err error, constraint string) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == codeUniqueViolation && pe.ConstraintName == constraint
}
