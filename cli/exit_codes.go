package cli

// Exit codes of [Run].
const (
	exitOK    = 0
	exitError = 1 // the server refused, could not be reached, or something else failed
	exitUsage = 2 // the command line is wrong; nothing was sent

	// Of commands that compare (plan, diff, --plan), as in diff(1): 0 means no difference.
	exitDiffers = 1
	exitTrouble = 3 // replaces exitError

	exitTimedOut = 2 // of wait: the state was not reached within the time

	exitInterrupted = 130 // of a command that a signal ended, as a shell reports SIGINT
)
