package openapi

import "github.com/flux-resourceset/flux-resourceset/fleet"

// rights lists the operations that principals with access documents may call. Each requires one of the listed rights. Operations
// that are not listed are forbidden for these principals. [fleet.Tx.LimitTo] further limits the effect of changes. Dry runs need
// only the right to plan.
var rights = byOperation(
	operationRights{[]fleet.Right{fleet.RightRead}, []string{
		"ListClusters", "GetCluster", "GetClusterStatus", "GetStatus", "GetStatusHistory", "Search", "GetComponentMatrix", "ExplainCluster", "ExplainInput",
		"ListPlatformComponents", "GetPlatformComponent", "ListNamespaces", "GetNamespace", "ListRoleBindings",
		"GetRoleBinding", "ListResourceTypes", "GetResourceType", "ListResources", "GetResource", "ListLayers", "GetLayer",
		"ListRevisions", "GetRevision", "ListRollouts", "GetRollout", "ListPolicies", "GetPolicy", "TestPolicy", "ListStrategies", "GetStrategy", "ListFreezes",
		"GetFreeze", "ListApprovals", "DeleteApproval", "GetClusterHistory", "GetPlatformComponentStatus", "GetPlatformComponentUsage",
		"GetPlatformComponentHistory", "GetComponentVersions", "GetNamespaceHistory", "GetLayerHistory", "GetRoleBindingHistory",
		"GetResourceTypeHistory", "GetResourceHistory", "GetPatches",
	}},
	operationRights{[]fleet.Right{fleet.RightPlan, fleet.RightWrite, fleet.RightRevert, fleet.RightPushVersion, fleet.RightPolicy}, []string{"Plan", "Render"}},
	operationRights{[]fleet.Right{fleet.RightWrite, fleet.RightPlan}, []string{
		"CreateCluster", "UpdateCluster", "PatchCluster", "DeleteCluster", "AssignPlatformComponent",
		"UnassignPlatformComponent", "AssignNamespace", "UnassignNamespace", "AssignRoleBinding", "UnassignRoleBinding",
		"AssignResource", "UnassignResource", "CreatePlatformComponent", "DeletePlatformComponent", "CreateNamespace",
		"UpdateNamespace", "PatchNamespace", "DeleteNamespace", "CreateRoleBinding", "UpdateRoleBinding", "PatchRoleBinding",
		"DeleteRoleBinding", "CreateResourceType", "UpdateResourceType", "PatchResourceType", "DeleteResourceType",
		"CreateResource", "UpdateResource", "PatchResource", "DeleteResource", "CreateLayer", "UpdateLayer", "PatchLayer",
		"DeleteLayer", "DeleteRollout", "CreateStrategy", "UpdateStrategy", "DeleteStrategy", "CreateFreeze", "PatchFreeze",
		"DeleteFreeze", "RestoreRevision", "AssignLayerPlatformComponent", "UnassignLayerPlatformComponent",
		"AssignLayerNamespace", "UnassignLayerNamespace", "AssignLayerRoleBinding", "UnassignLayerRoleBinding",
		"AssignLayerResource", "UnassignLayerResource", "PatchPatches", "ApplyPatches", "RelinquishPatches",
		"HoldComponentVersion", "ReleaseComponentVersion",
	}},
	operationRights{[]fleet.Right{fleet.RightWrite, fleet.RightPushVersion}, []string{"PushComponentVersion", "RefreshComponentVersions"}},
	operationRights{[]fleet.Right{fleet.RightWrite, fleet.RightPlan, fleet.RightPushVersion}, []string{
		"UpdatePlatformComponent", "PatchPlatformComponent", "CreateRollout",
	}},
	operationRights{[]fleet.Right{fleet.RightWrite, fleet.RightPlan, fleet.RightPushVersion, fleet.RightApprove}, []string{"ChangeRollout"}},
	operationRights{[]fleet.Right{fleet.RightWrite, fleet.RightPlan, fleet.RightRevert}, []string{"RevertRevision"}},
	operationRights{[]fleet.Right{fleet.RightWrite, fleet.RightPlan, fleet.RightPushVersion, fleet.RightRevert, fleet.RightPolicy}, []string{"ApplyBatch"}},
	operationRights{[]fleet.Right{fleet.RightApprove}, []string{"CreateApproval"}},
	operationRights{[]fleet.Right{fleet.RightPolicy, fleet.RightAdmin}, []string{"CreatePolicy", "UpdatePolicy", "PatchPolicy", "DeletePolicy"}},
	operationRights{[]fleet.Right{fleet.RightAdmin}, []string{
		"ListAccess", "CreateAccess", "GetAccess", "PatchAccess", "DeleteAccess", "EndSessions", "ListWebhooks", "CreateWebhook", "GetWebhook", "UpdateWebhook",
		"ListSources", "CreateSource", "GetSource", "PatchSource", "DeleteSource", "PlanSource", "ApproveSource", "ReconcileSource", "PatchWebhook", "DeleteWebhook", "GetWebhookHistory", "GetWebhookSecret", "RotateWebhook", "TestWebhook", "ReplayWebhook", "ListTokens", "CreateToken", "GetToken",
		"RevokeToken", "RotateToken", "GetBackup",
	}},
)

// operationRights are operations, and the rights of which each requires one.
type operationRights struct {
	rights     []fleet.Right
	operations []string
}

func byOperation(all ...operationRights) map[string][]fleet.Right {
	out := map[string][]fleet.Right{}
	for _, p := range all {
		for _, op := range p.operations {
			out[op] = p.rights
		}
	}
	return out
}
