<<- /* A receipt: a ResourceSet of its own that waits until these objects are of this very input and ready, and then polls the
API with the input's digest. (dict "list" the list's name "objects" (list (dict "apiVersion" "kind" "name" "namespace", and as
"ready" more conditions in CEL))); each object has the digest as annotation event.toolkit.fluxcd.io/input. Nothing, where
receipts are switched off or the API does not know them. */ ->>
<<- define "receipt" ->>
<<- $settings := get inputs "settings" ->>
<<- if not (kindIs "map" $settings) ->>
<<- $settings = dict ->>
<<- end ->>
<<- $receipts := get $settings "receipts" ->>
<<- $input := get inputs "receipt" | toString ->>
<<- if and (kindIs "map" $receipts) (regexMatch "^[0-9a-f]{16}$" $input) ->>
<<- /* named after the input too: the provider that repeats the receipt of another one goes when this one comes, not when it is ready */ ->>
<<- $subject := printf "%s/%s" .list inputs.id ->>
<<- $name := regexReplaceAll "[^a-z0-9]+" (lower $subject) "-" | trunc 40 | trimSuffix "-" ->>
<<- $name = printf "receipt-%s-%s" $name (printf "%s %s" $subject $input | sha256sum | trunc 10) ->>
<<- $url := printf "%s/%s/%s?input=%s" (get $receipts "url") .list (inputs.id | urlquery | replace "+" "%20") $input ->>
<<- $spec := dict "type" "ExternalService" "url" $url ->>
<<- if hasPrefix "http://" $url ->>
<<- $_ := set $spec "insecure" true ->>
<<- end ->>
<<- with get $receipts "secret" ->>
<<- $_ := set $spec "secretRef" (dict "name" .) ->>
<<- end ->>
<<- with get $receipts "tlsSecret" ->>
<<- $_ := set $spec "certSecretRef" (dict "name" .) ->>
<<- end ->>
<<- $provider := dict "apiVersion" "fluxcd.controlplane.io/v1" "kind" "ResourceSetInputProvider" "spec" $spec
  "metadata" (dict "name" $name "namespace" "flux-system" "annotations" (dict "fluxcd.controlplane.io/reconcileEvery" (get $receipts "interval" | default "1h"))) ->>
<<- $dependsOn := list ->>
<<- range $object := .objects ->>
<<- $expression := printf "!has(metadata.deletionTimestamp) && has(metadata.annotations) && 'event.toolkit.fluxcd.io/input' in metadata.annotations && metadata.annotations['event.toolkit.fluxcd.io/input'] == '%s'" $input ->>
<<- with get $object "ready" ->>
<<- $expression = printf "%s && %s" $expression . ->>
<<- end ->>
<<- $dependsOn = append $dependsOn (set (set (omit $object "ready") "ready" true) "readyExpr" $expression) ->>
<<- end ->>
<<- $set := dict "dependsOn" $dependsOn "resourcesTemplate" (toJson $provider) ->>
<<- with get $settings "serviceAccountName" ->>
<<- $_ := set $set "serviceAccountName" . ->>
<<- end ->>
<<- $text := dict "apiVersion" "fluxcd.controlplane.io/v1" "kind" "ResourceSet" "metadata" (dict "name" $name "namespace" "flux-system") "spec" $set | toJson ->>
<<- range $code := concat (untilStep 127 160 1) (list 65279 65534 65535) ->>
<<- $text = $text | replace (printf "%c" $code) (printf "\\u%04x" $code) ->>
<<- end >>
---
<< $text >>
<< end ->>
<<- end ->>
<<- /* An answer for another cluster, from a wrong URL or a cache, would replace what this cluster has. A template that fails
changes nothing. settings.clusterDNS is the cluster's own name; a provider that does not set it is not checked. */ ->>
<<- $ownDNS := "" ->>
<<- if kindIs "map" (get inputs "settings") ->>
<<- $ownDNS = dig "settings" "clusterDNS" "" inputs | toString ->>
<<- end ->>
<<- $answerDNS := dig "cluster" "dns" "" inputs ->>
<<- if and $ownDNS (ne ($ownDNS | lower | trimSuffix ".") ($answerDNS | lower | trimSuffix ".")) ->>
<<- fail (printf "this answer is for cluster %q, not %q: check the provider's url and any cache in front of the API" $answerDNS $ownDNS) ->>
<<- end ->>
<<- /* end of receipt.tpl */>>
