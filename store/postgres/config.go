package postgres

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says which database to open.
type Config struct {
	// URL of the database, as libpq reads it: postgres://user:password@host:port/database?sslmode=verify-full. It may
	// name several hosts, with target_session_attrs. Of pgxpool's parameters pool_max_conns is of use.
	URL string
	// ReadOnly never writes to the database: a role that may only SELECT, or a standby, is enough.
	ReadOnly bool
	// Tracer is told of every question; nil: nobody is. Questions have their values in their text: see pool.
	Tracer pgx.QueryTracer
}

// Every question to the server ends by itself, here and in the server, so that one that hangs is a failure and not
// silence. These are the only time-outs of this backend.
const (
	// questionTimeout is for what takes moments on a server that works: taking a connection, BEGIN, reading the head.
	// Every operation starts with such a question, so a server that hangs is found out within this time.
	questionTimeout = 1500 * time.Millisecond
	// connectTimeout is for one attempt to connect. It goes on when the question it was made for has ended, and
	// serves the next one. The URL's connect_timeout replaces it.
	connectTimeout = 5 * time.Second
	// readTimeout is how long reading documents or the log may make no progress: nobody knows their size beforehand, and a
	// slow line is no reason to begin again. answerTimeout is when the server stops sending all the same.
	readTimeout   = 60 * time.Second
	answerTimeout = 2 * time.Hour
	// writeTimeout is for everything of a commit before COMMIT, and in the server for each statement of it. A large commit
	// has more, and so have COMMIT and the statements that work on all of it at once: see store.ExtraCommitTime.
	writeTimeout = 10 * time.Second
	// importTimeout is for a whole history at once.
	importTimeout = 30 * time.Minute
	// barrierTimeout is for the head once nobody is committing any more.
	barrierTimeout = 6 * time.Second
	// lockedTimeout is for a commit that keeps all others from committing.
	lockedTimeout = 10 * time.Second
	// lockTimeout is how long a commit waits for the commit of another process.
	lockTimeout = 5 * time.Second
	// idleTimeout ends a transaction whose client says nothing more, because its process was stopped or its network
	// was cut: until then it may hold up the commits of all others. A message that is not whole by then is nothing: over
	// 4 Mbit/s one of maxMessageSize takes half of that.
	idleTimeout = 5 * time.Second
	// outcomeTimeout is for COMMIT and its answer.
	outcomeTimeout = 5 * time.Second
	// settleTimeout is how long we try to find out what became of a commit whose answer was lost.
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

// The pool's size, which the URL's pool_max_conns replaces. A process follows the log with one connection, looks after
// tokens with another and commits with a third. The rest is for people who read the history, and always at least one of
// them, but not the last one.
const (
	maxConns   = 5
	ownConns   = 3
	leastConns = 2
)

// ParseURL reads a DATABASE_URL of this backend and reports what is wrong with it. Errors do not show the password.
func ParseURL(databaseURL string) (Config, error) {
	cfg := Config{URL: databaseURL}
	_, err := cfg.pool()
	return cfg, err
}

// pool is the configuration of the connections.
func (cfg Config) pool() (*pgxpool.Config, error) {
	scheme, _, _ := strings.Cut(cfg.URL, "://")
	if s := strings.ToLower(scheme); s != "postgres" && s != "postgresql" {
		return nil, errors.New(`a Postgres URL starts with "postgres://"`)
	}
	p, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(cfg.URL, "pool_max_conns=") {
		p.MaxConns = maxConns
	}
	p.MaxConns = max(p.MaxConns, leastConns)
	p.MaxConnLifetime, p.MaxConnLifetimeJitter = 30*time.Minute, 5*time.Minute
	p.MaxConnIdleTime = 5 * time.Minute
	p.HealthCheckPeriod = 30 * time.Second
	p.PingTimeout = questionTimeout
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

// name is what messages call the database.
func name(c *pgx.ConnConfig) string {
	return fmt.Sprintf("database %q on %s", c.Database, net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))))
}

// begin is the statement that starts a transaction with its time-outs.
func begin(mode string, limit time.Duration) string {
	ms := time.Duration.Milliseconds
	return fmt.Sprintf("BEGIN %s; SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d",
		mode, ms(limit), ms(min(limit, lockTimeout)), ms(idleTimeout))
}

// The kinds of transactions. A write does not say READ WRITE: managed servers make sessions read-only when the disk is
// nearly full, and that has to win.
const (
	snapshot = "ISOLATION LEVEL REPEATABLE READ READ ONLY" // everything is of one moment; standbys can do it
	writing  = "ISOLATION LEVEL READ COMMITTED"            // every statement sees what was committed before it
)
