module github.com/flux-resourceset/flux-resourceset/tools/go-md2man

go 1.26.0

tool github.com/cpuguy83/go-md2man/v2

require (
	github.com/cpuguy83/go-md2man/v2 v2.0.7 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
)
