package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Time-outs and limits of a connection. A Flux Operator opens a new connection for every poll and keeps the old one
// for up to 90 s; letting go of them first keeps the number of open files small.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 30 * time.Second
	maxHeader         = 32 << 10
	drainTimeout      = 20 * time.Second
)

// Limits of a connection of HTTP/2, each of which takes memory that its client decides about.
const (
	maxStreams    = 32       // requests at a time; Flux Operator makes one
	receiveBuffer = 64 << 10 // bytes of bodies that have come and nobody has read
	headerTable   = 4 << 10
)

// Serve answers on a listener until ctx ends, then lets the requests under way finish. tlsConfig nil: plain HTTP.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, tlsConfig *tls.Config, logger *slog.Logger) error {
	conns := newConnections(defaultConnectionLimits)
	srv := &http.Server{
		Handler: withBodyDeadline(handler), TLSConfig: tlsConfig,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ConnState: conns.stateChanged, ConnContext: conns.connContext,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer,
			MaxDecoderHeaderTableSize: headerTable, MaxEncoderHeaderTableSize: headerTable,
		},
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // what clients do to their connections
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
