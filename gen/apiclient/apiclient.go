// Package apiclient is the former name of package client.
//
// Deprecated: import github.com/flux-resourceset/flux-resourceset/client. This name is left out of the release after the next one.
package apiclient

import (
	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
)

const (
	DefaultTimeout     = client.DefaultTimeout
	DefaultRetries     = client.DefaultRetries
	DefaultRetryWait   = client.DefaultRetryWait
	DefaultMaxResponse = client.DefaultMaxResponse
)

type (
	Config = client.Config
	Error  = client.Error
	Seen   = client.RevisionToken
)

type (
	ApplyBatchResponse                            = rawclient.ApplyBatchResponse
	ApplyBatchResponse200Headers                  = rawclient.ApplyBatchResponse200Headers
	ApplyPatchesResponse                          = rawclient.ApplyPatchesResponse
	ApplyPatchesResponse200Headers                = rawclient.ApplyPatchesResponse200Headers
	AssignNamespaceResponse                       = rawclient.AssignNamespaceResponse
	AssignNamespaceResponse200Headers             = rawclient.AssignNamespaceResponse200Headers
	AssignPlatformComponentResponse               = rawclient.AssignPlatformComponentResponse
	AssignPlatformComponentResponse200Headers     = rawclient.AssignPlatformComponentResponse200Headers
	AssignRoleBindingResponse                     = rawclient.AssignRoleBindingResponse
	AssignRoleBindingResponse200Headers           = rawclient.AssignRoleBindingResponse200Headers
	Client                                        = rawclient.Client
	ClientInterface                               = rawclient.ClientInterface
	ClientOption                                  = rawclient.ClientOption
	ClientWithResponses                           = rawclient.ClientWithResponses
	ClientWithResponsesInterface                  = rawclient.ClientWithResponsesInterface
	CreateClusterResponse                         = rawclient.CreateClusterResponse
	CreateClusterResponse200Headers               = rawclient.CreateClusterResponse200Headers
	CreateClusterResponse201Headers               = rawclient.CreateClusterResponse201Headers
	CreateNamespaceResponse                       = rawclient.CreateNamespaceResponse
	CreateNamespaceResponse200Headers             = rawclient.CreateNamespaceResponse200Headers
	CreateNamespaceResponse201Headers             = rawclient.CreateNamespaceResponse201Headers
	CreatePlatformComponentResponse               = rawclient.CreatePlatformComponentResponse
	CreatePlatformComponentResponse200Headers     = rawclient.CreatePlatformComponentResponse200Headers
	CreatePlatformComponentResponse201Headers     = rawclient.CreatePlatformComponentResponse201Headers
	CreateRoleBindingResponse                     = rawclient.CreateRoleBindingResponse
	CreateRoleBindingResponse200Headers           = rawclient.CreateRoleBindingResponse200Headers
	CreateRoleBindingResponse201Headers           = rawclient.CreateRoleBindingResponse201Headers
	CreateTokenResponse                           = rawclient.CreateTokenResponse
	CreateTokenResponse200Headers                 = rawclient.CreateTokenResponse200Headers
	CreateTokenResponse201Headers                 = rawclient.CreateTokenResponse201Headers
	DeleteClusterResponse                         = rawclient.DeleteClusterResponse
	DeleteClusterResponse200Headers               = rawclient.DeleteClusterResponse200Headers
	DeleteNamespaceResponse                       = rawclient.DeleteNamespaceResponse
	DeleteNamespaceResponse200Headers             = rawclient.DeleteNamespaceResponse200Headers
	DeletePlatformComponentResponse               = rawclient.DeletePlatformComponentResponse
	DeletePlatformComponentResponse200Headers     = rawclient.DeletePlatformComponentResponse200Headers
	DeleteRoleBindingResponse                     = rawclient.DeleteRoleBindingResponse
	DeleteRoleBindingResponse200Headers           = rawclient.DeleteRoleBindingResponse200Headers
	GetClusterHistoryResponse                     = rawclient.GetClusterHistoryResponse
	GetClusterHistoryResponse200Headers           = rawclient.GetClusterHistoryResponse200Headers
	GetClusterResponse                            = rawclient.GetClusterResponse
	GetClusterResponse200Headers                  = rawclient.GetClusterResponse200Headers
	GetHealthResponse                             = rawclient.GetHealthResponse
	GetMetricsResponse                            = rawclient.GetMetricsResponse
	GetNamespaceHistoryResponse                   = rawclient.GetNamespaceHistoryResponse
	GetNamespaceHistoryResponse200Headers         = rawclient.GetNamespaceHistoryResponse200Headers
	GetNamespaceResponse                          = rawclient.GetNamespaceResponse
	GetNamespaceResponse200Headers                = rawclient.GetNamespaceResponse200Headers
	GetOpenAPIJSONResponse                        = rawclient.GetOpenAPIJSONResponse
	GetOpenAPIYAMLResponse                        = rawclient.GetOpenAPIYAMLResponse
	GetPatchesResponse                            = rawclient.GetPatchesResponse
	GetPatchesResponse200Headers                  = rawclient.GetPatchesResponse200Headers
	GetPlatformComponentHistoryResponse           = rawclient.GetPlatformComponentHistoryResponse
	GetPlatformComponentHistoryResponse200Headers = rawclient.GetPlatformComponentHistoryResponse200Headers
	GetPlatformComponentResponse                  = rawclient.GetPlatformComponentResponse
	GetPlatformComponentResponse200Headers        = rawclient.GetPlatformComponentResponse200Headers
	GetReadyResponse                              = rawclient.GetReadyResponse
	GetRevisionResponse                           = rawclient.GetRevisionResponse
	GetRevisionResponse200Headers                 = rawclient.GetRevisionResponse200Headers
	GetRoleBindingHistoryResponse                 = rawclient.GetRoleBindingHistoryResponse
	GetRoleBindingHistoryResponse200Headers       = rawclient.GetRoleBindingHistoryResponse200Headers
	GetRoleBindingResponse                        = rawclient.GetRoleBindingResponse
	GetRoleBindingResponse200Headers              = rawclient.GetRoleBindingResponse200Headers
	GetTokenResponse                              = rawclient.GetTokenResponse
	GetTokenResponse200Headers                    = rawclient.GetTokenResponse200Headers
	GetVersionResponse                            = rawclient.GetVersionResponse
	HttpRequestDoer                               = rawclient.HttpRequestDoer
	ListClustersResponse                          = rawclient.ListClustersResponse
	ListClustersResponse200Headers                = rawclient.ListClustersResponse200Headers
	ListNamespacesResponse                        = rawclient.ListNamespacesResponse
	ListNamespacesResponse200Headers              = rawclient.ListNamespacesResponse200Headers
	ListPlatformComponentsResponse                = rawclient.ListPlatformComponentsResponse
	ListPlatformComponentsResponse200Headers      = rawclient.ListPlatformComponentsResponse200Headers
	ListRevisionsResponse                         = rawclient.ListRevisionsResponse
	ListRevisionsResponse200Headers               = rawclient.ListRevisionsResponse200Headers
	ListRoleBindingsResponse                      = rawclient.ListRoleBindingsResponse
	ListRoleBindingsResponse200Headers            = rawclient.ListRoleBindingsResponse200Headers
	ListTokensResponse                            = rawclient.ListTokensResponse
	ListTokensResponse200Headers                  = rawclient.ListTokensResponse200Headers
	PatchClusterResponse                          = rawclient.PatchClusterResponse
	PatchClusterResponse200Headers                = rawclient.PatchClusterResponse200Headers
	PatchNamespaceResponse                        = rawclient.PatchNamespaceResponse
	PatchNamespaceResponse200Headers              = rawclient.PatchNamespaceResponse200Headers
	PatchPatchesResponse                          = rawclient.PatchPatchesResponse
	PatchPatchesResponse200Headers                = rawclient.PatchPatchesResponse200Headers
	PatchPlatformComponentResponse                = rawclient.PatchPlatformComponentResponse
	PatchPlatformComponentResponse200Headers      = rawclient.PatchPlatformComponentResponse200Headers
	PatchRoleBindingResponse                      = rawclient.PatchRoleBindingResponse
	PatchRoleBindingResponse200Headers            = rawclient.PatchRoleBindingResponse200Headers
	PlanResponse                                  = rawclient.PlanResponse
	PlanResponse200Headers                        = rawclient.PlanResponse200Headers
	PollClustersResponse                          = rawclient.PollClustersResponse
	PollClustersResponse200Headers                = rawclient.PollClustersResponse200Headers
	PollNamespacesResponse                        = rawclient.PollNamespacesResponse
	PollNamespacesResponse200Headers              = rawclient.PollNamespacesResponse200Headers
	PollPlatformComponentsResponse                = rawclient.PollPlatformComponentsResponse
	PollPlatformComponentsResponse200Headers      = rawclient.PollPlatformComponentsResponse200Headers
	PollRoleBindingsResponse                      = rawclient.PollRoleBindingsResponse
	PollRoleBindingsResponse200Headers            = rawclient.PollRoleBindingsResponse200Headers
	RelinquishPatchesResponse                     = rawclient.RelinquishPatchesResponse
	RelinquishPatchesResponse200Headers           = rawclient.RelinquishPatchesResponse200Headers
	RequestEditorFn                               = rawclient.RequestEditorFn
	RestoreRevisionResponse                       = rawclient.RestoreRevisionResponse
	RestoreRevisionResponse200Headers             = rawclient.RestoreRevisionResponse200Headers
	RevokeTokenResponse                           = rawclient.RevokeTokenResponse
	RevokeTokenResponse200Headers                 = rawclient.RevokeTokenResponse200Headers
	RotateTokenResponse                           = rawclient.RotateTokenResponse
	RotateTokenResponse200Headers                 = rawclient.RotateTokenResponse200Headers
	UnassignNamespaceResponse                     = rawclient.UnassignNamespaceResponse
	UnassignNamespaceResponse200Headers           = rawclient.UnassignNamespaceResponse200Headers
	UnassignPlatformComponentResponse             = rawclient.UnassignPlatformComponentResponse
	UnassignPlatformComponentResponse200Headers   = rawclient.UnassignPlatformComponentResponse200Headers
	UnassignRoleBindingResponse                   = rawclient.UnassignRoleBindingResponse
	UnassignRoleBindingResponse200Headers         = rawclient.UnassignRoleBindingResponse200Headers
	UpdateClusterResponse                         = rawclient.UpdateClusterResponse
	UpdateClusterResponse200Headers               = rawclient.UpdateClusterResponse200Headers
	UpdateNamespaceResponse                       = rawclient.UpdateNamespaceResponse
	UpdateNamespaceResponse200Headers             = rawclient.UpdateNamespaceResponse200Headers
	UpdatePlatformComponentResponse               = rawclient.UpdatePlatformComponentResponse
	UpdatePlatformComponentResponse200Headers     = rawclient.UpdatePlatformComponentResponse200Headers
	UpdateRoleBindingResponse                     = rawclient.UpdateRoleBindingResponse
	UpdateRoleBindingResponse200Headers           = rawclient.UpdateRoleBindingResponse200Headers
)

// New is client.New.
func New(cfg Config) (*ClientWithResponses, error) { return client.New(cfg) }

// ErrorCode is client.ErrorCode.
func ErrorCode(err error) string { return client.ErrorCode(err) }

// SetValues is client.SetValues.
func SetValues(component string, values map[string]any) (api.ClusterPatch, error) {
	return client.SetValues(component, values)
}

// NewClient is the generated one.
func NewClient(server string, opts ...ClientOption) (*Client, error) {
	return rawclient.NewClient(server, opts...)
}

// NewClientWithResponses is the generated one.
func NewClientWithResponses(server string, opts ...ClientOption) (*ClientWithResponses, error) {
	return rawclient.NewClientWithResponses(server, opts...)
}

// WithBaseURL is the generated one.
func WithBaseURL(baseURL string) ClientOption { return rawclient.WithBaseURL(baseURL) }

// WithHTTPClient is the generated one.
func WithHTTPClient(doer HttpRequestDoer) ClientOption { return rawclient.WithHTTPClient(doer) }

// WithRequestEditorFn is the generated one.
func WithRequestEditorFn(fn RequestEditorFn) ClientOption { return rawclient.WithRequestEditorFn(fn) }
