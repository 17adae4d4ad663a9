package sqlstore

// EndSession records that session $1 has ended, until $2; TidySessions removes the records that are obsolete at $1.
const (
	EndSession   = `INSERT INTO ended_sessions (id, until) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`
	TidySessions = `DELETE FROM ended_sessions WHERE until < $1`
)
