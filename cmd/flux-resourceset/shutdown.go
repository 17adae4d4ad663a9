package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// delayShutdown returns a context that is canceled when the delay after the end of ctx is over, or at the next signal, and a channel that
// is closed when the delay begins. Meanwhile the process answers requests, since load balancers learn late that it stops.
func delayShutdown(ctx context.Context, delay time.Duration, logger *slog.Logger) (delayed context.Context, stop context.CancelFunc, stopping <-chan struct{}) {
	delayed, stop = context.WithCancel(context.WithoutCancel(ctx))
	begun := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer stop()
		next := make(chan os.Signal, 1)
		signal.Notify(next, syscall.SIGTERM, os.Interrupt)
		defer signal.Stop(next)
		close(begun)
		if delay == 0 {
			return
		}
		logger.InfoContext(ctx, "stopping after SHUTDOWN_DELAY, or at the next signal", "delay", delay.String())
		select {
		case <-delayed.Done():
		case <-next:
		case <-time.After(delay):
		}
	})
	return delayed, stop, begun
}
