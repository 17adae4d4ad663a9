package client

// String values of the API, for programs that compare with them.

// Kinds of documents in operations, revisions and plans. A definition of a resource type has KindResource in operations,
// next to its type, and "resource/TYPE" elsewhere.
const (
	KindCluster           = "cluster"
	KindPlatformComponent = "platform_component"
	KindNamespace         = "namespace"
	KindRoleBinding       = "rolebinding"
	KindStrategy          = "strategy"
	KindFreeze            = "freeze"
	KindAccess            = "access"
	KindWebhook           = "webhook"
	KindSource            = "source"
	KindPolicy            = "policy"
	KindResourceType      = "resource_type"
	KindResource          = "resource"
	KindLayer             = "layer"
)

// Operations of a batch or a plan.
const (
	OpCreate  = "create"
	OpUpdate  = "update"
	OpPatch   = "patch"
	OpPut     = "put"
	OpDelete  = "delete"
	OpRestore = "restore"
	OpRevert  = "revert"

	OpAssignComponent   = "assign_component"
	OpSetComponent      = "set_component"
	OpUnassignComponent = "unassign_component"

	OpPatchValues      = "patch_values"
	OpApplyValues      = "apply_values"
	OpRelinquishValues = "relinquish_values"

	OpAssignNamespace   = "assign_namespace"
	OpUnassignNamespace = "unassign_namespace"

	OpAssignRoleBinding   = "assign_rolebinding"
	OpUnassignRoleBinding = "unassign_rolebinding"

	OpAssignResource   = "assign_resource"
	OpUnassignResource = "unassign_resource"

	OpSetLabels = "set_labels"
	OpReconcile = "reconcile"
	OpAdopt     = "adopt"
)

// Roles of tokens.
const (
	RolePoll   = "poll"
	RoleRead   = "read"
	RoleWrite  = "write"
	RoleAdmin  = "admin"
	RoleScoped = "scoped"
)

// Codes of errors, as returned by [ErrorCode].
const (
	CodeValidation           = "validation_error"
	CodeUnauthorized         = "unauthorized"
	CodeForbidden            = "forbidden"
	CodeNotFound             = "not_found"
	CodeMethodNotAllowed     = "method_not_allowed"
	CodeConflict             = "conflict"
	CodeInUse                = "in_use"
	CodeProtected            = "protected"
	CodeFieldConflict        = "field_conflict"
	CodeRevertConflict       = "revert_conflict"
	CodeObjectConflict       = "object_conflict"
	CodeInRollout            = "in_rollout"
	CodeFrozen               = "frozen"
	CodePinned               = "pinned"
	CodeSecondPerson         = "second_person"
	CodeOutOfScope           = "out_of_scope"
	CodeMissingVariable      = "missing_variable"
	CodeNotStageable         = "not_stageable"
	CodePolicy               = "policy"
	CodeSecretValue          = "secret_value"
	CodeConfirmationRequired = "confirmation_required"
	CodeEarlyReceipt         = "early_receipt"
	CodeDiverged             = "diverged"
	CodeGone                 = "gone"
	CodeStale                = "stale"
	CodeTooLarge             = "too_large"
	CodeUnsupportedMediaType = "unsupported_media_type"
	CodeLimitExceeded        = "limit_exceeded"
	CodeTooManyRequests      = "too_many_requests"
	CodeInternal             = "internal_error"
	CodeUnresolvedReference  = "unresolved_reference"
	CodeStoreUnavailable     = "store_unavailable"
	CodeIssuerUnavailable    = "issuer_unavailable"
	CodeContended            = "contended"
	CodeOutcomeUnknown       = "outcome_unknown"
	CodeUnknownRevision      = "unknown_revision"
)
