package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// checkURL refuses a URL with more than one reading: the driver could take a part of the password for a host, a user or a parameter, and
// resolve, send or print it. Its errors contain no part of the URL.
func checkURL(raw string) error {
	scheme, rest, ok := strings.Cut(raw, "://")
	if s := strings.ToLower(scheme); !ok || s != "postgres" && s != "postgresql" {
		return errors.New(`a Postgres URL starts with "postgres://"; a list such as host=… user=… is not supported`)
	}
	if i := strings.IndexFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'<>\\^`{|}", r) }); i >= 0 {
		return ambiguous("it has a space, a quote, or another character that a URL does not have")
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	authority, database, _ := strings.Cut(rest, "/")
	user, hosts, hasUser := strings.Cut(authority, "@")
	if !hasUser {
		user, hosts = "", authority
	}
	name, password, _ := strings.Cut(user, ":")
	decoded, err := url.PathUnescape(name)
	if err == nil {
		_, err = url.PathUnescape(password + database)
	}
	switch {
	case strings.Contains(hosts+database+query, "@"):
		return ambiguous("it has an @ that does not end the password")
	case strings.Contains(raw, "#"):
		return ambiguous("it has a #")
	case err != nil:
		return ambiguous("it has a % without a hexadecimal number after it")
	case strings.ContainsAny(decoded, ": "), strings.ContainsAny(user, "[]"):
		return ambiguous("its user has a colon or a space, or user or password have a bracket")
	case strings.Contains(database, "/"):
		return ambiguous("it has more than one / after the host")
	}
	for each := range strings.SplitSeq(hosts, ",") {
		if host := hostAndPort.FindStringSubmatch(each); host == nil || !validPort(host[1]) {
			return ambiguous("the text after the @, or after :// without a user, is not HOST or HOST:PORT")
		}
	}
	if hasQuery {
		return checkParameters(query)
	}
	return nil
}

var hostAndPort = regexp.MustCompile(`^(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::([0-9]+))?$`)

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// parameters are the parameters of libpq and of the pool, and settings of a session. Names of unknown ones are not printed: with an
// unescaped & in a password, they are a part of it.
var parameters = strings.Fields(`host port dbname database user password passfile connect_timeout sslmode sslkey sslcert sslcertmode sslrootcert
	sslnegotiation sslpassword sslsni krbspn krbsrvname target_session_attrs service servicefile min_protocol_version max_protocol_version
	channel_binding require_auth options application_name fallback_application_name client_encoding search_path timezone TimeZone datestyle role
	statement_timeout lock_timeout idle_in_transaction_session_timeout default_transaction_isolation tcp_user_timeout keepalives
	keepalives_idle keepalives_interval keepalives_count pool_max_conns pool_min_conns pool_min_idle_conns pool_max_conn_lifetime
	pool_max_conn_lifetime_jitter pool_max_conn_idle_time pool_health_check_period pool_ping_timeout`)

func checkParameters(query string) error {
	for pair := range strings.SplitSeq(query, "&") {
		name, value, ok := strings.Cut(pair, "=")
		if _, err := url.QueryUnescape(value); !ok || err != nil || strings.Contains(value, "=") || !slices.Contains(parameters, name) {
			return ambiguous("the text after the ? is not a list of known parameters such as sslmode=verify-full, joined by &; for other settings of a session use options=-c%20NAME%3DVALUE")
		}
	}
	return nil
}

func ambiguous(reason string) error {
	return fmt.Errorf("the Postgres URL cannot be used: %s. Percent-encode such characters in user, password and values: "+
		"%% is %%25, @ is %%40, : is %%3A, / is %%2F, ? is %%3F, # is %%23, & is %%26, = is %%3D, a space is %%20; or set PGPASSWORD. The URL is not shown, because it may contain a password", reason)
}

// parameterError returns the driver's error about a URL, without the URL.
func parameterError(err error) error {
	refused, ok := errors.AsType[*pgconn.ParseConfigError](err)
	if !ok {
		return err
	}
	const source = "a parameter of the Postgres URL, or of the variables PG…"
	if cause := errors.Unwrap(refused); cause != nil {
		return fmt.Errorf("%s: %w", source, cause)
	}
	return fmt.Errorf("%s, is not valid", source)
}
