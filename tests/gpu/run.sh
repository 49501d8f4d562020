#!/usr/bin/env bash
# run.sh - the CUDA plugin on a machine that has a GPU: builds it, holds it to the contract of gpu/device.h,
# and measures it; and runs the conformance cases and a benchmark over HTTP, where the daemon is there.
#
#   tests/gpu/run.sh [WORD]     only cases of the contract whose description contains WORD, and nothing else
#   tests/gpu/run.sh pack       where tensord is built: puts the daemon, with the libraries that it needs beside
#                               the C library, into build-gpu-daemon/, to be brought along to such a machine
#
# Needs gcc, CMake and the CUDA toolkit, nothing else; for what goes over HTTP also Python, and the daemon in
# build-gpu-daemon/ or as TENSORD says. The plugin is built for the GPU that is there; without one, or without
# nvcc, the last line begins with "skipped" and the exit status is 77. What fails does not keep the rest from
# being run.
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() {
    echo "skipped: $1"
    exit 77
}

# The C library is that of the machine: it has to fit its kernel and loader.
pack() {
    local to=build-gpu-daemon library
    mkdir -p "$to"
    cp "${TENSORD:-build/tensord}" "$to/tensord"
    ldd "$to/tensord" | awk '$2 == "=>" { print $3 }' | grep -vE '/lib(c|m|dl|rt|pthread)\.so' |
        while read -r library; do cp -L "$library" "$to"; done
    ls "$to"
}
if [ "${1:-}" = pack ]; then
    pack
    exit
fi

nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
[ -x "$nvcc" ] || skip "no nvcc"
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
# "8.9" for compute capability 8.9; the toolkit's own program says "89", and is there in containers that lack the
# driver's. Several GPUs: the first, which is device 0 of both unless CUDA_VISIBLE_DEVICES says otherwise.
if command -v nvidia-smi >/dev/null; then
    answer=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>&1 | head -n 1) || true
else
    answer=$("$toolkit/bin/__nvcc_device_query" 2>&1 | head -n 1) || true
fi
[[ $answer =~ ^([0-9]+)\.?([0-9])(,.*)?$ ]] || skip "no GPU: $answer"
capability=${BASH_REMATCH[1]}${BASH_REMATCH[2]}

cmake -S . -B build-gpu -DTD_ONLY=gpu -DTD_WERROR=OFF -DTD_CUDA_ARCHITECTURES="$capability"
cmake --build build-gpu -j "$(nproc)"
# Where the toolkit's cuBLAS is, if the system does not know it.
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$toolkit/lib64:$toolkit/lib
export TD_TEST_DEVICE=$PWD/build-gpu/tensord-gpu-cuda.so

status=0
build-gpu/tests/gpu/test_cuda_plugin || status=$?
build-gpu/tests/gpu/test_device_contract "$@" || status=$?
[ $# -eq 0 ] || exit $status
build-gpu/tests/bench/gpu/bench_gpu "$TD_TEST_DEVICE" || status=$?

daemon=${TENSORD:-build-gpu-daemon/tensord}
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$PWD/build-gpu-daemon
if [ ! -x "$daemon" ] || ! command -v python3 >/dev/null; then
    echo "not run over HTTP: that takes Python, and the daemon as build-gpu-daemon/tensord (tests/gpu/run.sh pack)"
elif ! "$daemon" --version; then
    echo "not run over HTTP: $daemon does not start here"
    status=1
else
    python3 tests/conformance/test_all.py --binary "$daemon" --gpu "$TD_TEST_DEVICE" || status=$?
    python3 tests/bench/gpu/end_to_end.py --binary "$daemon" --gpu "$TD_TEST_DEVICE" || status=$?
fi
exit $status
