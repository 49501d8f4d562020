#!/usr/bin/env bash
# run.sh - the CUDA plugin on a machine with a GPU: builds it, runs the contract test and the benchmark; with the
# daemon, also the conformance cases and a benchmark over HTTP.
#
#   tests/gpu/run.sh [WORD]     only the contract test, on cases whose description contains WORD
#   tests/gpu/run.sh --build    on a machine with nvcc, without a GPU: makes all that --prebuilt needs, in build-gpu-loan/
#   tests/gpu/run.sh --prebuilt [OPTION...]     on the GPU machine, with that folder and without nvcc: every stage under
#                               a limit, in under ten minutes, and one page of results (prebuilt.py has the options)
#
# Needs gcc, CMake and the CUDA toolkit; for HTTP also Python, and the daemon in build-gpu-loan/ or in TENSORD.
# The plugin is built for the GPU of the machine; without a GPU or nvcc the last line begins with "skipped" and
# the exit status is 77. A failed step does not stop the following ones; the exit status is 1 then, also where the device
# does not open.
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() {
    echo "skipped: $1"
    exit 77
}

# The plugin for compute capability 9.0, with PTX for later ones; the contract; the benchmark; and the daemon, with the libraries
# that it needs besides the C library, which it finds in lib/ beside it. cuBLAS is not among them: with 0.5 GB it is too
# large to be carried, and the plugin does without. The folder is about 25 MB.
build() {
    local to=$PWD/build-gpu-loan library daemon=${TENSORD:-} program foreign
    cmake -S . -B build-gpu-pre -DTD_ONLY=gpu -DTD_WERROR=OFF -DTD_CUDA_ARCHITECTURES="${TD_CUDA_ARCHITECTURES:-90}"
    cmake --build build-gpu-pre -j "$(nproc)" --target tensord-gpu-cuda test_device_contract bench_gpu
    if [ -z "$daemon" ]; then # DT_RPATH, the old tag, also holds for what the libraries need
        # shellcheck disable=SC2016 # $ORIGIN is the dynamic linker's
        cmake -S . -B build-gpu-pre/daemon -DCMAKE_BUILD_TYPE=Release -DTD_GPU=OFF -DCMAKE_EXE_LINKER_FLAGS='-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib'
        cmake --build build-gpu-pre/daemon -j "$(nproc)" --target tensord
        daemon=build-gpu-pre/daemon/tensord
    fi
    rm -rf "$to" && mkdir -p "$to/lib"
    for program in "$daemon" build-gpu-pre/tensord-gpu-cuda.so build-gpu-pre/tests/gpu/test_device_contract build-gpu-pre/tests/bench/gpu/bench_gpu; do
        strip --strip-unneeded -o "$to/$(basename "$program")" "$program"
    done
    ldd "$daemon" | awk '$2 == "=>" { print $3 }' | grep -vE '/lib(c|m|dl|rt|pthread)\.so' |
        while read -r library; do cp -L "$library" "$to/lib"; done
    for program in "$to"/tensord* "$to"/test_device_contract "$to"/bench_gpu; do
        foreign=$(env -i ldd "$program" | awk '$2 == "=>" { print $3 == "not" ? $1 : $3 }' |
            grep -v "^$to/lib/" | grep -vE '/lib(c|m|dl|rt|pthread)\.so' || true)
        [ -z "$foreign" ] || { echo "FAILED: $program needs libraries that are not in $to/lib: $foreign"; return 1; }
    done
    env -i "$to/tensord" --version
    (cd "$to" && du -sh lib ./* && du -sh .)
    echo "needs a C library of $(objdump -T "$to"/tensord* "$to"/test_device_contract "$to"/bench_gpu "$to"/lib/* |
        grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1) or newer; carry build-gpu-loan/, which git ignores"
}
case ${1:-} in
    --build) build && exit ;;
    --prebuilt)
        command -v python3 >/dev/null || { echo "FAILED: --prebuilt needs Python 3.8"; exit 1; }
        exec python3 -B tests/gpu/prebuilt.py "${@:2}" ;;
esac

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
export TD_TEST_DEVICE=$PWD/build-gpu/tensord-gpu-cuda.so TD_TEST_DEVICE_EXPECTED=1

status=0
build-gpu/tests/gpu/test_cuda_plugin || status=1
build-gpu/tests/gpu/test_device_contract "$@" || status=1
[ $# -eq 0 ] || exit $status
build-gpu/tests/bench/gpu/bench_gpu "$TD_TEST_DEVICE" || status=1

daemon=${TENSORD:-build-gpu-loan/tensord}
if [ ! -x "$daemon" ] || ! command -v python3 >/dev/null; then
    echo "not run over HTTP: it needs Python, and the daemon as build-gpu-loan/tensord (tests/gpu/run.sh --build)"
elif ! "$daemon" --version; then
    echo "not run over HTTP: $daemon does not start here"
    status=1
else
    python3 tests/conformance/test_all.py --binary "$daemon" --gpu "$TD_TEST_DEVICE" || status=1
    python3 tests/bench/gpu/end_to_end.py --binary "$daemon" --gpu "$TD_TEST_DEVICE" || status=1
fi
exit $status
