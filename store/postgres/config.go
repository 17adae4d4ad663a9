package postgres

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is the configuration of a database connection.
type Config struct {
	// URL of the database, as libpq reads it: postgres://user:password@host:port/database?sslmode=verify-full. It may
	// name several hosts, with target_session_attrs. Of pgxpool's parameters pool_max_conns is of use.
	URL string
	// ReadOnly never writes to the database: a role that may only SELECT, or a standby, is enough.
	ReadOnly bool
	// Tracer receives every query; nil: none. The text of a query contains its values: see pool.
	Tracer pgx.QueryTracer
	// Prepare is called before the store connects, for example to migrate the database; nil: it is ready.
	Prepare func(context.Context) error
}

// Every question to the server ends by itself, here and in the server, so that one that hangs is a failure and not
// silence. These are the only time-outs of this package.
const (
	// questionTimeout is for steps that take moments on a healthy server: taking a connection, BEGIN, reading the head. Every
	// operation starts with such a step, so a server that hangs is detected within this time.
	questionTimeout = 1500 * time.Millisecond
	// connectTimeout is for one attempt to connect. It goes on when the question it was made for has ended, and
	// serves the next one. The URL's connect_timeout replaces it.
	connectTimeout = 5 * time.Second
	// readTimeout is the idle timeout for reading documents or the log, whose size is unknown in advance: a slow connection may
	// take longer in total. answerTimeout is the server's limit for a whole answer.
	readTimeout   = 60 * time.Second
	answerTimeout = 2 * time.Hour
	// writeTimeout is for everything of a commit before COMMIT, and in the server for each statement of it. A large commit
	// has more, and so have COMMIT and the statements that work on all of it at once: see store.ExtraCommitTime.
	writeTimeout = 10 * time.Second
	// importTimeout is for a whole history at once.
	importTimeout = 30 * time.Minute
	// barrierTimeout limits the wait for commits under way, and the read of the head after them.
	barrierTimeout = 6 * time.Second
	// lockedTimeout is for a commit that keeps all others from committing.
	lockedTimeout = 10 * time.Second
	// lockTimeout is how long a commit waits for the commit of another process.
	lockTimeout = 5 * time.Second
	// idleTimeout ends a transaction whose client has gone silent, because its process was stopped or its network was cut:
	// until then it may block all other commits. A message that has not arrived completely by then is void. At 4 Mbit/s a
	// message of maxMessageSize takes half of that.
	idleTimeout = 5 * time.Second
	// outcomeTimeout is for COMMIT and its answer.
	outcomeTimeout = 5 * time.Second
	// settleTimeout limits the lookup of a commit with a lost answer.
	settleTimeout = 2 * time.Second
	// retryEvery is the pause between two such attempts.
	retryEvery = 50 * time.Millisecond
	// closeTimeout is how long Close waits for connections that the server does not let go of.
	closeTimeout = 2 * time.Second

	// statusTimeout is for looking at the schema, over a connection of its own.
	statusTimeout      = connectTimeout + questionTimeout
	migrateLockTimeout = 30 * time.Second
	migrateTimeout     = 10 * time.Minute
)

// The size of the pool, unless the URL sets pool_max_conns. A process follows the log with one connection, reads tokens with
// another and commits with a third. The rest is for users who read the history: at least one, but never the last one.
const (
	maxConns   = 5
	ownConns   = 3
	leastConns = 2
)

// ParseURL parses a DATABASE_URL of this backend and reports its mistakes. Errors contain no part of a password.
func ParseURL(databaseURL string) (Config, error) {
	cfg := Config{URL: databaseURL}
	_, err := cfg.pool()
	return cfg, err
}

// pool is the configuration of the connections.
func (cfg Config) pool() (*pgxpool.Config, error) {
	if err := checkURL(cfg.URL); err != nil {
		return nil, err
	}
	scheme, rest, _ := strings.Cut(cfg.URL, "://")
	p, err := pgxpool.ParseConfig(strings.ToLower(scheme) + "://" + rest) // the driver reads a scheme in upper case as a list of keywords
	if err != nil {
		return nil, parameterError(err)
	}
	if !strings.Contains(cfg.URL, "pool_max_conns=") {
		p.MaxConns = maxConns
	}
	p.MaxConns = max(p.MaxConns, leastConns)
	p.MaxConnLifetime, p.MaxConnLifetimeJitter = 30*time.Minute, 5*time.Minute
	p.MaxConnIdleTime = 5 * time.Minute
	p.HealthCheckPeriod = 30 * time.Second
	p.PingTimeout = questionTimeout
	p.AfterConnect = registerBytea
	c := p.ConnConfig
	c.Tracer = cfg.Tracer
	if !strings.Contains(cfg.URL, "connect_timeout=") {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "flux-resourceset"
	}
	// No prepared statements and no descriptions kept from an earlier question: behind pgbouncer the next transaction
	// may run on another server connection, and after a migration the same tables may look different. Each question is
	// one message with its values in it, because the server loses patience with us (idleTimeout) only between two
	// questions: one that comes in several messages, or is followed by data as COPY is, would let a process that stops in
	// the middle keep its locks for ever. Time-outs are set in each transaction and not as parameters of the
	// connection, because pgbouncer refuses to open one that has any it does not know; it knows these two.
	c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	c.RuntimeParams["client_encoding"], c.RuntimeParams["standard_conforming_strings"] = "UTF8", "on"
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	return p, nil
}

// name returns the name of the database for messages.
func name(c *pgx.ConnConfig) string {
	return fmt.Sprintf("database %q on %s", c.Database, net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))))
}

// begin is the statement that starts a transaction with its time-outs.
func begin(mode string, limit time.Duration) string {
	ms := time.Duration.Milliseconds
	return fmt.Sprintf("BEGIN %s; SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d",
		mode, ms(limit), ms(min(limit, lockTimeout)), ms(idleTimeout))
}

// The kinds of transactions. A write does not set READ WRITE: managed servers make sessions read-only when the disk is nearly
// full, and that must prevail.
const (
	snapshot = "ISOLATION LEVEL REPEATABLE READ READ ONLY" // everything is of one moment; standbys can do it
	writing  = "ISOLATION LEVEL READ COMMITTED"            // every statement sees the commits before it
)
