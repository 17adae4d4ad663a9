package apiclient_test

import (
	"errors"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/apiclient"
)

// A program that has not been changed yet goes on working, also beside one that has: the names are the same types.
func TestTheFormerName(t *testing.T) {
	t.Parallel()
	var made *client.Client
	made, err := apiclient.New(apiclient.Config{URL: "https://fleet.example.com", Seen: &client.RevisionToken{}})
	if err != nil || made == nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*apiclient.Error](error(&client.Error{StatusCode: 409})); !ok {
		t.Error("an error of the client is none by its former name")
	}
}
