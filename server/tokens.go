package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func (s *Server) ListTokens(c echo.Context, p api.ListTokensParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	return listViews(c, st.Tokens(func(name, cluster string, expires *time.Time) bool {
		soon := p.ExpiresWithinDays == nil || expires != nil && expires.After(now) && !expires.After(now.AddDate(0, 0, *p.ExpiresWithinDays))
		return soon && (p.Name == nil || *p.Name == name) && (p.ClusterID == nil || *p.ClusterID == cluster)
	}), p.Limit, p.Offset, s.tokenView)
}

// tokenView returns a token with its last use. Uses before it was created were those of another token of its cluster.
func (s *Server) tokenView(doc *fleet.Document) any {
	v := doc.View().(*api.Token)
	at := s.tracker.LastTokenUse(v.ID)
	if v.Role == fleet.RolePoll {
		at = s.tracker.LastOwnPoll(v.ClusterID)
	}
	if !at.Before(v.CreatedAt.Truncate(time.Second)) {
		v.LastUsedAt = &at
	}
	return v
}

func (s *Server) GetToken(c echo.Context, id string, p api.GetTokenParams) error {
	_, doc, err := s.find(c, fleet.KindToken, id)
	if err != nil {
		return err
	}
	return writeUnlessMatch(c, p.IfNoneMatch, doc.ETag(), func() any { return s.tokenView(doc) })
}

func (s *Server) CreateToken(c echo.Context, p api.CreateTokenParams) error {
	req, err := decodeBody[api.TokenCreate](c)
	if err != nil {
		return err
	}
	token := fleet.NewToken{Name: req.Name, Role: req.Role, ClusterID: valueOrZero(req.ClusterID), Description: valueOrZero(req.Description)}
	if at := valueOrZero(req.ExpiresAt); !at.IsZero() {
		token.ExpiresAt = &at
	}
	secret := newSecret()
	token.ID, token.Secret = newTokenID(), sha256.Sum256([]byte(secret))
	return s.issue(c, issue{token.ID, secret, http.StatusCreated}, writeParams{nil, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		_, err := tx.CreateToken(token, s.commitTime())
		return err
	})
}

func (s *Server) RotateToken(c echo.Context, id string, p api.RotateTokenParams) error {
	req, err := decodeBody[api.TokenRotate](c)
	if err != nil {
		return err
	}
	secret := newSecret()
	rotation := fleet.Rotation{Secret: sha256.Sum256([]byte(secret))}
	if rotation.Overlap, err = time.ParseDuration(req.Overlap); err != nil {
		return fleet.Invalid([]fleet.Problem{{Pointer: "/overlap", Detail: "must be a duration such as 24h, 90m or 0s"}})
	}
	if at := valueOrZero(req.ExpiresAt); !at.IsZero() {
		rotation.ExpiresAt = &at
	}
	return s.issue(c, issue{id, secret, http.StatusOK}, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		_, err := tx.RotateToken(id, rotation, s.commitTime())
		return err
	})
}

func (s *Server) RevokeToken(c echo.Context, id string, p api.RevokeTokenParams) error {
	return s.deleteDocument(c, fleet.KindToken, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, fleet.DeleteOptions{})
}

// CreateToken creates a managed token through a replica of a process that does not serve, and returns its secret. The caller sets
// neither ID nor Secret.
func CreateToken(ctx context.Context, replica *store.Replica, token fleet.NewToken, meta store.Meta) (secret string, warnings []string, err error) {
	secret = newSecret()
	token.ID, token.Secret = newTokenID(), sha256.Sum256([]byte(secret))
	res, err := replica.Update(ctx, meta, func(tx *fleet.Tx) error {
		_, err := tx.CreateToken(token, time.Now().UTC().Truncate(time.Microsecond))
		return err
	})
	return secret, res.Warnings, err
}

// issue is a token whose secret is about to be issued.
type issue struct {
	id, secret string
	status     int
}

// issue commits a token with a new secret, and answers with the secret once the commit is confirmed.
func (s *Server) issue(c echo.Context, i issue, p writeParams, change func(*fleet.Tx) error) error {
	res, err := s.commit(c, fleet.KindToken, i.id, p, change)
	if err != nil {
		return err
	}
	doc, err := res.State.Find(fleet.KindToken, i.id)
	if err != nil {
		return err
	}
	v := doc.View().(*api.Token)
	out := api.IssuedToken{
		ID: v.ID, Name: v.Name, Role: v.Role, ClusterID: v.ClusterID, Description: v.Description, ExpiresAt: v.ExpiresAt,
		Secrets: v.Secrets, Revision: v.Revision, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
	}
	if value(p.dryRun) {
		if i.status == http.StatusOK {
			c.Response().Header().Set(response.HeaderETag, doc.ETag())
		}
		return response.WriteJSON(c, http.StatusOK, out)
	}
	out.Token = i.secret
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	if i.status == http.StatusCreated {
		c.Response().Header().Set(echo.HeaderLocation, "/tokens/"+i.id)
	}
	return response.WriteJSON(c, i.status, out)
}

// commitTime returns the time at the precision of the log.
func (s *Server) commitTime() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

func newSecret() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: see its documentation
	return fleet.FormatSecret(random)
}

func newTokenID() string {
	var random [8]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// valueOrZero returns the value, or the zero value for null and for a missing field.
func valueOrZero[T any](v interface{ Get() (T, error) }) T {
	got, err := v.Get()
	if err != nil { // null or missing
		var zero T
		return zero
	}
	return got
}
