// Command pod is the program in containers of other software in the node's tests: with an address it serves the name of
// its pod, without one it waits, as the pause container of a pod.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	// The first process of a container dies of no signal that it has not asked for.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "pod: %v\n", err) //nolint:forbidigo // the program's own stream
		os.Exit(1)                               //nolint:forbidigo // the program's end
	}
}

func run(ctx context.Context, addresses []string) error {
	failed := make(chan error, 1)
	for _, address := range addresses {
		server := &http.Server{Addr: address, ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(tellName)}
		go func() { failed <- server.ListenAndServe() }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func tellName(w http.ResponseWriter, _ *http.Request) {
	name, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprintln(w, name)
}
