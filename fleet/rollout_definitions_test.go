package fleet

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readsStored are the functions that may read stored definitions and layers although a cluster may have a variant of them,
// with the reason or below a comment with it.
var readsStored = map[string]string{
	"State.definition": "it is the function to use",
	"State.versions":   "returns the variants too",
	"State.stored":     "overlayOf makes variants of them",
	"State.Components": "asks State.definition where a rollout may have another one",

	// The documents themselves.
	"State.All": "", "State.listReferring": "lists the stored ones; addFacts takes the versions of the cluster", "layerResolution.withFacts": "writes", "referencesIn": "reads the fields of one document", "checker.references": "reads the fields of one document", "State.ReferencesIn": "explains the stored text of references", "State.Count": "", "State.Find": "", "State.Get": "", "State.Has": "", "State.Record": "", "State.sorted": "", "Tx.create": "asks whether it exists", "access.Check.Right": "asks for the rights on it", "Rights.Try": "tries the right on the document itself", "access.Check.tryRight": "tries the right on the document itself",
	"State.templateSteps": "counts documents", "kindSet.state": "", "State.with": "", "State.editsOf": "", "State.rereadResources": "", "changesOf": "", "Tx.changes": "",
	"scopeCheck.permits": "", "scopeCheck.onlyVersions": "", "Tx.raw": "", "Tx.each": "", "Tx.Match": "", "Tx.delete": "", "Tx.endTombstones": "", "Tx.hasLastingChange": "", "Batch.restore": "", "Tx.suspendRecreated": "asks whether it exists",
	"Result.hash": "", "Result.ownership": "", "history.Blame": "explains stored documents", "history.clusterPast.changesAt": "",
	"State.VisibleTo": "copies documents", "State.addCovered": "", "State.addOfClusters": "adds the documents of its variants too", "State.addDefinition": "adds the documents of its variants too", "State.addRollouts": "asks whether it is visible", "Tx.checkReadable": "asks whether it is visible", "Tx.hides": "asks whether it is visible", "Tx.checkFleetLimits": "counts documents", "labelLimits.isKnown": "asks whether it is visible", "Tx.newLabelLimits": "rollouts change no selector of a layer", "State.Shows": "asks whether it is visible", "State.showsOperation": "asks whether it is visible", "State.showsVersion": "asks whether it is visible", "State.MayHaveHistory": "asks whether it is visible",

	// Policies, which no rollout changes.
	"State.enforcedPolicies": "", "Tx.checkPolicyRules": "", "Tx.approvalProblem": "",

	// Sources, which no rollout changes, and what they manage.
	"State.ManagedBy": "", "State.adoptedByRollouts": "", "State.SourceState": "", "State.indexManaged": "", "Tx.changesContent": "asks whether the stored document changes", "Tx.suspendSources": "", "Tx.proposeArtifact": "asks whether it exists", "State.ActorSubject": "asks whether the source exists", "checkFollowedSource": "counts documents", "checkPolicy": "counts documents",
	"txValidation.checkManagedPolicies": "checks the stored document",

	// Rollouts and the layers that they change.
	"kindSet.overlayOf": "makes variants", "kindSet.decodePin": "makes variants", "RolloutInputs.unchanged": "compares with an earlier State", "Tx.makesChange": "compares with the documents that the rollout changes", "Tx.repeatRollout": "compares with the documents that the rollout changes", "State.checkMergeOrder": "", "State.checkRolloutDocuments": "", "State.withVariants": "", "txValidation.checkVariants": "",
	"State.originOn": "shows the stored document beside the variant", "notStageable": "", "Overlay.get": "", "State.recomputeLayers": "", "kindSet.resolveAll": "match replaces layers by their variants",

	// Checks of stored documents; checkVariants runs them for variants.
	"txValidation.checkDocument": "", "Tx.checkReferenceCounts": "", "txValidation.checkInUse": "", "txValidation.checkLayerReferences": "", "txValidation.checkRetyped": "",
	"checkStoredZones": "variants are checked as layers", "State.assignedByLayers": "", "State.catalog": "", "checkDependencies": "", "checkLayerComponents": "", "checkLayerPatches": "", "checkLayerFlux": "", "checker.settings": "", "checkSetTaken": "",
	"txValidation.appendSecretValues": "words a message by the type of a component", "State.knownPatches": "adds the changes of rollouts",

	// Rollouts neither create nor delete documents.
	"State.renderedFor": "asks whether it exists", "checkIDs": "asks whether it exists", "State.resolves": "asks whether it exists", "warnLayersChanged": "asks whether it exists",
	"State.sharedByDefinitions": "iterates over ids", "State.Usage": "asks whether it exists", "checkVersionPolicy": "asks whether it exists", "State.RolloutView": "asks whether it exists",

	// Version policies replace stored versions, and rollouts bring these to clusters.
	"State.componentDocument": "", "State.document": "", "State.compareTargets": "", "VersionPins": "", "VersionMoves": "", "VersionMembers": "",

	// Clusters with other variants than before are in layerChanges.
	"Result.affectedDirectly": "withVariants adds the variants", "State.addChangedTypes": "iterates over ids", "txValidation.redefined": "", "txValidation.changedReleases": "stages check the clusters that they reach", "State.largestBounds": "iterates over ids",
}

// TestDefinitionsOfClusters: code that computes anything for a cluster reads definitions through State.definition. A call
// that bypasses it would ignore the variants of rollouts, and serve or plan the wrong version.
func TestDefinitionsOfClusters(t *testing.T) {
	t.Parallel()
	found := map[string]string{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	above, err := filepath.Glob("*/*.go") // packages on top of this one
	require.NoError(t, err)
	fset := token.NewFileSet()
	for _, f := range append(files, above...) {
		if strings.HasSuffix(f, "_test.go") || filepath.Dir(f) == "fleettest" {
			continue
		}
		parsed, err := parser.ParseFile(fset, f, nil, 0)
		require.NoError(t, err)
		prefix := ""
		if dir := filepath.Dir(f); dir != "." {
			prefix = dir + "."
		}
		for _, decl := range parsed.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if readsStoredDocuments(n) {
					found[prefix+functionName(fn)] = fset.Position(n.Pos()).String()
				}
				return true
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, allowed := readsStored[name]; !allowed {
			t.Errorf("%s: %s reads stored documents of any kind: use State.definition, or add it to readsStored with the reason", found[name], name)
		}
	}
	for name := range readsStored {
		require.Contains(t, found, name, "it no longer reads stored documents")
	}
}

// readsStoredDocuments reports whether an expression reads documents of a kind that rollouts may change.
func readsStoredDocuments(n ast.Node) bool {
	unstaged := []string{"KindCluster", "KindToken", "KindBudget", "KindOrphan", "KindRollout", "KindStrategy", "KindFreeze", "KindPin", "KindSessionEnd", "KindAccess", "KindWebhook", "KindResourceType", "KindVersionAutomation", "KindApproval"}
	switch n := n.(type) {
	case *ast.IndexExpr:
		docs, ok := n.X.(*ast.SelectorExpr)
		return ok && docs.Sel.Name == "docs" && !slices.Contains(unstaged, constantName(n.Index))
	case *ast.CallExpr:
		fn, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) == 0 || !slices.Contains([]string{"Get", "Find", "All", "Has", "Record", "sorted"}, fn.Sel.Name) {
			return false
		}
		if on, ok := fn.X.(*ast.Ident); ok && (on.Name == "tx" || on.Name == "gzipWriters" || on.Name == "v") || strings.HasSuffix(fmt.Sprint(fn.X), " tx}") {
			return false // the documents that requests edit
		}
		if on, ok := fn.X.(*ast.SelectorExpr); ok && on.Sel.Name == "Tag" {
			return false
		}
		return !slices.Contains(unstaged, constantName(n.Args[0]))
	}
	return false
}

// constantName returns the name of an expression that is a constant of this package, here or in a package on top; empty for others.
func constantName(e ast.Expr) string {
	if of, ok := e.(*ast.SelectorExpr); ok && fmt.Sprint(of.X) == "fleet" {
		return of.Sel.Name
	}
	if name, ok := e.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	return fmt.Sprint(of) + "." + fn.Name.Name
}
