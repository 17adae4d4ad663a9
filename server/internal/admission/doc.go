// Package admission limits the memory, the processor time and the connections that clients can take, so that one client does
// not delay the others. Most limits count by principal or by network address.
//
//	connection --> connections.go     number, idle ones, ones without a valid credential
//	    |          body_deadline.go   time to send a body that is not read
//	    v
//	preauth_limit.go                  requests that are not authenticated yet
//	    |
//	    v  authenticated
//	queue.go: Enter --> Job           number of jobs of the principal and of all; cpubudget.go: its processor time
//	    | WaitTurn                    turns, to the principal whose last turn was longest ago
//	    v
//	handler --> Leave                 the next job runs
//	    |
//	    v
//	response_buffer.go: Reserve       answers that their clients have not received yet
//
// Polls pass the limits of connections only.
package admission
