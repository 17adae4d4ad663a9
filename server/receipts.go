package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/poll"
)

func (s *Server) PollReceipt(c echo.Context, dns, list, id string, p api.PollReceiptParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	cluster, err := poll.Cluster(st, dns)
	if err != nil {
		return err
	}
	r := requestOf(c)
	sent, err := poll.ParseReceipt(st, list, id, p.Input)
	if err != nil {
		return err
	}
	out, err := s.polls.Receipt(r.Request(), &r.principal, st, cluster, sent)
	if err != nil {
		return err
	}
	out.Age = r.age
	return out.Send(c, p.IfNoneMatch)
}
