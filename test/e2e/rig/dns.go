package rig

import (
	"context"
	"log/slog"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsServer replaces the cluster's DNS. It resolves only full names of Services.
type dnsServer struct {
	client client.Reader
	log    *slog.Logger
	conn   net.PacketConn
}

// startDNS serves DNS over UDP until ctx ends.
func startDNS(ctx context.Context, c client.Reader, log *slog.Logger) error {
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp", net.JoinHostPort(NodeAddress, "53"))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	go dnsServer{client: c, log: log, conn: conn}.serve(ctx)
	return nil
}

func (n dnsServer) serve(ctx context.Context) {
	question := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(question)
		if err != nil {
			return // closed
		}
		answer, err := n.answer(ctx, question[:size])
		if err == nil {
			_, err = n.conn.WriteTo(answer, from)
		}
		if err != nil && ctx.Err() == nil {
			n.log.ErrorContext(ctx, "name not answered", "error", err)
		}
	}
}

func (n dnsServer) answer(ctx context.Context, text []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(text); err != nil {
		return nil, err
	}
	message.Response, message.Additionals = true, nil
	for _, question := range message.Questions {
		address, err := n.service(ctx, question.Name.String())
		switch {
		case err != nil:
			message.RCode = dnsmessage.RCodeServerFailure
		case address == nil:
			message.RCode = dnsmessage.RCodeNameError
		case question.Type == dnsmessage.TypeA:
			message.Answers = append(message.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte(address)},
			})
		}
	}
	return message.Pack()
}

// service is the address of the Service of a name such as flux-api.flux-system.svc.cluster.local; nil if there is none.
func (n dnsServer) service(ctx context.Context, name string) (net.IP, error) {
	name, ok := strings.CutSuffix(strings.ToLower(name), ".svc.cluster.local.")
	service, namespace, both := strings.Cut(name, ".")
	if !ok || !both {
		return nil, nil
	}
	var found corev1.Service
	if err := n.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &found); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return net.ParseIP(found.Spec.ClusterIP).To4(), nil
}
