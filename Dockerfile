# The image of tensord. docker, podman and buildah can build it:
#
#   docker build -t tensord .                    the daemon and its libraries, nothing else
#   docker build -t tensord-gpu --target gpu .   the daemon and the device plugin, on a base with CUDA's libraries
#   docker build -t tensord-test --target test . builds and runs the test suite instead
#   docker run --rm -p 8080:8080 -v "$PWD/tables:/data:ro" tensord
#   docker run --rm -p 8080:8080 --gpus all tensord-gpu
#
# Set options in environment variables (TENSORD_MAX_BODY=64M), which the health check reads too, or after the image's name
# (--max-body 64M). The daemon runs as user 65532. If clients may change a volume at /data, this user must own it.
#
# BASE is Debian 12 or newer, or Ubuntu 24.04. CUDA_BUILD and CUDA_BASE are one of these systems with CUDA: CUDA_BUILD has nvcc and
# the headers, CUDA_BASE has cuBLAS. VERSION and REVISION go into the labels.
# PROFILED=yes builds the program with deploy/profiled_build.sh, which compiles everything twice; no builds it once.
ARG BASE=docker.io/library/debian:12-slim
ARG CUDA_BUILD=docker.io/nvidia/cuda:12.8.1-devel-ubuntu24.04
ARG CUDA_BASE=docker.io/nvidia/cuda:12.8.1-runtime-ubuntu24.04
ARG PROFILED=yes

FROM ${BASE} AS sources
ENV TENSORD_CACHE=/opt/tensord
WORKDIR /src
# Comes before the sources, so the dependencies stay cached while only sources change.
COPY deploy/dependencies.sh deploy/libmicrohttpd.sha256 deploy/progress.sh deploy/
RUN deploy/dependencies.sh --profiled
COPY . .

FROM sources AS build
ARG PROFILED
RUN deploy/image.sh build "${PROFILED}"

FROM sources AS test
RUN deploy/dependencies.sh --test
RUN cmake --preset release -DTD_TESTS=ON && cmake --build --preset release --parallel "$(nproc)"
RUN ctest --test-dir build --output-on-failure

FROM ${CUDA_BUILD} AS gpu-build
# Compute capabilities, such as "80;90". Empty: every capability that nvcc supports.
ARG CUDA_ARCHITECTURES=
ENV TENSORD_CACHE=/opt/tensord
WORKDIR /src
COPY deploy/dependencies.sh deploy/libmicrohttpd.sha256 deploy/progress.sh deploy/
RUN deploy/dependencies.sh --profiled
COPY . .
ARG PROFILED
RUN deploy/image.sh build "${PROFILED}" -DTD_GPU=ON "-DTD_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES}"

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
