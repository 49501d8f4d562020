#!/usr/bin/env bash
# test_prebuilt.sh - tests prebuilt.py without a GPU: the emulation of CUDA takes the plugin's place, and scripts those of the
# benchmark, which measures nothing there, and of compute-sanitizer.
#
#   tests/gpu/test_prebuilt.sh [build]     the folder of a release build
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$PWD/${1:-build} plugin=$PWD/${1:-build}/tests/gpu/emulation/tensord-gpu-emulated.so
[ -e "$plugin" ] || { echo "skipped: the emulation of CUDA is not built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { printf 'FAILED: %s\n' "$*"; cat "$work/page"; exit 1; }
# prebuilt STATUS OPTION...: runs it, and keeps its page
prebuilt() {
    local status=0
    tests/gpu/run.sh --prebuilt --folder "$work/folder" --logs "$work/logs" "${@:2}" >"$work/page" 2>&1 || status=$?
    [ "$status" -eq "$1" ] || fail "exit status $status, expected $1: ${*:2}"
}
page() { grep -qE "$1" "$work/page" || fail "the page has no line '$1'"; }

mkdir "$work/folder" "$work/path"
ln -s "$build/tensord" "$build/tests/gpu/test_device_contract" "$work/folder"
ln -s "$plugin" "$work/folder/tensord-gpu-cuda.so"
cat >"$work/folder/bench_gpu" <<'END'
#!/bin/sh
echo "gather rows of   16 B:    100 GB/s, 0.50 of the copy"
echo "gather rows of 1024 B:    190 GB/s, 0.95 of the copy"
END
cat >"$work/path/compute-sanitizer" <<END
#!/bin/sh
case "\$*" in
*racecheck*'gather float32'*) sleep 1000 & echo \$! >$work/pid; wait ;;
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
page '^  gather of rows of 16 B, of a copy +>= 0.59 +0.5 +BELOW'
page '^  gather of rows of 1 KiB, of a copy +>= 0.9 +0.95 +reached'
page '^  product of 4096 x 4096 over HTTP, of a copy +>= 0.8 +[0-9.]+ +(BELOW|reached)'
page '^  ncu '

# One that hangs, one that fails, one that does nothing: listed, and the others run.
export PATH=$work/path:$PATH
prebuilt 1 --device "$plugin" --quick --only check --limit 2
page '^FAILED +racecheck-gather +[23] s .*ended at its limit of 2 s'
page '^FAILED +racecheck-stitch .*exit status 9: RACECHECK SUMMARY'
page '^FAILED +racecheck-find .*it ran no case'
page '^ok +racecheck-products '
page "^skipped +synccheck-products .*does not support"
page "^  compute-sanitizer --tool racecheck .* 'gather float32"
page '^4 ok, 3 FAILED, 7 skipped, 0 not run'
[[ $(ps -o stat= -p "$(cat "$work/pid")" || true) =~ ^(Z.*)?$ ]] || fail "what the stage had started still runs"

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
echo "all stages, figures, failures and limits as expected"
