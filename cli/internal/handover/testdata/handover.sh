#!/bin/sh
# Hands Flux releases of the cluster berlin-01 over to flux-resourceset. Read it, then run it with a kubectl that uses the cluster.
#
# These HelmReleases stay as they are:
#   HelmRelease apps/unused: no component of the cluster has release name unused and storage namespace apps
#
# These Kustomizations are suspended and not deleted:
#   Kustomization flux-system/flux-system, because of Kustomization flux-system/flux-system
#
# Check before you run it:
#   the namespace web of the fleet has no label istio-injection: Flux may remove it

cluster=berlin-01
system_uid='0e8f9a8e-0000-4000-8000-000000000001' # of the namespace kube-system
flux='flux-system' # the namespace of Flux Operator's objects
# HelmRelease: namespace, name, API version; its release: name, storage namespace, target namespace; the HelmRelease of the service
releases='
apps web v2 web-web apps web platform-web
'
# Kustomization: namespace, name, API version; what is done with it. From the root down
kustomizations='
flux-system flux-system v1 suspend
flux-system apps v1 delete
'
# what has to be removed from Git before its Kustomization is resumed
in_git='
Kustomization flux-system/apps, which Kustomization flux-system/flux-system applies
'
# objects of the service that a suspended Kustomization applies too: type, namespace or -, name; namespace and name of the Kustomization
shared='
Namespace - web flux-system flux-system
'
# sources to delete by hand, if nothing else uses them
sources='
HelmRepository apps/charts
'
# namespaces that are compared before and after
namespaces='
web
'

# sh handover.sh [1-8|verify]
#
# It runs the steps 1 to 8, or up to the step of the argument. Each step checks before it acts, so after an interruption run it again from
# the start. verify only compares the cluster with the state before step 1. Variables:
#   HANDOVER_STATE    the file with the state before step 1 (handover-CLUSTER.before in this folder)
#   HANDOVER_PAUSE    seconds of step 2: longer than a reconciliation takes (30)
#   HANDOVER_TIMEOUT  seconds that steps 4 and 6 wait (900)
#   ACCEPT_CHANGES    yes: steps 5 and 8 go on although objects or pods have changed
set -eu
# bash would go on after a failed command in $(…).
# shellcheck disable=SC3040
if [ -n "${BASH_VERSION:-}" ]; then set -o posix; fi
state=${HANDOVER_STATE:-handover-$cluster.before}
timeout=${HANDOVER_TIMEOUT:-900}
helm=helmreleases.helm.toolkit.fluxcd.io
kustomize=kustomizations.kustomize.toolkit.fluxcd.io
until=${1:-8}

say() { printf '%s\n' "$*"; }
stop() {
	printf 'STOP: %s\n' "$*" >&2
	exit 1
}
# All requests go to the context of the start, also if another one is selected meanwhile.
context=$(kubectl config current-context 2>/dev/null || :)
if [ -n "$context" ]; then
	kubectl() { command kubectl --context "$context" "$@"; }
fi
check_cluster() {
	[ "$(kubectl get namespace kube-system -o jsonpath='{.metadata.uid}')" = "$system_uid" ] || stop "kubectl does not use the cluster of the dump: its namespace kube-system has another uid"
}
step() {
	if [ "$until" -lt "$1" ]; then
		say "Stopped after step $until."
		exit 0
	fi
	check_cluster
	say "== Step $1: $2"
}

# rows prints the lines of a table, the last one first with -r.
rows() {
	if [ "$1" = -r ]; then
		printf '%s\n' "$2" | sed '1!G;h;$!d' | sed '/^$/d'
	else
		printf '%s\n' "$1" | sed '/^$/d'
	fi
}

# suspended TYPE NAMESPACE NAME prints NAME:true, NAME: or NAME:false; nothing if the object is gone.
suspended() { kubectl -n "$2" get "$1" "$3" --ignore-not-found -o jsonpath='{.metadata.name}:{.spec.suspend}'; }

# release_version STORAGE NAME prints the newest version of a release and its status.
release_version() {
	kubectl -n "$1" get secrets -l "owner=helm,name=$2" -o jsonpath='{range .items[*]}{.metadata.labels.version} {.metadata.labels.status}{"\n"}{end}' | sort -n | tail -n 1
}

# remaining prints the objects that are still to be deleted. Without any, a person may have resumed the Kustomizations that stay.
remaining() {
	rows "$releases" | while read -r ns name _; do suspended "$helm" "$ns" "$name"; done
	rows "$kustomizations" | while read -r ns name _ action; do
		[ "$action" = suspend ] || suspended "$kustomize" "$ns" "$name"
	done
}

# snapshot prints what must be the same afterwards: the uids of namespaces, objects and pods, and the labels of namespaces.
# shellcheck disable=SC2016 # templates of kubectl
snapshot() {
	lines=$(rows "$namespaces" | while read -r ns; do
		kubectl get namespace "$ns" -o go-template='namespace {{.metadata.name}} {{.metadata.uid}}{{"\n"}}{{range $key, $value := .metadata.labels}}label {{$.metadata.name}} {{$key}}={{$value}}{{"\n"}}{{end}}'
		kubectl -n "$ns" get deployments,statefulsets,daemonsets,cronjobs,services,serviceaccounts,persistentvolumeclaims,ingresses \
			-o go-template='{{range .items}}{{.kind}} {{.metadata.namespace}}/{{.metadata.name}} {{.metadata.uid}}{{"\n"}}{{end}}'
		kubectl -n "$ns" get pods -o go-template='{{range .items}}{{$job := false}}{{range .metadata.ownerReferences}}{{if eq .kind "Job"}}{{$job = true}}{{end}}{{end}}{{if not $job}}Pod {{.metadata.namespace}}/{{.metadata.name}} {{.metadata.uid}}{{"\n"}}{{end}}{{end}}'
	done)
	printf '%s\n' "$lines" | grep -v ' kustomize\.toolkit\.fluxcd\.io/' | sort
}

# changes prints the lines of the state before that are not true any more.
changes() {
	now=$(snapshot)
	grep -v -e '^release ' -e '^cluster ' "$state" | while read -r line; do
		printf '%s\n' "$now" | grep -qxF -- "$line" || say "  $line"
	done
}

# check_releases compares each release with its version before: the service must have upgraded it, not installed it.
check_releases() {
	rows "$releases" | while read -r _ _ _ release storage _ by; do
		before=$(sed -n "s|^release $storage/$release ||p" "$state" | tail -n 1)
		now=$(release_version "$storage" "$release")
		[ "${now#* }" = deployed ] || stop "release $release in $storage is '$now', not deployed"
		[ "$by" != none ] || continue
		found=$(kubectl -n "$flux" get "$helm" "$by" -o jsonpath='{.status.lastAttemptedReleaseAction} {.status.history[-1:].version}')
		[ "${found% *}" != install ] || stop "HelmRelease $flux/$by has installed release $release, not upgraded it. Delete nothing."
		[ "${found#* }" -gt "$before" ] || stop "the history of HelmRelease $flux/$by begins with version ${found#* } of release $release, which was $before before. Delete nothing."
		say "release $release in $storage: version $before before, now $now by HelmRelease $flux/$by"
	done
}

verify() {
	check_state
	check_releases
	changed=$(changes)
	if [ -z "$changed" ]; then
		say "Verified: each release goes on with the next version; the objects, pods, namespaces and labels are as before."
	elif [ "${ACCEPT_CHANGES:-}" = yes ]; then
		say "Each release goes on with the next version. Accepted changes; before, there were:
$changed"
	else
		stop "the cluster has changed; if this is as expected, run the script again with ACCEPT_CHANGES=yes. Before, there were:
$changed"
	fi
}

# check_state stops at a file of another cluster, or of a script for other releases.
check_state() {
	[ -s "$state" ] || stop "there is no $state"
	grep -qx "cluster $system_uid" "$state" || stop "$state is of another cluster: set HANDOVER_STATE to another file"
	rows "$releases" | while read -r _ _ _ release storage _; do
		grep -q "^release $storage/$release " "$state" || stop "$state is of a script without release $storage/$release: print the script for the same objects as then"
	done
}

# remove TYPE VERSION NAMESPACE NAME deletes an object only while it is suspended: the request has the version of the object that was read.
remove() {
	found=$(kubectl -n "$3" get "$1" "$4" --ignore-not-found -o jsonpath='{.spec.suspend}/{.metadata.uid}/{.metadata.resourceVersion}')
	case $found in
	'') return ;;
	true/*) ;;
	*) stop "$1 $3/$4 is not suspended any more. Nothing is deleted; run the script again from the start." ;;
	esac
	version=${found##*/}
	uid=${found#true/}
	uid=${uid%/*}
	printf '{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"%s","resourceVersion":"%s"}}' "$uid" "$version" |
		kubectl delete --raw "/apis/${1#*.}/$2/namespaces/$3/${1%%.*}/$4" -f - >/dev/null ||
		stop "$1 $3/$4 was not deleted: it has changed meanwhile, or the request failed. Run the script again from the start."
	kubectl -n "$3" wait --for=delete "$1/$4" --timeout="${timeout}s" >/dev/null
	say "deleted $1 $3/$4, which removes nothing else because it was suspended"
}

case $until in
[1-8] | verify) ;;
*) stop "usage: sh handover.sh [1-8|verify]" ;;
esac
if [ "$until" = verify ]; then
	check_cluster
	verify
	exit 0
fi

step 1 "suspend the old Kustomizations from the root down, then the old HelmReleases"
check_exists() {
	found=$(suspended "$@")
	[ -n "$found" ] || stop "there is no $1 $2/$3 on the cluster. Save its objects again, and print the script anew."
}
if [ ! -s "$state" ]; then
	rows "$kustomizations" | while read -r ns name _; do check_exists "$kustomize" "$ns" "$name"; done
	rows "$releases" | while read -r ns name _; do check_exists "$helm" "$ns" "$name"; done
	rows "$releases" | while read -r _ _ _ release storage _ by; do
		found=$(release_version "$storage" "$release")
		[ -n "$found" ] || stop "there is no Secret of release $release in its storage namespace $storage"
		ours=$(suspended "$helm" "$flux" "$by")
		[ -z "$ours" ] || stop "HelmRelease $flux/$by exists already, and $state does not: the service manages release $release"
		say "release $storage/$release ${found% *}"
	done >"$state.new"
	say "cluster $system_uid" >>"$state.new"
	snapshot >>"$state.new"
	mv "$state.new" "$state"
	say "The state before is in $state."
fi
check_state
# With the field manager flux: kustomize-controller and Flux Operator take back what other managers of kubectl set.
set_suspended() {
	found=$(suspended "$@")
	case $found in
	'' | *:true) ;;
	*) kubectl -n "$2" patch "$1" "$3" --type=merge --field-manager=flux -p '{"spec":{"suspend":true}}' ;;
	esac
}
remaining=$(remaining)
if [ -n "$remaining" ]; then
	rows "$kustomizations" | while read -r ns name _; do set_suspended "$kustomize" "$ns" "$name"; done
fi
rows "$releases" | while read -r ns name _; do set_suspended "$helm" "$ns" "$name"; done

step 2 "wait until running reconciliations have ended, then check that all are still suspended"
check_suspended() {
	found=$(suspended "$@")
	case $found in
	'' | *:true) ;;
	*) stop "$1 $2/$3 is not suspended any more. Something else sets it: find it, then run the script again." ;;
	esac
}
all_suspended() {
	if [ -z "$remaining" ]; then return; fi
	rows "$kustomizations" | while read -r ns name _; do check_suspended "$kustomize" "$ns" "$name"; done
	rows "$releases" | while read -r ns name _; do check_suspended "$helm" "$ns" "$name"; done
}
if [ -n "$remaining" ]; then
	sleep "${HANDOVER_PAUSE:-30}"
fi
all_suspended

step 3 "check that each release is in its storage namespace"
rows "$releases" | while read -r _ _ _ release storage _; do
	found=$(release_version "$storage" "$release")
	[ "${found#* }" = deployed ] || stop "release $release in $storage is '$found', not deployed: the service could not continue it"
done

step 4 "the service takes over"
found=$(kubectl -n "$flux" get resourcesets.fluxcd.controlplane.io platform-components --ignore-not-found -o jsonpath='{.metadata.name}:{.metadata.annotations.fluxcd\.controlplane\.io/reconcile}') ||
	stop "kubectl cannot read ResourceSets: Flux Operator must be installed before the cluster is connected"
if [ -z "$found" ]; then
	say "Connect the cluster now, then run the script again:
  flux-resourceset-cli cluster set $cluster --deletion-protection     # nothing can be removed from it while the hand-over is half done
  flux-resourceset-cli bootstrap $cluster --poll-url URL | kubectl apply -f -
To go back: docs/leaving.md."
	exit 0
fi
if [ "${found#*:}" = disabled ]; then
	say "Enable the ResourceSet now, then run the script again:
  flux-resourceset-cli cluster set $cluster --deletion-protection     # nothing can be removed from it while the hand-over is half done
  kubectl -n $flux annotate resourceset platform-components fluxcd.controlplane.io/reconcile-"
	exit 0
fi
kubectl -n "$flux" get resourcesets.fluxcd.controlplane.io platform-components -o jsonpath='{.spec.resourcesTemplate}' | grep -q storageNamespace ||
	stop "the ResourceSet platform-components on the cluster is of an earlier version, which ignores the storage namespace: connect the cluster with this version"
wait_ready() {
	left=$timeout
	while :; do
		found=$(kubectl -n "$flux" get "$helm" "$1" --ignore-not-found -o jsonpath='{.metadata.generation}={.status.observedGeneration} {.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Stalled")].status}')
		observed=${found#*=}
		if [ -n "$found" ] && [ "$observed" = "${found%%=*} True " ]; then break; fi
		left=$((left - 1))
		if [ -n "$found" ] && [ "$observed" = "${found%%=*} False True" ]; then left=0; fi
		[ "$left" -gt 0 ] || stop "HelmRelease $flux/$1 is not ready: $(kubectl -n "$flux" get "$helm" "$1" -o jsonpath='{.status.conditions[?(@.type=="Ready")].message}' 2>&1)"
		sleep 1
	done
}
rows "$releases" | while read -r _ _ _ release storage target by; do
	[ "$by" != none ] || continue
	wait_ready "$by"
	found=$(kubectl -n "$flux" get "$helm" "$by" -o jsonpath='{.spec.releaseName}/{.spec.storageNamespace}/{.spec.targetNamespace}')
	[ "$found" = "$release/$storage/$target" ] || stop "HelmRelease $flux/$by has release, storage and target namespace $found, not $release/$storage/$target"
done

step 5 "check that the service has upgraded the releases in place"
verify

step 6 "delete the old HelmReleases, then the old Kustomizations, which are suspended"
all_suspended
rows "$releases" | while read -r ns name api _; do remove "$helm" "$api" "$ns" "$name"; done
rows -r "$kustomizations" | while read -r ns name api action; do
	[ "$action" = suspend ] || remove "$kustomize" "$api" "$ns" "$name"
done

step 7 "by hand"
if [ -n "$(rows "$in_git")" ]; then
	say "Remove from Git, before you resume these Kustomizations:"
	rows "$in_git"
fi
# Flux Operator removes the labels of a Kustomization, without which it does not delete the object.
rows "$shared" | while read -r type ns name parent_ns parent; do
	object=$(say "$type $ns/$name" | sed 's| -/| |')
	found=$(kubectl -n "${ns#-}" get "$type" "$name" --ignore-not-found -o jsonpath='{.metadata.labels.kustomize\.toolkit\.fluxcd\.io/namespace}/{.metadata.labels.kustomize\.toolkit\.fluxcd\.io/name}')
	if [ "$found" = "$parent_ns/$parent" ]; then
		say "KEEP IN GIT: $object. Kustomization $parent_ns/$parent would delete it, because it still has its labels."
	else
		say "Remove from Git, before you resume Kustomization $parent_ns/$parent: $object"
	fi
done
rows "$kustomizations" | while read -r ns name _ action; do
	[ "$action" = delete ] || say "When Git no longer has what was handed over:
  kubectl -n $ns patch $kustomize $name --type=merge --field-manager=flux -p '{\"spec\":{\"suspend\":false}}'"
done
if [ -n "$(rows "$sources")" ]; then
	say "Delete these sources if nothing else uses them:"
	rows "$sources"
fi

step 8 "verify"
verify
say "Now set the deletion_policy of namespaces as wanted, and: flux-resourceset-cli cluster set $cluster --deletion-protection=false"
