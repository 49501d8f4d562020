#!/usr/bin/env bash
# run.sh - all tests of tensord, on a machine that may have nothing installed yet.
#
#   tests/run.sh                everything
#   tests/run.sh unit http      only the stages whose names contain one of these words
#
# Each stage prints one line: ok, FAILED (with the end of its log) or skipped with the reason; the last line
# counts them. Logs are in build/test-logs/. Works as root and with sudo; a second run rebuilds only what
# changed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LOGS=build/test-logs
readonly JOBS=$(nproc)
passed=0 failed=0 skipped=0

# stage NAME COMMAND...: exit status 77 means skipped; then the last line that begins with "skipped" says why.
stage() {
    local name=$1 log status=0 begun=$SECONDS reason
    shift
    wanted "$name" || return 0
    log=$LOGS/$name.log
    "$@" >"$log" 2>&1 </dev/null || status=$?
    case $status in
    0)
        passed=$((passed + 1))
        printf '%-28s ok       %3d s  %s\n' "$name" $((SECONDS - begun)) "$(summary "$log")"
        ;;
    77)
        skipped=$((skipped + 1))
        reason=$(grep '^skipped' "$log" | tail -n 1 || true)
        printf '%-28s %s\n' "$name" "${reason:-skipped: no reason given}"
        ;;
    *)
        failed=$((failed + 1))
        printf '%-28s FAILED   %3d s  exit %d; the end of %s:\n' "$name" $((SECONDS - begun)) "$status" "$log"
        tail -n 40 "$log" | sed 's/^/    /'
        ;;
    esac
}

only=("$@")
wanted() {
    local word
    [ ${#only[@]} -gt 0 ] || return 0
    for word in "${only[@]}"; do [[ $1 != *"$word"* ]] || return 0; done
    return 1
}

# The line of a log that counts its tests, where it has one.
summary() { grep -E 'tests passed|[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1 || true; }

# Without the CUDA plugin, which has a stage of its own.
build() {
    cmake --preset "$1" -DTD_WERROR=ON -DTD_GPU=OFF && cmake --build --preset "$1" -j "$JOBS"
}

unit() { ctest --test-dir "$1" --output-on-failure -j "$JOBS" "${@:2}"; }

format_check() {
    git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' '*.inc' | xargs clang-format --dry-run -Werror
    echo "formatted as .clang-format says"
}

# clang-tidy on our sources; tests and the client examples are held to the compiler's warnings only, and so
# are the loops that are built once per instruction set, which consist of GCC's vectors, and the CUDA plugin, which
# the build that clang-tidy looks at leaves out.
tidy_check() {
    git ls-files -co --exclude-standard 'kernels/*.c' 'api/*.c' 'server/*.c' 'gpu/*.c' 'api/*.cc' ':!api/clients/*' \
        ':!gpu/cuda/*' |
        grep -vE '_(generic|avx2|avx512|avx512_ymm|avx512_bf16)\.c$' |
        xargs -P "$JOBS" -n 1 clang-tidy -p build --quiet
}

# What a sanitizer finds ends the process with its own exit status, which the tests notice.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:exitcode=98

http() { TD_TEST_TIME_SCALE=$2 python3 tests/http/run.py --binary "$1/tensord" "${@:3}"; }
oip() { TD_TEST_TIME_SCALE=$2 python3 tests/oip/run.py --binary "$1/tensord"; }
conformance() { TD_TEST_TIME_SCALE=$2 python3 tests/conformance/test_all.py --binary "$1/tensord"; }

# For the two stages below: what a machine with a GPU builds, and the CUDA plugin for one architecture (9.0),
# so as to be quick.
build_gpu() {
    cmake -S . -B build-gpu -DTD_ONLY=gpu -DTD_WERROR=ON -DTD_CUDA_ARCHITECTURES=90 &&
        cmake --build build-gpu -j "$JOBS"
}

# The CUDA plugin: exports one function, depends on no library of
# CUDA's to be loaded, and says what it lacks where there is no GPU. Where there is one, the contract too.
gpu_plugin() {
    local plugin=$PWD/build-gpu/tensord-gpu-cuda.so exported needed status=0
    if ! command -v nvcc && ! [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
        echo "skipped: no nvcc"
        return 77
    fi
    build_gpu || return 1
    exported=$(nm -D --defined-only "$plugin" | awk '{ print $NF }')
    needed=$(readelf -d "$plugin" | grep -E 'NEEDED.*(cuda|cublas|nv)' || true)
    if [ "$exported" != td_device_plugin ] || [ -n "$needed" ]; then
        printf 'exported: %s\nneeded: %s\n' "$exported" "$needed"
        return 1
    fi
    build-gpu/tests/gpu/test_cuda_plugin || return 1
    TD_TEST_DEVICE=$plugin build-gpu/tests/gpu/test_device_contract | sed 's/^skipped/contract left out/' || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

# The same sources on an emulation of CUDA on the host; unit-asan has it once more, under AddressSanitizer.
gpu_emulation() {
    build_gpu || return 1
    if ctest --test-dir build-gpu -N -R '^gpu/emulation$' | grep -q 'Total Tests: 1'; then
        ctest --test-dir build-gpu -R '^gpu/emulation$' -V | sed -n 's/^[0-9]*: \(skipped\)/\1/p'
        return 77
    fi
    unit build-gpu -R '^gpu/emulation/' || return 1
    # And the way from a request to the plugin and back, where the daemon has been built.
    [ ! -x build/tensord ] ||
        python3 tests/conformance/test_all.py --binary build/tensord \
            --gpu "$PWD/build-gpu/tests/gpu/emulation/tensord-gpu-emulated.so"
}

mkdir -p "$LOGS"
if ! deploy/dependencies.sh --test >"$LOGS/dependencies.log" 2>&1; then
    tail -n 20 "$LOGS/dependencies.log"
    echo "the dependencies could not be installed: see $LOGS/dependencies.log"
    exit 1
fi

stage build-release build release
stage build-asan build asan
stage build-tsan build tsan
stage layering bash -c "tests/check_layering.sh && tests/check_references.sh && tests/check_architecture.py"
stage format format_check
stage tidy tidy_check
stage unit-release unit build -E '^gpu/emulation/' # a stage of its own
stage unit-asan unit build-asan
stage unit-tsan unit build-tsan
stage gpu-plugin gpu_plugin
stage gpu-emulation gpu_emulation
stage conformance-release conformance build 1
stage conformance-asan conformance build-asan 4
stage http-release http build 1
stage http-asan http build-asan 4
stage oip oip build 1
stage oip-asan oip build-asan 4
for topic in concurrency clients overload lifecycle devices oip_memory tensors scatter store_option; do
    stage "http-tsan-$topic" http build-tsan 6 --only "test_$topic"
done
for client in curl python triton node go c readme; do
    stage "clients-$client" python3 tests/clients/run.py "$client"
done
stage valgrind tests/http/valgrind.sh build/tensord
stage real tests/real/run.sh
stage quickstart deploy/quickstart.sh --once
stage container tests/deploy/container.sh

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
