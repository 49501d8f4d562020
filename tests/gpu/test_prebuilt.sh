#!/usr/bin/env bash
# test_prebuilt.sh - tests prebuilt.py without a GPU: the emulation of CUDA takes the plugin's place, and scripts those of the
# benchmark, which measures nothing there, and of compute-sanitizer. At the end run.sh by itself, with scripts for all.
#
#   tests/gpu/test_prebuilt.sh [build]     the folder of a release build
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$PWD/${1:-build} plugin=$PWD/${1:-build}/tests/gpu/emulation/tensord-gpu-emulated.so
[ -e "$plugin" ] || { echo "skipped: the emulation of CUDA is not built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { printf 'FAILED: %s\n' "$*"; cat "$work/page"; exit 1; }
# prebuilt STATUS OPTION...: runs it, and keeps its page. Its own limits suit a GPU that is held for ten minutes. Here they would end
# stages on a busy machine, so they are raised, unless a test sets others.
prebuilt() {
    local status=0
    tests/gpu/run.sh --prebuilt --folder "$work/folder" --logs "$work/logs" \
        --limit 3600 --total 36000 "${@:2}" >"$work/page" 2>&1 || status=$?
    [ "$status" -eq "$1" ] || fail "exit status $status, expected $1: ${*:2}"
}
page() { grep -qE "$1" "$work/page" || fail "the page has no line '$1'"; }

mkdir "$work/folder" "$work/path"
ln -s "$build/tensord" "$build/tests/gpu/test_device_contract" "$work/folder"
ln -s "$plugin" "$work/folder/tensord-gpu-cuda.so"
cat >"$work/folder/bench_gpu" <<'END' # lines as bench_gpu.c prints them
#!/bin/sh
cat <<'LINES'
Some GPU: a launch 9.8 us, copies 55.2 GB/s, back 54.9, into pinned memory 11.3 by a thread, memory 4100 GB/s, float32 52.1 TFLOP/s
copy in device memory: 4020 GB/s read and written
gather rows of   16 B:   1769 GB/s, 0.44 of the copy; 867 MB of sectors, 0.63 of what they allow
gather rows of   64 B:   3500 GB/s, 0.87 of the copy; 553 MB of sectors, 0.87 of what they allow
gather rows of 1024 B:   3819 GB/s, 0.95 of the copy; 538 MB of sectors, 0.95 of what they allow
with L2 fetching 32 bytes at a time instead of 64, a copy 4010 GB/s:
gather rows of   16 B:   2492 GB/s, 0.62 of the copy; 867 MB of sectors, 0.89 of what they allow
gather rows of   64 B:   3300 GB/s, 0.82 of the copy; 553 MB of sectors, 0.82 of what they allow
gather rows of 1024 B:   3779 GB/s, 0.94 of the copy; 538 MB of sectors, 0.94 of what they allow
64 lookups of 32 rows: one launch 12.3 us, 64 launches 201.0 us: 16.3 times
einsum float32 1 x 1024^3: 40.1 TFLOP/s, cuBLAS 40.9: ratio 0.98
einsum float16 1 x 4096^3: 600.0 TFLOP/s, cuBLAS 640.0: ratio 0.94
einsum float32 4096^3 from and to the host: copy to device 2400 us, product 2700 us, copy to host 1200 us; on 2 streams 2800 us each: 0.97 of the possible overlap
LINES
END
cat >"$work/path/compute-sanitizer" <<END
#!/bin/sh
case "\$*" in
*racecheck*'gather float32'*) [ -n "\$HANGS" ] || { echo "5 checks passed" && exit; }; tail -f /dev/null & echo \$! >$work/pid; wait ;;
*racecheck*dynamic_stitch*) echo "RACECHECK SUMMARY: 1 hazard displayed"; exit 9 ;;
*racecheck*'find '*) echo "0 checks passed" ;;
*synccheck*) echo "Error: Device not supported"; exit 1 ;;
*) echo "5 checks passed" ;;
esac
END
chmod +x "$work/folder/bench_gpu" "$work/path/compute-sanitizer"

# All stages, on the emulation.
prebuilt 0 --device "$plugin" --quick
for stage in contract conformance bench end-to-end-2048 end-to-end-4096; do
    page "^ok +$stage "
    [ -s "$work/logs/$stage.log" ] || fail "no log of $stage"
done
[ -n "$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin type -P compute-sanitizer)" ] ||
    page '^skipped +synccheck-products .*compute-sanitizer is neither in PATH nor in the toolkit'
page '^  launch, us +9.8$'
page '^  gather of rows of 16 B, of a copy +>= 0.59 +0.62 +reached$'
page '^  gather of rows of 64 B, of a copy +>= 0.85 +0.82 +BELOW$'
page '^  gather of rows of 256 B, of a copy +>= 0.85 +not measured$'
page '^  gather of rows of 1 KiB, of a copy +>= 0.9 +0.94 +reached$'
page '^  rows of 16 B, L2 fetching as it comes, of a copy +0.44$'
page '^  rows of 64 B, L2 fetching as it comes, of a copy +0.87$'
page '^  lookups in one launch, times faster +16.3$'
page '^  einsum against cuBLAS, the least ratio +0.94$'
page '^  overlap of copies and products +0.97$'
page '^  product of 4096 x 4096 over HTTP, of a copy +>= 0.8 +[0-9.]+ +(BELOW|reached)'
page '^  TD_TEST_DEVICE=.* ncu '

# A word runs the cases alone, so that compute-sanitizer ends within its limit.
TD_TEST_DEVICE=$plugin "$build/tests/gpu/test_device_contract" "gather float32[5" >"$work/page" || fail "the cases of a word"
! grep -vE ' checks passed, 0 failed$|^[1-9][0-9]* passed, 0 failed$' "$work/page" || fail "with a word there are checks besides those of the cases"

# One that hangs: ended with what it had started, and its command is listed.
export PATH=$work/path:$PATH
HANGS=yes prebuilt 1 --device "$plugin" --quick --only racecheck-gather --limit 20
page '^FAILED +racecheck-gather +[0-9]+ s .*ended at its limit of 20 s'
page "^  TD_TEST_DEVICE=.* compute-sanitizer --tool racecheck .* 'gather float32"
[ -s "$work/pid" ] || fail "the stage had started nothing"
[[ $(ps -o stat= -p "$(cat "$work/pid")" || true) =~ ^(Z.*)?$ ]] || fail "what the stage had started still runs"

# One that fails, one that does nothing: listed, and the others run.
prebuilt 1 --device "$plugin" --quick --only check
page '^ok +racecheck-gather '
page '^FAILED +racecheck-stitch .*exit status 9: RACECHECK SUMMARY'
page '^FAILED +racecheck-find .*it ran no case'
page '^ok +racecheck-products '
page "^skipped +synccheck-products .*does not support"
page "^  TD_TEST_DEVICE=.* compute-sanitizer --tool racecheck .* 'dynamic_stitch"
page '^5 ok, 2 FAILED, 7 skipped, 0 not run'
# Commands to paste test the plugin, not the reference device.
pasted=$(sed -n 's/^  \(.*\) compute-sanitizer .*dynamic_stitch.*/\1 env/p' "$work/page" | head -n 1)
[ "$(env -u TD_TEST_DEVICE bash -c "$pasted" | grep '^TD_TEST_DEVICE=')" = "TD_TEST_DEVICE=$plugin" ] ||
    fail "the next commands do not name the device: $pasted"

# No time left; a plugin that is none; no GPU.
prebuilt 1 --device "$plugin" --quick --only bench --total 0
page '^not run +bench '
echo none >"$work/broken.so"
prebuilt 1 --device "$work/broken.so" --quick
page '^FAILED: tensord --check-config: .*broken.so'
! grep -q '^skipped' "$work/page" || fail "a broken plugin is skipped"
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1 && ! command -v nvidia-smi >/dev/null; then
    prebuilt 77
    page '^skipped: no GPU'
fi

# run.sh on a machine with a GPU: a step that fails is never 77, also where a later one says so.
tree=$work/tree
mkdir -p "$tree/tests/gpu" "$tree/build-gpu/tests/gpu" "$tree/build-gpu/tests/bench/gpu" "$work/tools"
cp tests/gpu/run.sh "$tree/tests/gpu"
# step PROGRAM STATUS
step() {
    printf '#!/bin/sh\necho %s; exit %s\n' "$1" "$2" >"$tree/build-gpu/tests/$1"
    chmod +x "$tree/build-gpu/tests/$1"
}
for tool in nvcc cmake nvidia-smi; do
    printf '#!/bin/sh\necho 9.0\n' >"$work/tools/$tool"
    chmod +x "$work/tools/$tool"
done
# steps STATUS PLUGIN CONTRACT BENCH [WORD]
steps() {
    local status=0
    step gpu/test_cuda_plugin "$2"
    step gpu/test_device_contract "$3"
    step bench/gpu/bench_gpu "$4"
    PATH=$work/tools:$PATH TENSORD=/no/such/daemon "$tree/tests/gpu/run.sh" "${@:5}" >"$work/page" 2>&1 || status=$?
    [ "$status" -eq "$1" ] || fail "run.sh: exit status $status, expected $1 of steps with ${*:2}"
}
steps 0 0 0 0
page '^bench/gpu/bench_gpu'
steps 1 0 1 77
steps 1 1 0 0
steps 1 0 0 77
steps 1 0 77 0 'gather '
! grep -q '^bench' "$work/page" || fail "the benchmark runs with a word"
echo "all stages, figures, failures and limits as expected"
