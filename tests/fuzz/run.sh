#!/usr/bin/env bash
# run.sh - runs fuzz targets, from the seeds and from what earlier runs have found.
#
#   tests/fuzz/run.sh TARGET|all [SECONDS [OPTION...]]      default: 60 seconds each; OPTIONs are libFuzzer's
#   tests/fuzz/run.sh TARGET FILE...                        runs these inputs only, as after a crash
#
# Builds the targets in build-fuzz/ (preset fuzz, which needs clang). Inputs that reach new code are kept in
# build-fuzz/corpus/TARGET; one that fails is written to build-fuzz/crashes/TARGET-..., and the exit status is 1. Each
# run starts from seed 1: the same corpus gives the same inputs, but their number depends on the machine's speed.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly BUILD=build-fuzz

if [ $# -eq 0 ]; then
    sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"
    exit 2
fi
if ! command -v clang >/dev/null || ! command -v clang++ >/dev/null; then
    echo "skipped: no clang"
    exit 77
fi
if ! printf 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return !d && n; }' |
    clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null; then
    echo "skipped: clang has no libFuzzer: install the packages that clang's recommends"
    exit 77
fi

target=$1
shift
targets=(tests/fuzz/fuzz_*.c)
targets=("${targets[@]#tests/fuzz/fuzz_}")
targets=("${targets[@]%.c}")
if [ "$target" != all ]; then
    if ! printf '%s\n' "${targets[@]}" | grep -qx "$target"; then
        echo "run.sh: there is no target $target; they are ${targets[*]}" >&2
        exit 2
    fi
    targets=("$target")
fi

if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
cmake --preset fuzz -DTD_GPU=OFF >/dev/null
cmake --build --preset fuzz -j "$(nproc)" >$BUILD/build.log 2>&1 || { tail -n 30 $BUILD/build.log; exit 1; }

# What a target is built with decides what a crash looks like, so it is the same everywhere.
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1

if [ $# -gt 0 ] && [ -f "$1" ]; then
    exec $BUILD/tests/fuzz/"fuzz_$target" "$@"
fi
seconds=${1:-60}
shift $(($# > 0))

# The option, unless the target has no words.
dictionary_of() {
    local name=$1
    case $name in
    oip | versions | floats | config) name=json ;;
    headers | names) name=http ;;
    npy | store) name=safetensors ;;
    keys | cgroup | inflate) return ;;
    esac
    echo "-dict=tests/fuzz/$name.dict"
}

failed=0
rm -rf $BUILD/seeds
python3 tests/fuzz/seeds.py $BUILD/seeds
mkdir -p $BUILD/crashes
for name in "${targets[@]}"; do
    corpus=$BUILD/corpus/$name
    log=$BUILD/$name.log
    mapfile -t dictionary < <(dictionary_of "$name")
    mkdir -p "$corpus"
    if $BUILD/tests/fuzz/"fuzz_$name" -seed=1 -max_total_time="$seconds" -max_len=4096 -timeout=60 \
        -rss_limit_mb=4096 -print_final_stats=1 "${dictionary[@]}" \
        -artifact_prefix="$BUILD/crashes/$name-" "$@" "$corpus" $BUILD/seeds/"$name" >"$log" 2>&1; then
        printf '%-12s %9d inputs, %s\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
            "$(grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$log" | tail -n 1)"
    else
        failed=$((failed + 1))
        printf '%-12s FAILED; the end of %s:\n' "$name" "$log"
        tail -n 60 "$log" | cut -c 1-300
    fi
done
printf '%d passed, %d failed\n' $((${#targets[@]} - failed)) $failed
[ $failed -eq 0 ]
