package openapi

import "github.com/flux-resourceset/flux-resourceset/fleet"

// rights are the operations that principals with access documents may call, each with the rights of which one is required. An
// operation that is missing here is forbidden for them. The changes are limited further by their effect: see
// [fleet.Tx.LimitTo]. Dry runs need only the right to plan.
var rights = byOperation(
	permitted{[]fleet.Right{fleet.RightRead}, []string{
		"ListClusters", "GetCluster", "GetClusterStatus", "GetStatus", "ExplainCluster", "ExplainInput",
		"ListPlatformComponents", "GetPlatformComponent", "ListNamespaces", "GetNamespace", "ListRoleBindings",
		"GetRoleBinding", "ListResourceTypes", "GetResourceType", "ListResources", "GetResource", "ListLayers", "GetLayer",
		"ListRevisions", "GetRevision", "ListRollouts", "GetRollout", "ListStrategies", "GetStrategy", "ListFreezes",
		"GetFreeze", "GetClusterHistory", "GetPlatformComponentStatus", "GetPlatformComponentUsage",
		"GetPlatformComponentHistory", "GetNamespaceHistory", "GetLayerHistory", "GetRoleBindingHistory",
		"GetResourceTypeHistory", "GetResourceHistory", "GetPatches",
	}},
	permitted{[]fleet.Right{fleet.RightPlan, fleet.RightWrite, fleet.RightRevert, fleet.RightPushVersion}, []string{"Plan"}},
	permitted{[]fleet.Right{fleet.RightWrite, fleet.RightPlan}, []string{
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
	}},
	permitted{[]fleet.Right{fleet.RightWrite, fleet.RightPlan, fleet.RightPushVersion}, []string{
		"UpdatePlatformComponent", "PatchPlatformComponent", "CreateRollout",
	}},
	permitted{[]fleet.Right{fleet.RightWrite, fleet.RightPlan, fleet.RightPushVersion, fleet.RightApprove}, []string{"ChangeRollout"}},
	permitted{[]fleet.Right{fleet.RightWrite, fleet.RightPlan, fleet.RightRevert}, []string{"RevertRevision"}},
	permitted{[]fleet.Right{fleet.RightWrite, fleet.RightPlan, fleet.RightPushVersion, fleet.RightRevert}, []string{"ApplyBatch"}},
	permitted{[]fleet.Right{fleet.RightAdmin}, []string{
		"ListAccess", "CreateAccess", "GetAccess", "PatchAccess", "DeleteAccess", "EndSessions", "ListTokens", "CreateToken", "GetToken",
		"RevokeToken", "RotateToken", "GetBackup",
	}},
)

// permitted are operations that require one of some rights.
type permitted struct {
	rights     []fleet.Right
	operations []string
}

func byOperation(all ...permitted) map[string][]fleet.Right {
	out := map[string][]fleet.Right{}
	for _, p := range all {
		for _, op := range p.operations {
			out[op] = p.rights
		}
	}
	return out
}
