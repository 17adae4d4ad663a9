// Package ui is the fleet page: a website for people that shows the desired state of clusters, their reported status and the history
// of changes, and makes a few changes.
//
// It is a client of the API in the same process: each page request becomes requests to the API with the token of the session. The
// page has no authority and no rules of its own, so it cannot show or change more than the token may.
//
// Invariants:
//
//   - The session is the token, encrypted in a cookie. The server stores nothing but ended sessions; a revoked token ends its
//     sessions at once.
//   - Every change shows its plan first and is applied with the plan's hash, so its effect is the effect that was shown, and a second
//     submission fails.
//   - Pages are rendered on the server, completely or as an error, and work without JavaScript. Text from outside is never markup:
//     html/template escapes it, and the content security policy allows no inline script or style.
//   - Values that may be secrets are masked unless the address has reveal=true.
//   - A session has a limited number of concurrent pages, and all pages together a limited number of concurrent API requests, so the
//     page cannot delay polls.
//
// Reading order:
//
//  1. ui.go: settings, routes, and the handler of a page. request.go: one page request, and its in-process API client.
//  2. session.go: sign-in with a token, and sign-out. sign_in_issuer.go: sign-in at an OIDC issuer. cookie.go: the encrypted session, and
//     over which connections it may be sent. ended_sessions.go and session_limit.go: sessions that ended, and how many pages one may open.
//  3. render.go and format.go: templates, error pages, and the functions that templates call.
//  4. kinds.go: the kinds of documents. overview.go, clusters.go, cluster.go, components.go, layers.go, rollouts.go, definitions.go, changes.go with change_rows.go and change_runs.go,
//     and search.go: one page each. diff.go and document_groups.go: documents before and after.
//  5. change_forms.go and plan.go: changes, their plans, and the form that applies them. add_cluster.go: a new cluster, and what connects it.
//  6. static: page.js refreshes an open page; strip.js, search.js and news.js are one feature each. All are served as one file.
package ui
