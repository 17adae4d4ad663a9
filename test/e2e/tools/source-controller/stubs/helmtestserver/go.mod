module github.com/fluxcd/pkg/helmtestserver

go 1.26.0
