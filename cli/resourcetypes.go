package cli

import (
	"context"
	"net/http"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s *session) resourceTypeCommand() *cli.Command {
	v := kindCommands{s, kinds.ResourceTypes}
	remove := v.deleteCommand()
	remove.Usage = "Delete a resource type without definitions"
	for _, f := range remove.Flags {
		if flag, ok := f.(*cli.BoolFlag); ok && flag.Name == "cascade" {
			flag.Usage = "delete its definitions, and unassign them from every cluster, in the same change"
		}
	}
	return v.documentCommand(remove)
}

// typesOf returns the resource types of the fleet by id.
func (s *session) typesOf(ctx context.Context, client conn.Client) ([]api.ResourceType, error) {
	docs, err := s.ReadList(0, 0, func(e ...conn.Edit) (*http.Response, error) { return kinds.ResourceTypes.Calls.List(ctx, client, e...) })
	types := make([]api.ResourceType, len(docs))
	for i, doc := range docs {
		if err := (conn.Answer{Body: doc}).Decode(&types[i]); err != nil {
			return nil, err
		}
	}
	return types, err
}

// typeIDs returns the ids of typesOf.
func (s *session) typeIDs(ctx context.Context, client conn.Client) ([]string, error) {
	types, err := s.typesOf(ctx, client)
	ids := make([]string, len(types))
	for i, of := range types {
		ids[i] = of.ID
	}
	return ids, err
}

// typeOf returns one resource type.
func (s *session) typeOf(ctx context.Context, client conn.Client, id string) (api.ResourceType, error) {
	return conn.ReceiveAs[api.ResourceType](kinds.ResourceTypes.Calls.Get(ctx, client, id))
}
