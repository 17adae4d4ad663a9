package rig

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// StartChartRepository serves a Helm repository over HTTP until ctx ends, and answers its URL. It has the chart named, in the
// versions that the stand-in for source-controller has too.
func StartChartRepository(ctx context.Context, name string) (string, error) {
	files := map[string][]byte{}
	var index strings.Builder
	index.WriteString("apiVersion: v1\nentries:\n  " + name + ":\n")
	for _, version := range chartVersions {
		content, err := chart(name, version)
		if err != nil {
			return "", err
		}
		file := name + "-" + version + ".tgz"
		files["/"+file] = content
		fmt.Fprintf(&index, "    - {apiVersion: v2, name: %s, version: %s, urls: [%s]}\n", name, version, file)
	}
	files["/index.yaml"] = []byte(index.String())
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, found := files["/"+strings.Trim(r.URL.Path, "/")]
		if !found {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(ln) }()
	return "http://" + ln.Addr().String(), nil
}
