package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/oapi-codegen/nullable"
)

// List the clusters of one environment.
func Example() {
	url, stop := demoServer()
	defer stop()

	fleet, err := client.New(client.Config{URL: url, Token: "read", WriteToken: "write"})
	if err != nil {
		panic(err)
	}
	environment := "dev"
	list, err := fleet.ListClustersWithResponse(context.Background(), &api.ListClustersParams{Environment: &environment})
	if err != nil {
		panic(err)
	}
	for _, cluster := range *list.JSON200 {
		fmt.Println(cluster.ID, cluster.ClusterDNS, len(cluster.PlatformComponents))
	}
	// Output: demo-cluster-01 demo-cluster-01.k8s.example.com 3
}

// Set Helm values of a component on one cluster, remove one, and leave the others as they are.
func ExampleSetValues() {
	url, stop := demoServer()
	defer stop()

	fleet, err := client.New(client.Config{URL: url, Token: "write"})
	if err != nil {
		panic(err)
	}
	patch, err := client.SetValues("podinfo", map[string]any{"replicaCount": 3, "ui.color": "#3b82f6", "ui.message": nil})
	if err != nil {
		panic(err)
	}
	rsp, err := fleet.PatchClusterWithResponse(context.Background(), "demo-cluster-01", nil, patch)
	if err != nil {
		panic(err)
	}
	values, err := json.Marshal(rsp.JSON200.Patches["podinfo"])
	if err != nil {
		panic(err)
	}
	fmt.Println(string(values))
	// Output: {"replicaCount":3,"ui.color":"#3b82f6"}
}

// Every answer that is not a success is one type of error.
func ExampleError() {
	url, stop := demoServer()
	defer stop()

	fleet, err := client.New(client.Config{URL: url, Token: "write"})
	if err != nil {
		panic(err)
	}
	_, err = fleet.CreateClusterWithResponse(context.Background(), nil, api.ClusterCreate{
		ID: "Edge_01", ClusterDNS: "edge-01.example.com", Environment: "nowhere",
	})
	var problem *client.Error
	if !errors.As(err, &problem) {
		panic(err)
	}
	fmt.Println(problem.StatusCode, problem.Problem.Error)
	for _, field := range problem.Problem.Errors {
		fmt.Println(field.Pointer)
	}
	// Output:
	// 400 validation_error
	// /id
	// /environment
}

// Change a document only if it is unchanged since it was read.
func Example_ifMatch() {
	url, stop := demoServer()
	defer stop()

	fleet, err := client.New(client.Config{URL: url, Token: "write"})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	found, err := fleet.GetNamespaceWithResponse(ctx, "podinfo", nil)
	if err != nil {
		panic(err)
	}
	unchanged := &api.UpdateNamespaceParams{IfMatch: found.Headers200.ETag}
	for _, team := range []string{"web", "shop"} {
		labels := nullable.NewNullableWithValue(map[string]string{"team": team})
		_, err := fleet.UpdateNamespaceWithResponse(ctx, "podinfo", unchanged, api.NamespaceUpdate{Labels: labels})
		fmt.Printf("%s: %q\n", team, client.ErrorCode(err))
	}
	// Output:
	// web: ""
	// shop: "stale"
}

// Read, modify and write a document, and retry when another client changes it at the same time.
func ExampleRetryOnStale() {
	url, stop := demoServer()
	defer stop()

	fleet, err := client.New(client.Config{URL: url, Token: "write"})
	if err != nil {
		panic(err)
	}
	tries := 0
	err = client.RetryOnStale(context.Background(), func(ctx context.Context) error {
		tries++
		found, err := fleet.GetPlatformComponentWithResponse(ctx, "podinfo", nil)
		if err != nil {
			return err
		}
		if tries == 1 { // somebody else is faster
			if _, err := fleet.UpdatePlatformComponentWithResponse(ctx, "podinfo", nil, api.PlatformComponentUpdate{OCITag: nullable.NewNullableWithValue("v9")}); err != nil {
				return err
			}
		}
		next := nullable.NewNullableWithValue(found.JSON200.ComponentVersion + "-1")
		_, err = fleet.UpdatePlatformComponentWithResponse(ctx, "podinfo", &api.UpdatePlatformComponentParams{IfMatch: found.Headers200.ETag},
			api.PlatformComponentUpdate{ComponentVersion: next})
		return err
	})
	fmt.Println(tries, err)
	// Output: 2 <nil>
}

// Read a long list page by page.
func ExampleAll() {
	url, stop := demoServer()
	defer stop()

	fleet, err := client.New(client.Config{URL: url, Token: "read"})
	if err != nil {
		panic(err)
	}
	two := 2
	components := client.All[api.PlatformComponent](context.Background(), func(ctx context.Context, more ...client.RequestEditorFn) (*http.Response, error) {
		return fleet.ListPlatformComponents(ctx, &api.ListPlatformComponentsParams{Limit: &two}, more...)
	})
	for component, err := range components {
		if err != nil {
			panic(err)
		}
		fmt.Println(component.ID)
	}
	// Output:
	// cert-manager
	// podinfo
	// traefik
}

// Wait until another replica serves a change.
func ExampleWaitForRevision() {
	url, stop := demoServer()
	defer stop()

	fleet, err := client.New(client.Config{URL: url, Token: "write"})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	made, err := fleet.CreateNamespaceWithResponse(ctx, nil, api.NamespaceCreate{ID: "team-sandbox"})
	if err != nil {
		panic(err)
	}
	polled, err := client.New(client.Config{URL: url, Token: "read"}) // another address, in earnest
	if err != nil {
		panic(err)
	}
	fmt.Println(client.WaitForRevision(ctx, polled, made.JSON201.Revision))
	// Output: <nil>
}

// Process each revision exactly once, also across restarts of the server and of this program.
func ExampleRevisions() {
	url, stop := demoServer()
	defer stop()

	fleet, err := client.New(client.Config{URL: url, Token: "read"})
	if err != nil {
		panic(err)
	}
	watch := client.RevisionWatch{After: "0"} // in a program: the stored position of the last processed revision
	for revision, err := range client.Revisions(context.Background(), fleet, watch) {
		if gone, ok := errors.AsType[*client.GoneError](err); ok {
			fmt.Println("read the fleet again, and continue before revision", gone.Oldest)
			return
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(revision.Revision, revision.Summary)
		_ = client.Position(revision) // a program stores it
		break                         // and goes on: the loop waits
	}
	// Output: 1 seeded the fleet
}
