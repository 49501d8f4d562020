# The image of tensord. docker, podman and buildah can build it:
#
#   docker build -t tensord .                    the daemon and the libraries it uses, nothing else
#   docker build -t tensord-gpu --target gpu .   the same on a base with CUDA's libraries, with the plugin for devices
#   docker build -t tensord-test --target test . builds and runs the test suite instead
#   docker run --rm -p 8080:8080 -v "$PWD/tables:/data:ro" tensord
#   docker run --rm -p 8080:8080 --gpus all tensord-gpu
#
# Options are environment variables (TENSORD_MAX_BODY=64M), which the health check reads too, or follow the image's name
# (--max-body 64M). The daemon runs as user 65532, to whom a volume at /data must belong if clients may change it.
#
# BASE is any Debian 12 or newer, or Ubuntu 24.04. CUDA_BUILD and CUDA_BASE are one of them with CUDA, the first with nvcc and
# the headers, the second with cuBLAS. VERSION and REVISION are those of the labels.
ARG BASE=docker.io/library/debian:12-slim
ARG CUDA_BUILD=docker.io/nvidia/cuda:12.8.1-devel-ubuntu24.04
ARG CUDA_BASE=docker.io/nvidia/cuda:12.8.1-runtime-ubuntu24.04

FROM ${BASE} AS build
ENV TENSORD_CACHE=/opt/tensord
WORKDIR /src
# Before the sources, so that the dependencies stay cached while only sources change.
COPY deploy/dependencies.sh deploy/libmicrohttpd.sha256 deploy/progress.sh deploy/
RUN deploy/dependencies.sh
COPY . .
RUN deploy/image.sh build

FROM build AS test
RUN deploy/dependencies.sh --test
RUN cmake --preset release -DTD_TESTS=ON && cmake --build --preset release --parallel "$(nproc)"
RUN ctest --test-dir build --output-on-failure

FROM ${CUDA_BUILD} AS gpu-build
# Compute capabilities, such as "80;90"; empty: all that nvcc supports.
ARG CUDA_ARCHITECTURES=
ENV TENSORD_CACHE=/opt/tensord
WORKDIR /src
COPY deploy/dependencies.sh deploy/libmicrohttpd.sha256 deploy/progress.sh deploy/
RUN deploy/dependencies.sh
COPY . .
RUN deploy/image.sh build -DTD_GPU=ON "-DTD_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES}"

FROM ${CUDA_BASE} AS gpu
ARG VERSION=unknown
ARG REVISION=unknown
COPY --from=gpu-build /image /
RUN /opt/tensord/image.sh finish
LABEL org.opencontainers.image.title="tensord" \
    org.opencontainers.image.description="Tensor operations over HTTP, on the CPU or a GPU" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
ENV TENSORD_LISTEN=0.0.0.0:8080 TENSORD_DATA_DIR=/data
USER 65532:65532
EXPOSE 8080
VOLUME /data
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["/usr/local/bin/tensord", "--check-health"]
ENTRYPOINT ["/usr/local/bin/tensord"]

FROM ${BASE}
ARG VERSION=unknown
ARG REVISION=unknown
COPY --from=build /image /
RUN /opt/tensord/image.sh finish
LABEL org.opencontainers.image.title="tensord" \
    org.opencontainers.image.description="Tensor operations over HTTP" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
ENV TENSORD_LISTEN=0.0.0.0:8080 TENSORD_DATA_DIR=/data
USER 65532:65532
EXPOSE 8080
VOLUME /data
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["/usr/local/bin/tensord", "--check-health"]
ENTRYPOINT ["/usr/local/bin/tensord"]
