# A Tidemark server and nothing else: no shell, no package manager, no root.
#
#   docker build --build-arg VERSION=$(git describe --tags --always) -t tidemark .
#   docker run -p 9092:9092 -p 127.0.0.1:9180:9180 -v tidemark:/data tidemark
#
# Clients are told localhost:9092, which is right for clients on the machine that runs Docker. For any others, and for other
# containers, say how they reach it: -e TIDEMARK_KAFKA_ADVERTISE=broker:9092. See docs/operations.md.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION && mkdir -p /empty

FROM scratch
COPY --from=build /src/bin/tidemark /tidemark
COPY --from=build --chown=65532:65532 /empty /data
USER 65532:65532
VOLUME ["/data"]
EXPOSE 9092 9180
STOPSIGNAL SIGTERM
ENV TIDEMARK_DATA_DIR=/data \
    TIDEMARK_KAFKA_LISTEN=0.0.0.0:9092 \
    TIDEMARK_KAFKA_ADVERTISE=localhost:9092 \
    TIDEMARK_HTTP_LISTEN=0.0.0.0:9180 \
    TIDEMARK_INSECURE_LISTEN=true
ENTRYPOINT ["/tidemark"]
CMD ["serve"]
