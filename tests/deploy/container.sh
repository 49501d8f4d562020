#!/usr/bin/env bash
# container.sh [--install] [PROFILED] - tests the image: it builds, runs without rights, serves, respects its limits, and stops
# with exit code 0; on the networks of podman; with CUDA's compiler here, also the image with the plugin, on the CPU.
#
# PROFILED is the argument of the Dockerfile: yes or, without it, no, because a profiled build takes three times as long.
#
# Needs neither a registry nor a container daemon: buildah builds in a chroot on a local base image, and podman
# runs the image on the loopback interface with the limits of a hardened deployment.
set -euo pipefail
# shellcheck source=tests/deploy/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

# Images and containers of this run have its number: other runs have theirs.
readonly base=localhost/tensord-base-$suite image=localhost/tensord-under-test:$$ name=tensord-test-$$
readonly gpu_image=localhost/tensord-gpu-under-test:$$
install=""
[ "${1:-}" != --install ] || { install=$1; shift; }
readonly profiled=${1:-no}
log=$(mktemp)

# build IMAGE OPTION...
build() {
    # Only the docker format supports HEALTHCHECK.
    buildah bud --isolation chroot --layers --format docker --build-arg "BASE=$base" --build-arg "PROFILED=$profiled" \
        -t "$1" "${@:2}" "$root" >"$log" 2>&1 || { tail -n 40 "$log" >&2; fail "building the image"; }
}

# Not named runc: the check that this program is there would find the function.
run_podman() { podman --runtime runc "$@"; }

# start IMAGE OPTION...: with the limits of a shared host: enough for 10,000 connections, and not much more.
start() {
    run_podman run -d --name "$name" --read-only --cap-drop all --security-opt no-new-privileges \
        --ulimit nofile=20000:20000 --ulimit nproc=1000:1000 "${@:2}" -v "$root/deploy/sample:/data:ro" "$1" >"$log" 2>&1 ||
        { cat "$log" >&2; return 1; }
}

stop() { run_podman stop -t 600 "$name" >"$log" 2>&1 || { cat "$log" >&2; fail "stopping the container"; }; }
remove() { run_podman rm -f "$name" >/dev/null 2>&1 || true; }
remove_images() { podman rmi -f "$image" "$gpu_image" >/dev/null 2>&1 || true; }

# await COMMAND...: until the command succeeds.
await() { eventually "$@" >"$log" 2>&1 || { cat "$log" >&2; podman logs "$name" >&2; fail "not ready"; }; }

expect() { # expect WHAT WANTED ACTUAL
    [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
    echo "ok: $1"
}

label() { podman image inspect --format "{{index .Config.Labels \"org.opencontainers.image.$1\"}}" "$image"; }
get() { curl -sf --max-time 60 "http://127.0.0.1:$port$1" "${@:2}"; }
healthy() { run_podman healthcheck run "$name"; }

need "$install" buildah podman debootstrap runc curl
trap 'remove; remove_images; rm -f "$log"' EXIT
mkdir -p "$cache"
exec 9>"$cache/container-base.lock" # one run at a time imports it
flock 9
podman image exists "$base" || podman import -q "$(base_tarball)" "$base" >/dev/null
exec 9>&-

say "building the image"
build "$image" --build-arg VERSION=0.3.0 --build-arg REVISION=abc
echo "image size: $(podman image inspect --format '{{.Size}}' "$image" | numfmt --to=iec) with its base of" \
    "$(podman image inspect --format '{{.Size}}' "$base" | numfmt --to=iec)"
expect "user" 65532:65532 "$(podman image inspect --format '{{.User}}' "$image")"
expect "version" 0.3.0 "$(label version)"
expect "revision" abc "$(label revision)"
expect "licence" Apache-2.0 "$(label licenses)"

say "running it on the host's network"
port=$(free_port)
# At another address than the image's own, for the health check.
start "$image" --network host -e "TENSORD_LISTEN=127.0.0.1:$port" || fail "starting the container"
await get /readyz
expect "gather" '{"output":{"dtype":"string","shape":[2,2],"data":[["c","d"],["a","b"]]}}' \
    "$(get /v1/gather -d '{"params": [["a","b"],["c","d"]], "indices": [1,0]}')"
expect "a table of the mounted folder" 200 "$(curl -s -o /dev/null -w '%{http_code}' \
    "http://127.0.0.1:$port/v1/gather" -d '{"params": {"ref": "planets"}, "indices": [2]}')"
expect "user and group" 65532:65532 "$(run_podman exec "$name" id -u):$(run_podman exec "$name" id -g)"
expect "rights" 0000000000000000 "$(run_podman exec "$name" sed -n 's/^CapEff:\t//p' /proc/1/status)"
expect "new rights are refused" 1 "$(run_podman exec "$name" sed -n 's/^NoNewPrivs:\t//p' /proc/1/status)"
expect "the root is read-only" "" "$(run_podman exec "$name" sh -c 'touch /x 2>/dev/null && echo written')"
expect "the bill of materials names the sources of libmicrohttpd" 1 \
    "$(run_podman exec "$name" grep -c "$(cut -d ' ' -f 1 "$root/deploy/libmicrohttpd.sha256" | head -n 1)" \
        /usr/local/share/doc/tensord/tensord.spdx.json)"
healthy >"$log" 2>&1 || { cat "$log" >&2; fail "health check"; }
echo "ok: health check"
# A daemon that is stopped cannot answer.
run_podman kill -s STOP "$name" >/dev/null
! healthy >"$log" 2>&1 || fail "the health check of a stopped process succeeds"
run_podman kill -s CONT "$name" >/dev/null
echo "ok: health check of a stopped process"
stop
expect "exit code after SIGTERM" 0 "$(podman inspect --format '{{.State.ExitCode}}' "$name")"
remove

say "running it with limits of control groups, without a network"
if start "$image" --network none --cpus 1.5 --memory 512m; then
    await healthy
    expect "memory limit: half of the container's" "tensord_memory_limit_bytes 268435456" "$(run_podman exec "$name" bash -c '
        exec 3<>/dev/tcp/127.0.0.1/8080 && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && cat <&3' |
        grep '^tensord_memory_limit_bytes')"
    expect "workers: as many as 1.5 CPUs" '"workers":2' "$(run_podman exec "$name" bash -c '
        exec 3<>/dev/tcp/127.0.0.1/8080 && printf "GET /v1/devices HTTP/1.0\r\n\r\n" >&3 && cat <&3' |
        grep -o '"workers":[0-9]*')"
    stop
else
    echo "SKIP limits: control groups cannot be set here: $(tail -n 1 "$log")"
fi
remove

say "running it on a bridge"
if start "$image" --network bridge -p "127.0.0.1:$port:8080"; then
    await get /readyz
    echo "ok: /readyz through the published port"
    await healthy
    echo "ok: health check"
    stop
else
    echo "SKIP bridge: $(tail -n 1 "$log")"
fi
remove

cuda=$(readlink -f "${CUDA_HOME:-/usr/local/cuda}")
if [ -x "$cuda/bin/nvcc" ]; then
    say "building the image with the plugin, for one architecture"
    # The base has CUDA's compiler only while it is built, and no driver.
    build "$gpu_image" --target gpu --build-arg "CUDA_BUILD=$base" --build-arg "CUDA_BASE=$base" \
        --build-arg CUDA_ARCHITECTURES=90 -v "$cuda:/usr/local/cuda:ro"
    start "$gpu_image" --network host -e "TENSORD_LISTEN=127.0.0.1:$port" || fail "starting the container with the plugin"
    await get /readyz
    run_podman exec "$name" test -f /usr/local/lib/tensord/tensord-gpu-cuda.so || fail "the image lacks the plugin"
    podman logs "$name" 2>&1 | grep -q device_unavailable && echo "ok: without a GPU the CPU serves"
    stop
    echo "SKIP the plugin in the image was not run on a GPU, nor the image built on CUDA's own base"
else
    echo "SKIP image with the plugin: no nvcc in $cuda"
fi
say "passed"
