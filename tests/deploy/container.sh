#!/usr/bin/env bash
# container.sh [--install] - tests the image: it builds, runs without root, serves, and stops with exit code 0.
#
# Needs neither a registry nor a container daemon: buildah builds in a chroot on a local base image, and podman
# runs the image on the loopback interface with the limits of a hardened deployment.
set -euo pipefail
# shellcheck source=tests/deploy/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

readonly base=localhost/tensord-base-$suite image=localhost/tensord-under-test name=tensord-test-$$
log=$(mktemp)
trap 'podman --runtime runc rm -f "$name" >/dev/null 2>&1 || true; rm -f "$log"' EXIT

build_image() {
    podman image exists "$base" || podman import -q "$(base_tarball)" "$base" >/dev/null
    # Only the docker format supports HEALTHCHECK.
    buildah bud --isolation chroot --layers --format docker --build-arg "BASE=$base" -t "$image" "$root" \
        >"$log" 2>&1 || { tail -n 40 "$log" >&2; fail "building the image"; }
}

free_port() {
    local port
    for port in {18080..18179}; do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
    fail "no free port"
}

start_container() {
    # Limits of a shared host: enough for 10,000 connections, and not much more.
    podman --runtime runc run -d --name "$name" --network host --read-only --cap-drop all \
        --security-opt no-new-privileges --ulimit nofile=20000:20000 --ulimit nproc=1000:1000 \
        -e "TENSORD_LISTEN=127.0.0.1:$port" -v "$root/deploy/sample:/data:ro" "$image" >"$log" 2>&1 ||
        { cat "$log" >&2; fail "starting the container"; }
}

wait_until_ready() {
    local deadline=$((SECONDS + 30))
    until curl -sf -o /dev/null --max-time 2 "http://127.0.0.1:$port/readyz"; do
        [ "$SECONDS" -lt "$deadline" ] || { podman logs "$name" >&2; fail "not ready within 30 s"; }
        sleep 0.2
    done
}

expect() { # expect WHAT WANTED ACTUAL
    [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
    echo "ok: $1"
}

need "${1:-}" buildah podman debootstrap runc curl
say "building the image"
build_image
echo "image size: $(podman image inspect --format '{{.Size}}' "$image" | numfmt --to=iec) with its base of" \
    "$(podman image inspect --format '{{.Size}}' "$base" | numfmt --to=iec)"

say "running it"
port=$(free_port)
start_container
wait_until_ready
echo "ok: /readyz"
expect "gather" '{"output":{"dtype":"string","shape":[2,2],"data":[["c","d"],["a","b"]]}}' \
    "$(curl -s "http://127.0.0.1:$port/v1/gather" -d '{"params": [["a","b"],["c","d"]], "indices": [1,0]}')"
expect "a table of the mounted folder" 200 "$(curl -s -o /dev/null -w '%{http_code}' \
    "http://127.0.0.1:$port/v1/gather" -d '{"params": {"ref": "planets"}, "indices": [2]}')"
expect "user" tensord "$(podman --runtime runc exec "$name" id -un)"
podman --runtime runc healthcheck run "$name" >"$log" 2>&1 || { cat "$log" >&2; fail "health check"; }
echo "ok: health check"

podman --runtime runc stop -t 40 "$name" >"$log" 2>&1 || { cat "$log" >&2; fail "stopping the container"; }
expect "exit code after SIGTERM" 0 "$(podman inspect --format '{{.State.ExitCode}}' "$name")"
say "passed"
