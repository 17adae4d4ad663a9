// Package versions finds the versions of charts, artifacts and images in registries and Helm repositories, and downloads artifacts of
// files. It knows nothing of the fleet: a Scanner answers the questions "which versions does this source have?" and "which files has this
// artifact?", and its caller decides.
//
// A registry is not trusted. Whatever it answers, a scan ends in bounded time and memory with versions or with one Error, whose text
// has neither credentials nor text of the registry, except paths in an archive.
//
// Reading order: scanner.go has the types and plans a scan. oci.go reads tags and manifests, index.go and its reader
// index_reader.go read the index of a Helm repository. transport.go limits each request, host.go the requests to a host.
// artifact.go downloads an artifact, signature.go verifies it, archive.go unpacks it. credentials.go reads the file of credentials, errors.go classifies failures, newest.go keeps the newest versions.
package versions
