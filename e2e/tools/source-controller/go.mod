module github.com/flux-resourceset/flux-resourceset/e2e/tools/source-controller

go 1.26.0

// Named only so that the module stays required: what is wanted are its custom resource definitions.
tool github.com/fluxcd/source-controller/tests/listener

require (
	github.com/fluxcd/source-controller v1.9.6 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/onsi/gomega v1.42.1 // indirect
	go.yaml.in/yaml/v3 v3.0.4 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/text v0.40.0 // indirect
)
