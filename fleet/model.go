package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/graph"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/overlay"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/typeschema"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// The types of a fleet refer to each other, so they are in one file: a State holds kinds and documents, a kind checks
// documents of a State, and a cluster's configuration depends on layers, which are documents. The files after this one hold
// their functions, and each uses only the files before it; see the reading order in doc.go.

// Rules are the settings of a server that determine which changes are valid.
type Rules struct {
	// Environments are the allowed values of a cluster's environment, in promotion order. Empty allows any.
	Environments []string
	// MaxRemovals is the number of installed objects that may be removed within an hour, on all clusters together, without
	// the hash of a plan.
	MaxRemovals int
	// Protected are the environments from which a careful change may only remove if it names them: see [Guard].
	Protected []string
	// SecondPerson requires that the actor that approves a stage has neither created the rollout nor last changed its stages.
	SecondPerson bool
	// VersionRollouts is the number of open rollouts that version policies may propose; 0: DefaultVersionRollouts.
	VersionRollouts int
	// RefuseSecrets refuses new patches whose paths look like those of secrets. Otherwise there is a warning.
	RefuseSecrets bool
}

// CompareEnvironments compares names of environments: those of Environments are first, in promotion order; the others follow by name.
func (r Rules) CompareEnvironments(a, b string) int {
	rank := func(name string) int {
		if i := slices.Index(r.Environments, name); i >= 0 {
			return i
		}
		return len(r.Environments)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// State is every document of the fleet at one revision. It never changes, so any number of readers may use it.
type State struct {
	kinds *kindSet
	rules Rules
	head  Head
	at    time.Time
	// newest is the latest time of any commit, which is not that of the head if a clock went back.
	newest   time.Time
	docs     map[Kind]map[string]*Document
	byDNS    map[string]string         // cluster_dns, in lower case -> id; decommissioned clusters included
	live     int                       // number of clusters that are not decommissioned
	layers   *layerResolution          // nil if there are no layers and no rollout delivers
	rollouts *openRollouts             // nil if there are none
	pinned   map[string]*pinnedCluster // by id
	id       *stateID
	shared   *sharedObjects
	// definitions stays the same until a definition or a resource type changes.
	definitions *definitionsID

	holders map[Digest]*Holder // of the secrets of managed tokens
	writers bool               // there is a managed token of a role other than poll and read
	access  *accessIndex       // nil if there are no access documents
	managed map[docKey]manager // the documents that sources manage; nil if there are none
	visible *visibility        // nil: the State has all documents
	// detached: see [State.Detached].
	detached bool

	references *references // from clusters to definitions
	refers     int         // clusters, layers and definitions with references to facts of a cluster
	referring  []*Document // the definitions of these

	components   catalog
	liveClusters struct { // sorted by id, for All: sorting is the most expensive part of a summary of the fleet
		once   sync.Once
		sorted []*Document
	}
	clusters struct { // the result of ClustersAnswer
		once   sync.Once
		answer *Answer
		err    error
	}
}

// stateID identifies a State in caches, without keeping the State itself alive.
type stateID struct{ _ byte }

// definitionsID identifies the definitions and resource types of a State until one of them changes, without keeping them
// alive.
type definitionsID struct{ _ byte }

// references finds the clusters that refer to definitions. The table is computed when it is first needed. States share it until a
// cluster or a layer changes.
type references struct {
	mu      *sync.Mutex     // of all States of a fleet; protects the other fields and all tables
	table   *referenceTable // nil: it is not computed yet
	from    *referenceTable // of an earlier State; nil: there is none
	changed []string        // ids of the clusters that have changed since that State
}

// referenceTable has a row for each cluster of a State. Pins do not affect it. It does not change, except that
// it caches selectors.
type referenceTable struct {
	updates   int            // clusters that were updated since a table was computed from a whole State
	rows      map[string]int // by the id of the cluster
	ids       []string
	uses      []definitionSet
	numbers   map[docKey]int         // of all definitions in the sets
	selectors map[string]outsideRows // by the text of the selector
}

// outsideRows are the clusters of a table that a selector does not match.
type outsideRows struct {
	selector Selector
	rows     []bool
}

// definitionSet is a set of definitions by their numbers, modulo its size: it may contain more definitions than were added.
type definitionSet [8]uint64

// edit is one document of the next State; nil removes it.
type edit struct {
	kind Kind
	id   string
	doc  *Document
}

// docKey identifies a document of a State.
type docKey struct {
	kind Kind
	id   string
}

// kindRules are the rules of a kind of document.
type kindRules struct {
	name       Kind
	noun       string     // name in messages
	collection string     // in paths and seed files; empty: not accessible there
	empty      func() any // pointer to the model to decode into
	normalize  func(obj map[string]any)
	// complete computes derived values after decoding a stored document; may be nil.
	complete func(value any, body json.RawMessage) error
	check    func(c *checker, d *Document)
	view     func(d *Document) any // the document as the API shows it; nil: the API does not show it
	changed  func(c *checker, was, is *Document)
	// bound limits the bytes that the document adds to the encoded answer of a cluster; nil: it adds none. See answer_size.go.
	bound func(value any) int
}

// recordKind returns the rules of a kind of records, which only the product writes.
func recordKind(name Kind, noun string, empty func() any) kindRules {
	return kindRules{name: name, noun: noun, empty: empty, normalize: func(map[string]any) {}, check: func(*checker, *Document) {}}
}

// kindSet holds the kinds of documents of a fleet. It never changes. A State has one and loops over it: the compiled-in
// kinds, then one for each resource type. A test adds one more kind.
type kindSet struct {
	lists         []*descriptor // the kinds of definitions, in their order everywhere
	kinds         []*kindRules
	byName        map[Kind]*kindRules // internal kinds included
	byKind        map[Kind]*descriptor
	byEndpoint    map[string]*descriptor // by endpoint
	compiledCount int                    // number of compiled-in lists, which are the first ones
	others        otherKinds
	// cluster returns the value of a cluster's document as the common cluster model; nil for other kinds.
	cluster func(value any) *api.Cluster
	// copyFields copies some fields, by their JSON names, from one cluster value to another.
	copyFields   func(value, from any, fields []string)
	copyValue    func(value any) any // a copy of such a value, to be changed
	emptyCluster func() *Effective   // a cluster without settings
}

// otherKinds are the kinds of a set besides its lists.
type otherKinds struct {
	layers, clusters, types *kindRules
	internal                []*kindRules // documents that do not describe the fleet
	// resources returns the kind of a resource type's definitions.
	resources func(id string, of *Document) *descriptor
}

// descriptor has the rules of a kind of definition that do not need its models.
type descriptor struct {
	kind     Kind
	field    string // the collection: in paths, in seed files, and the cluster's field with the list
	endpoint string // the last part of the path that clusters poll
	idField  string // the field of a batch operation that names a definition; its operations end with the same word: assign_namespace
	rules    kindRules
	entryLists
	slot int // index of its answers in a cluster's cache; -1: they are found by this pointer

	// typed: the kind comes from a resource type with the document typeDoc, which is nil if documents are read without their
	// type. Clusters hold entries in their resources, under the type's id, or not at all.
	typed   bool
	typeDoc *Document

	// addedLater: clusters may have been stored before this kind existed; they have none of it. For every other kind, a
	// document without the list cannot be read: an empty list in its place would uninstall the missing entries.
	addedLater bool

	idFrom func(op *api.Operation) string

	// The following fields are optional.

	seedAlias string // another name of the list in seed files
	// checkEntries reports problems of a cluster's entries, except missing and duplicate ones.
	checkEntries   func(c *checker, on *clusterCheck)
	normalizeEntry func(entry map[string]any)
	excluded       func(own *Effective) []string // ids that a cluster excludes from its layers; nil: the kind cannot be excluded
	overrides      *overrideRules
	// dependsOn returns the definitions of the same kind that a definition names in depends_on.
	dependsOn  func(d *Document) []string
	redeployed func(was, is *Document) bool // the deployment has changed, on any cluster
	uninstalls func(before, after any) bool // the input stays, but Flux removes objects that it has installed for it
	// object returns the object that the shipped template renders for a definition, if another definition may render it too.
	// idOf returns the id of the definition that renders an object, empty if there is none; default: that of object.
	object func(d *Document) rendering.Object
	idOf   func(o rendering.Object) string
	// kept: Flux keeps the object when the definition is removed from a cluster.
	kept func(d *Document, now time.Time) bool
}

// entryLists are the lists of a kind's entries, in clusters and in layers. Only [definition] knows their models.
type entryLists interface {
	// entries yields the ids of a cluster's list, in order, and whether each is enabled.
	entries(of *Effective) iter.Seq2[string, bool]
	count(of *Effective) int
	// enabled reports whether an entry is enabled, and whether it is present.
	enabled(of *Effective, id string) (enabled, present bool)
	// complete makes a missing list empty. It reports false if the list must not be missing.
	complete(of *Effective) bool
	// identical: both lists share memory, or both are empty.
	identical(a, b *Effective) bool
	// sameEntry: both clusters have equal entries for a definition, or neither has one.
	sameEntry(a, b *Effective, id string) bool
	// changedEntries returns the ids of entries that differ, and of those that were added, removed, enabled or disabled.
	changedEntries(was, is *Effective) (ids, toggled map[string]bool)

	// buildInputs builds the inputs of a cluster's list from the list's definitions; with only, just these.
	buildInputs(on *inputContext, definitions []*Document, only map[string]bool) ([]input, error)
	// splitCluster splits an input into the part that does not depend on the cluster, and the cluster block.
	splitCluster(in any) (any, api.FluxCluster)

	// appendInstallations appends the enabled entries as installations.
	appendInstallations(out []installation, s *State, of *Effective) []installation
	// sameDeployments: two clusters of one environment have the same entries, with the same deployment as far as the entries
	// determine it.
	sameDeployments(a, b *Effective) bool

	readLayer(list json.RawMessage) (any, error) // parses a layer's entries
	layerIDs(entries any) []string
	mergeLayers(layers []*layer) any
	applyLayers(merged any, own, e *Effective) // merges the cluster's own list over a merged one
	copyList(from, e *Effective)               // shares the list of another cluster
}

// overrideRules describe the settings that clusters have for a definition besides its assignment.
type overrideRules struct {
	size         func(cluster *api.Cluster) int             // upper bound of their encoded size in the cluster's answer
	sizeFromType bool                                       // the size depends on a resource type, so it cannot be cached in a document
	differ       func(was, is *api.Cluster, id string) bool // whether the settings of one definition differ
	overriddenOn func(cluster *api.Cluster, id string) bool // whether the cluster has settings of a definition
	invalidates  func(was, is *Document) bool               // whether a change of the definition may make them invalid
	recheck      func(c *checker, on *Effective, id string) // checks them again after such a change
}

// Document is one document of a State with values derived from it. It never changes.
type Document struct {
	Record
	value any // of its kind's model
	rules *kindRules
	bound int        // of a definition; see answer_size.go
	own   *Effective // configuration from the cluster's document alone; nil for other kinds. With layers: [State.Effective]

	refers     bool     // it has text that must be expanded on a cluster: see variables.go
	references []string // in it, sorted
}

// Effective is the effective configuration of a cluster: the settings of its document merged over those of the matching
// layers. Polls, and all code that asks for a cluster's configuration, use it; the [Document] holds only the user's input.
// They are different types so that they cannot be confused: an answer made from the document alone would lack the settings
// of layers, and Flux uninstalls whatever an answer lacks. It never changes.
type Effective struct {
	id            string
	value         any          // of the clusters' model
	cluster       *api.Cluster // the cluster in value
	bound         int          // see answer_size.go
	block         int          // encoded size of the cluster block, which every input repeats
	answers       *answers
	chain         *layerChain // of the matching layers; nil: no layer matches, and the document is the whole configuration
	shared        bool        // the document has no settings: all such clusters with the same layers share their lists
	mergedEntries int         // see layer_limits.go
	own           *Effective  // the configuration from the document alone; nil if that is this one
	unresolved    []unresolvedValue
	resolvedBytes int // of the results of references in it

	// checked identifies the definitions with which the lists, the patches and the size of the answers had no problems.
	checked atomic.Pointer[definitionsID]
}

// receiptNone declares that the template of a type sends no receipts.
const receiptNone = "none"

// resourceType is the value of a resource type's document.
type resourceType struct {
	api.ResourceType
	schema   *typeschema.Schema   // nil: it is invalid
	problems []typeschema.Problem // if it is invalid

	compiled   *resourceset.Template // the parsed template; nil: there is none, or it cannot be parsed
	uncompiled error                 // if it cannot be parsed
	// objectsKnown: the objects of an input follow from the template and the input.
	objectsKnown bool
	clusterUse   clusterUse
}

// clusterUse is the part of a cluster that a template reads.
type clusterUse int

const (
	usesNoCluster clusterUse = iota
	usesEnvironment
	usesWholeCluster
)

// resource is the value of a definition's document.
type resource struct {
	api.Resource
	of      *Document // its type; nil if the document is read alone
	fields  []inputField
	endless bool // its defaults exceed the limit
	// expanded: it has the values that references have on some clusters.
	expanded bool

	renderings *renderings
}

// objectChanges compares the objects of inputs before and after one change.
type objectChanges struct {
	work  work
	known map[objectChange]bool
	made  map[objectChange]rendering.Result // of single inputs, without a type and an input before
	// perCluster are resource types whose objects depend on more of a cluster than its environment.
	perCluster []string
}

// objectChange is an input before and after a change, as far as its template reads it.
type objectChange struct {
	was, is       *resourceType
	before, after [sha256.Size]byte
	sameReceipt   bool
}

// inputField is an encoded field of an input.
type inputField struct {
	name  string
	value json.RawMessage
}

// layer is the value of a layer's document.
type layer struct {
	api.Layer
	noPriority        bool // priority is missing, which is not the same as 0
	selector          Selector
	selectorErr       error // the selector cannot be parsed: it matches no cluster
	lists             map[Kind]any
	resources         map[string][]overlay.Entry[api.ResourceAssignment]
	componentDefaults map[string]overlay.Entry[api.ComponentAssignment] // of components, including those that the layer does not assign
	entryCounts       map[Kind]int                                      // number of entries by kind

	assigned struct { // see [layer.assigns]
		once sync.Once
		set  map[docKey]bool
	}
}

// layerChain is the merged result of some layers, for all clusters that match exactly these.
type layerChain struct {
	layers             []*Document // by rising priority
	key                string      // see layerMatch
	lists              map[Kind]any
	resources          map[string]*overlay.Merged[api.ResourceAssignment] // by type
	patches            api.Patches                                        // a nil value removes the path of lower documents
	deletionProtection bool
	base               *Effective // configuration of a cluster without settings of its own
	overlay            *Overlay   // of the rollouts that reach the clusters, or of the pin of the cluster; nil: none
	variables          api.Variables
	facts              *facts      // of its clusters; nil: they have no references, or these are not resolved
	unresolved         *layerChain // the same without facts; nil: this one has none
}

// layerResolution holds the layers of a State and their effect on its clusters. It is computed when a layer or a cluster
// changes, and only for the affected clusters; polls only read it. A [Tx] has one with its edits, without effective.
type layerResolution struct {
	ascending []*Document    // layers by rising priority
	version   *layersVersion // unchanged until some layer changes
	chains    map[string]*layerChain
	effective map[string]*Effective // of the clusters that some layer matches, by id
	cost      layerCost
	// delivering are the rollouts with a started stage. overlays are those of the sets of them that reach some cluster.
	delivering []*Document
	overlays   map[rolloutMask]*Overlay
	expanded   map[expandedKey]*Document // definitions with the values of their references on some clusters
	expansions *definitionsID            // unchanged until there is another one
	// expandedBytes is the size of the expanded definitions that this resolution computed.
	expandedBytes int
	// resolvedBytes are those of the results of references, of all clusters and definitions.
	resolvedBytes int
	mu            sync.Mutex // protects chains, overlays and cost during a Tx, whose edits run on many clusters concurrently
}

// layersVersion identifies layers until one of them changes, without keeping their former results alive.
type layersVersion struct{ _ byte }

// layerCost counts the entries that the matches between layers and clusters create.
type layerCost struct {
	chainEntries  int // of all chains
	mergedEntries int // of the clusters that have settings of their own
}

// input is one input with its id.
type input struct {
	id    string
	value any
}

// inputContext is the cluster for which inputs are built.
type inputContext struct {
	state   *State
	cluster *Effective
	types   map[string]string // see components
}

// Answer is the answer to the polls of one list, encoded once for all polls.
type Answer struct {
	Gzip  []byte // compressed body; every Flux Operator accepts gzip
	Size  int    // of the body before compression, in bytes
	ETag  string // strong, computed from the body
	Count int    // number of inputs

	// receipts of the inputs, in their order. Empty if the answer had no room for them.
	receipts []Receipt

	deps    []*Document // the definitions that the answer depends on, in order
	current atomic.Pointer[stateID]
	// next are the receipts of the answer that follows this one; see [State.DesiredReceipts].
	next atomic.Pointer[nextReceipts]
}

// nextReceipts are the receipts of an answer that is not encoded yet.
type nextReceipts struct {
	receipts []Receipt
	deps     []*Document // the definitions that the answer depends on, in order
}

// answers caches the encoded answers of one version of a cluster's document. Answers of compiled-in lists are found by slot,
// those of resource types by the descriptor of one version of the type. So no list can be answered with the answer of
// another list, or of an earlier version of the type.
type answers struct {
	fixed []atomic.Pointer[Answer]
	typed atomic.Pointer[map[*descriptor]*Answer] // replaced, never modified
}

// A Receipt identifies the content of an input. A cluster that has applied an input polls the path with its receipt, so that
// the service knows exactly which version was applied. It is derived: the same input has the same receipt in every process
// and after every restart.
type Receipt [8]byte

// receiptBytes is the number of bytes that a receipt adds to an encoded input.
const receiptBytes = len(`,"receipt":""`) + 2*len(Receipt{})

// catalog holds facts about the components of a State as a whole. It is computed once, however many components a commit
// checks, since other changes wait meanwhile.
type catalog struct {
	once      sync.Once
	dependsOn graph.Graph
	knots     map[string][]string // dependency cycles: the components that depend on each other, by the id of each
	collapsed map[string][]string // ids by the part that must be unique
	releases  map[string]bool     // the names of Helm releases that several components have
}

// sharedObjects are the objects that several definitions of a State render, on any cluster. There are rarely any, and then
// no cluster needs to be checked. They are computed at the first call, once for all States with the same definitions.
type sharedObjects struct {
	mu sync.Mutex
	by map[docKey][]rendering.Object // for each definition, the objects that another one renders too; nil: not computed yet
}

// renderings caches the objects of a definition, until the definition or its type changes.
type renderings struct {
	mu   sync.Mutex
	made map[string]rendering.Result // by the encoded overrides of a cluster; "" for none
}

// installation is one installed definition on a cluster, which Flux removes when the answer lacks it.
type installation struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
	deployment
	// Identity is a digest of the values that determine the names of a resource's objects, in records of orphaned clusters.
	Identity string `json:"identity,omitempty"`
}

// deployment identifies an installed component for Flux: if it changes, Flux uninstalls and reinstalls, or removes the
// objects that the new source lacks.
type deployment struct {
	Type      string `json:"type,omitempty"`
	Release   string `json:"release,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Path      string `json:"path,omitempty"`
	URL       string `json:"url,omitempty"`
	// Flux has the Flux settings that identify the installed objects.
	Flux string `json:"flux,omitempty"`
}

// Digest is the SHA-256 of a whole secret, with its prefix.
type Digest = [sha256.Size]byte

// Holder is the identity that a secret authenticates.
type Holder struct {
	ID, Name  string
	Role      string
	ClusterID string // with RolePoll: the cluster
	Actor     string // name in the log
	// Subject is the subject that access documents select, for a token of RoleScoped; nil for other roles.
	Subject *Subject
	until   time.Time
}

// Principal is a person or a program behind a commit.
type Principal struct {
	Actor    string   // in the log
	Identity *Subject // of an issuer; nil: the actor identifies it
}

// approvalUse is how a commit may use an approval.
type approvalUse struct {
	NeededApproval
	doc     *Document // the approval that counts; nil: none does
	problem string    // why the one that exists does not count
}

// Subject is an authenticated identity that access documents can select: an identity of an external issuer, or a managed token of
// [RoleScoped]. It is immutable.
type Subject struct {
	Issuer string            `json:"issuer,omitempty"` // name of the issuer in the configuration; empty for a managed token
	User   string            `json:"user,omitempty"`   // for readers of the log, from the configured claim; it grants no rights
	Sub    string            `json:"sub,omitempty"`    // claim sub, which identifies it for the issuer; claims match it as any other claim
	Groups []string          `json:"groups,omitempty"` // of the issuer
	Claims map[string]string `json:"claims,omitempty"` // claims of the token with a single value, by name
	Token  string            `json:"token,omitempty"`  // name of the managed token; empty for an external identity
	Source string            `json:"source,omitempty"` // id of the source, whose rights limit what its artifacts change; alone
}

// checker collects the problems of one document of a State that is about to be committed.
type checker struct {
	next         *State    // the State after the change
	base         *State    // the State before the change; nil if that is the State being checked
	recalled     *Document // the former version to which the document is restored, if it is
	alreadyValid bool      // the document's effective lists were checked before and had no problems
	// inactivePatches: the cluster has patches of components that it does not have. Only this change warns of them; for the next change
	// they are a stored problem.
	inactivePatches bool
	problems        []Problem
	limits          []Problem
	warnings        []string
	warned          map[string]bool
	// limit is the number of problems after which checking stops: a request may contain hundreds of thousands of mistakes,
	// and other changes wait while it is checked. 0: no limit.
	limit int
	work  work // limits the cost of the checks
	// valid holds what the checks of other documents of the commit found valid; nil: nothing.
	valid *validPatches
}

// validPatches holds patches of clusters without problems and warnings, by the component's document. Most clusters have equal
// ones.
type validPatches struct {
	mu      sync.RWMutex
	patches map[*Document][]api.PatchValues
}

// clusterCheck is a cluster that is checked.
type clusterCheck struct {
	own       *api.Cluster // content of its document; nil: the document has not changed, and only the effective configuration is checked
	effective *Effective
}

// freeze is the value of a freeze's document.
type freeze struct {
	ID       string     `json:"id"`
	Selector string     `json:"selector,omitempty"` // exactly one of Selector and All is set
	All      bool       `json:"all,omitempty"`
	From     *time.Time `json:"from,omitempty"`  // nil: since it was created
	Until    *time.Time `json:"until,omitempty"` // nil: until it is deleted
	Reason   string     `json:"reason"`
	// Allow and Block are the times of the week in which the freeze permits changes and forbids them; without both it always forbids
	// them. With either, it permits what takes a change back.
	Allow []api.Window `json:"allow,omitempty"`
	Block []api.Window `json:"block,omitempty"`

	selector      Selector
	zoneVariables []string // that windows take for time zones
}

// pin is what a pinned cluster is served: its merged settings, and the definitions that these refer to.
type pin struct {
	ID          string             `json:"id"` // of the cluster
	Settings    json.RawMessage    `json:"settings"`
	Definitions []pinnedDefinition `json:"definitions"`
}

// pinnedDefinition is a definition as it was before the commit that pinned the cluster.
type pinnedDefinition struct {
	Kind Kind            `json:"kind"`
	ID   string          `json:"id"`
	Body json.RawMessage `json:"body"`
	// CreatedAt and UpdatedAt are the times of the document: Flux may not have applied a recent deletion policy.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// pinnedCluster is the configuration of a pinned cluster.
type pinnedCluster struct {
	pin        *Document
	settings   *Document  // from the pin, in the form of a cluster's document
	configured *Effective // without the pin
	served     *Effective
}

// frozen are the clusters under a freeze that a change would change the answers to, or take out of the freeze.
type frozen struct {
	freeze   *Document
	clusters []string   // ids, sorted
	until    *time.Time // when it permits changes of all of them; nil: unknown
}

// access is the value of an access document.
type access struct {
	api.Access
	selector Selector // of on
	// unknown: the document has a field that this version does not know. The field may limit its rights, so it grants no rights.
	unknown bool
}

// accessIndex finds the access documents that may select a subject.
type accessIndex struct {
	tokens  map[string][]*access      // by the name of the token
	sources map[string][]*access      // by the id of the source
	groups  map[[2]string][]*access   // by issuer and group
	claims  map[string][]claimSubject // by issuer
}

// SourceArtifact identifies an artifact.
type SourceArtifact struct {
	Digest string `json:"digest,omitempty"`
	Tag    string `json:"tag,omitempty"`
	// Revision and Origin are what the publisher states: org.opencontainers.image.revision and .source.
	Revision string `json:"revision,omitempty"`
	Origin   string `json:"origin,omitempty"`
}

// ManagedDocument is a document that a source manages.
type ManagedDocument struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
	File string `json:"file"`
	// Drifted: somebody else has changed it since the source wrote it.
	Drifted bool `json:"drifted,omitempty"`
}

// manager is the source that manages a document.
type manager struct {
	source string
	*ManagedDocument
}

// visibility is the relation of a State that has only the documents that a principal may read to the whole State.
type visibility struct {
	whole  *State
	grants []*access // those that grant the right to read
	// partial are the visible rollouts that also reach invisible clusters.
	partial map[docKey]bool
}

// claimSubject is a subject that requires claims.
type claimSubject struct {
	api.AccessSubject
	access *access
}

// openRollouts are the rollouts of a State that are not completed or aborted.
type openRollouts struct {
	open       []*Document // sorted by id
	delivering []*Document // those with a started stage
	changed    map[docKey]bool
	all        *Overlay // of all open rollouts
}

// rolloutMask is a set of delivering rollouts, by their index.
type rolloutMask uint32

// Overlay has the documents that clusters have in place of the stored ones, because of some rollouts, or of a pin.
// Clusters that the same rollouts reach share it.
type Overlay struct {
	docs     map[docKey]*Document
	rollouts []*Document
	from     []*Document // the stored documents that the rollouts change
	layers   bool        // some document is a layer
}

// storedDocuments returns stored documents, which may be nil.
type storedDocuments func(kind Kind, id string) *Document

// facts are the values of the references in the settings and definitions of a cluster.
type facts struct {
	key         string            // equal for clusters with equal facts
	values      map[string]string // by reference
	missing     map[string]string // reasons by reference, of those without a value
	bytes       int               // of the values
	definitions []*Document       // with references, that the cluster has
	expanded    []expandedKey     // of these, unless a reference has no value
}

// unresolvedValue is a setting of a cluster with a reference that has no value.
type unresolvedValue struct {
	kind Kind
	id   string
	path string // of the setting
	err  error
}

// expandedKey identifies a definition with the values of its references.
type expandedKey struct {
	from   *Document
	values string
}
