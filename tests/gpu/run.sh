#!/usr/bin/env bash
# run.sh - the CUDA plugin on a machine with a GPU: builds it, runs the contract test and the benchmark; with the
# daemon, also the conformance cases and a benchmark over HTTP.
#
#   tests/gpu/run.sh [WORD]     only the contract test, on cases whose description contains WORD
#   tests/gpu/run.sh pack       on the machine that built tensord: copies the daemon and the libraries that it
#                               needs besides the C library to build-gpu-daemon/, to be copied to the GPU machine
#
# Needs gcc, CMake and the CUDA toolkit; for HTTP also Python, and the daemon in build-gpu-daemon/ or in TENSORD.
# The plugin is built for the GPU of the machine; without a GPU or nvcc the last line begins with "skipped" and
# the exit status is 77. A failed step does not stop the following ones.
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() {
    echo "skipped: $1"
    exit 77
}

# The C library is not packed: it must match the kernel and loader of the machine.
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
# nvidia-smi prints "8.9" for compute capability 8.9. The toolkit's __nvcc_device_query prints "89", and also exists in
# containers without the driver's programs. With several GPUs the first is used, which is device 0 of both programs
# unless CUDA_VISIBLE_DEVICES is set.
if command -v nvidia-smi >/dev/null; then
    answer=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>&1 | head -n 1) || true
else
    answer=$("$toolkit/bin/__nvcc_device_query" 2>&1 | head -n 1) || true
fi
[[ $answer =~ ^([0-9]+)\.?([0-9])(,.*)?$ ]] || skip "no GPU: $answer"
capability=${BASH_REMATCH[1]}${BASH_REMATCH[2]}

cmake -S . -B build-gpu -DTD_ONLY=gpu -DTD_WERROR=OFF -DTD_CUDA_ARCHITECTURES="$capability"
cmake --build build-gpu -j "$(nproc)"
# The toolkit's cuBLAS, if it is not in the dynamic linker's path.
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
    echo "not run over HTTP: it needs Python, and the daemon as build-gpu-daemon/tensord (tests/gpu/run.sh pack)"
elif ! "$daemon" --version; then
    echo "not run over HTTP: $daemon does not start here"
    status=1
else
    python3 tests/conformance/test_all.py --binary "$daemon" --gpu "$TD_TEST_DEVICE" || status=$?
    python3 tests/bench/gpu/end_to_end.py --binary "$daemon" --gpu "$TD_TEST_DEVICE" || status=$?
fi
exit $status
