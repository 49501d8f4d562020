# The image of tensord. docker, podman and buildah can build it:
#
#   docker build -t tensord .                    the daemon and the libraries it uses, nothing else
#   docker build -t tensord-test --target test . builds and runs the test suite instead
#   docker run --rm -p 8080:8080 -v "$PWD/tables:/data:ro" tensord
#
# Options are environment variables (TENSORD_MAX_BODY=64M) or follow the image's name (--max-body 64M).
# BASE is any Debian 12 or newer, or Ubuntu 24.04.
ARG BASE=debian:12-slim

FROM ${BASE} AS build
ENV TENSORD_CACHE=/opt/tensord
WORKDIR /src
# Before the sources, so that the dependencies stay cached while only sources change.
COPY deploy/dependencies.sh deploy/libmicrohttpd.sha256 deploy/progress.sh deploy/
RUN deploy/dependencies.sh
COPY . .
RUN cmake --preset release -DTD_TESTS=OFF && cmake --build --preset release --target tensord --parallel "$(nproc)" \
    && strip -o /tensord build/tensord
# The packages of the libraries that the binary loads; their names depend on the release.
RUN ldd /tensord | sed -n 's|.* => .*/\([^/ ]*\) (.*|*/\1|p' | xargs dpkg-query -S \
    | sed 's|:.*||' | sort -u >/packages

FROM build AS test
RUN deploy/dependencies.sh --test
RUN cmake --preset release -DTD_TESTS=ON && cmake --build --preset release --parallel "$(nproc)"
RUN ctest --test-dir build --output-on-failure

FROM ${BASE}
COPY --from=build /packages /tmp/packages
RUN apt-get update -qq \
    && xargs apt-get install -y -qq --no-install-recommends </tmp/packages >/dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /tmp/packages \
    && useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin tensord \
    && install -d -o tensord -g tensord /data
COPY --from=build /tensord /usr/local/bin/tensord
# Fails here if a library is missing.
RUN tensord --version
ENV TENSORD_LISTEN=0.0.0.0:8080 TENSORD_DATA_DIR=/data
USER tensord
EXPOSE 8080
VOLUME /data
STOPSIGNAL SIGTERM
# bash can open TCP connections, so the image needs no HTTP client.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/bin/bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/${TENSORD_LISTEN##*:} && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]
ENTRYPOINT ["/usr/local/bin/tensord"]
