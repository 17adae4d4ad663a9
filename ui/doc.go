// Package ui is the fleet page: what a fleet of clusters is asked to run, what it says of it, and what changed, for people.
//
// It is one more client of the API, in the same process: a request for a page becomes requests to the API with the token that its
// visitor signed in with. So a page shows what that token may see and no more, a revoked token ends its sessions at once, and there
// is one place where a change is checked. Pages are made on the server; without JavaScript they read all the same.
package ui
