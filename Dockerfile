# The server and the CLI, static, in an image with no shell and no package manager.
#
# The build stage runs on the machine's own platform and cross-compiles, so a multi-arch image needs
# no emulation.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
WORKDIR /src

# Modules first: they change less often than the code.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/build-cache \
    GOCACHE=/go/build-cache CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH GOTOOLCHAIN=local \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/flux-resourceset ./cmd/flux-resourceset-cli

# The final image's directories, in two trees because COPY gives each one owner. /data holds SQLite's file
# when no volume is mounted there; OpenShift and others run an image under a uid of their own in group 0,
# so that group may write too.
RUN mkdir -p /root-fs/tmp /root-fs/etc/ssl/certs /data-fs/data \
    && chmod 1777 /root-fs/tmp && chmod 0770 /data-fs/data \
    && cp /etc/ssl/certs/ca-certificates.crt /root-fs/etc/ssl/certs/

FROM scratch

ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="flux-resourceset" \
      org.opencontainers.image.description="Tells every cluster's Flux Operator what to run" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/flux-resourceset/flux-resourceset" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"

COPY --from=build /root-fs/ /
COPY --from=build --chown=65532:0 /data-fs/ /
COPY --from=build /out/ /

# The default DATABASE_URL is relative: data/ below this directory.
WORKDIR /
# A number, so that Kubernetes' runAsNonRoot can tell; any other uid works as well.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/flux-resourceset"]
