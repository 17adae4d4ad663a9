package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
)

// Timeouts and limits of a connection. A Flux Operator opens a new connection for every poll and keeps the old one for up to
// 90 s; the server closes it earlier to limit the number of open files.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 30 * time.Second
	maxHeader         = 32 << 10
	drainTimeout      = 20 * time.Second
)

// Limits of a connection of HTTP/2, because its client determines the memory for each.
const (
	maxStreams    = 8        // concurrent requests; Flux Operator makes one. Each holds up to 32 KiB of headers
	receiveBuffer = 64 << 10 // bytes of received bodies that no handler has read
	headerTable   = 4 << 10
)

type drainKey struct{}

// draining returns a channel that is closed when the server of a request stops: requests that wait end then.
func draining(ctx context.Context) <-chan struct{} {
	stopped, _ := ctx.Value(drainKey{}).(<-chan struct{})
	return stopped
}

// Serve answers on a listener until ctx ends, then finishes the requests in progress. tlsConfig nil: plain HTTP.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, tlsConfig *tls.Config, logger *slog.Logger) error {
	conns := admission.NewConnections(admission.DefaultConnectionLimits)
	base := context.WithValue(context.WithoutCancel(ctx), drainKey{}, ctx.Done())
	srv := &http.Server{
		Handler: admission.WithBodyDeadline(handler), TLSConfig: tlsConfig,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		BaseContext:    func(net.Listener) context.Context { return base },
		MaxHeaderBytes: maxHeader, ConnState: conns.ConnState, ConnContext: conns.ConnContext,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer,
			MaxDecoderHeaderTableSize: headerTable, MaxEncoderHeaderTableSize: headerTable,
		},
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // errors of connections are caused by clients
	}
	failed := make(chan error, 1)
	go func() {
		if tlsConfig != nil {
			failed <- srv.ServeTLS(ln, "", "")
			return
		}
		failed <- srv.Serve(ln)
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		logger.LogAttrs(drain, slog.LevelWarn, "requests were cut off at shutdown", slog.Any("error", err))
		return srv.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
