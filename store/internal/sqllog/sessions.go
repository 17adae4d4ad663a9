package sqllog

// EndSession notes that session $1 has ended, until $2; TidySessions removes the notes that nobody needs at $1; and SessionEnded
// tells whether there is one of session $1.
const (
	EndSession   = `INSERT INTO ended_sessions (id, until) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`
	TidySessions = `DELETE FROM ended_sessions WHERE until < $1`
	SessionEnded = `SELECT count(*) > 0 FROM ended_sessions WHERE id = $1`
)
