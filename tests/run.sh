#!/usr/bin/env bash
# shellcheck disable=SC2317 # functions that run through eval and trap
# run.sh - all tests of tensord, on a machine that may have nothing installed yet.
#
#   tests/run.sh                the whole: what a change must pass; 15 to 20 minutes on two cores
#   tests/run.sh quick          while you work: release build, unit tests, a look at HTTP; under 3 minutes
#   tests/run.sh long           the whole, and what takes longer than it is allowed to
#   tests/run.sh unit http      the stages whose names contain one of these words, and the builds that they need
#   tests/run.sh --list         all stages: in which of the three sets they are, and what they need
#
# Each stage prints one line when it ends: ok, FAILED (with the end of its log), skipped with the reason, or not run
# because its build failed, which counts as failed. The last line counts them; the exit status is 0 only if none
# failed. Logs are in build/test-logs/. Works as root and with sudo; a second run rebuilds only what changed. ccache
# is used where it is installed.
#
# A stage that fails runs a second time, alone, after all others: a test may depend on the machine's load. What passes then is
# named at the end with the log of its first run, since it is a fault all the same. What a sanitizer reported, a
# crash and a build fail at once.
#
# Two stages run at a time, one of each lane: `compute` keeps the processors busy, `wait` mostly waits for the
# daemon's timers and for clients. Nothing here measures speed, so neither disturbs the other; waits are
# stretched for the sanitizers.
#
# What is in `long` only:
#   valgrind          finds what AddressSanitizer finds in the same cases, at a multiple of the time.
#   tidy-analyzer     clang-tidy with clang's analyzer, which takes four times as long as all else.
#   unit-tsan-others  unit tests whose programs start no thread: ThreadSanitizer has nothing to find in them; and those of each op,
#                     which run in threads by the same loops as random calls do.
#   http-tsan-topics  topics of HTTP that go through the same threads as those of http-tsan.
#   unit-effort       unit tests of kernels and formats, with ten times as many random cases.
#   trial-*-long      minutes of tests/trials instead of seconds.
#   mlserver, kserve  packages of hundreds of megabytes.
#   package           the Debian package, built, installed in a minimal system and booted; needs root and debootstrap.
#   wheel             the wheel: everything is compiled twice, without ccache the second time.
#   fuzz-long         3 minutes for each target of tests/fuzz instead of 5 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LOGS=build/test-logs
JOBS=$(nproc)
readonly JOBS

# What a sanitizer finds ends the process with its own exit status, which the tests notice.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:exitcode=98

# ---------------------------------------------------------------- the stages' commands
# Exit status 77 means skipped; then the last line that begins with "skipped" says why.

# Without the CUDA plugin, which has a stage of its own.
build() {
    cmake --preset "$1" -DTD_WERROR=ON -DTD_GPU=OFF && cmake --build --preset "$1" -j "$JOBS"
}

# ctest itself does not print why a test was skipped.
unit() {
    local status=0
    ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$JOBS" "${@:2}" || status=$?
    sed -n 's/^skipped: /SKIP unit test: /p' "$1/Testing/Temporary/LastTest.log"
    return "$status"
}

# Ten times as many random cases as usual.
unit_effort() { TD_TEST_EFFORT=10 unit "$@"; }

# unit_tsan -R: the tests whose programs start threads, without those of single ops, which take minutes; kernels/random runs
# all ops. unit_tsan -E: the others.
unit_tsan() {
    local threaded
    threaded=$(ctest --test-dir build-tsan --show-only=json-v1 | python3 -c '
import json, subprocess, sys
tests = {test["name"]: test["command"][0] for test in json.load(sys.stdin)["tests"]}
called = {name: subprocess.run(["nm", "-D", "--undefined-only", program], capture_output=True).stdout
          for name, program in tests.items()}
ops = {"dynamic_partition", "dynamic_stitch", "embedding_bag", "permute", "scatter", "statistics", "sumprod", "top_k"}
print("|".join(name for name in tests if b"pthread_create" in called[name] and name.split("/")[-1] not in ops))')
    unit build-tsan "$1" "^($threaded)\$"
}

layering() {
    tests/check_layering.sh && tests/check_references.sh && tests/check_excerpts.py && tests/check_links.py && tests/check_architecture.py &&
        tests/check_events.py
}

format_check() {
    git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' '*.inc' | xargs clang-format --dry-run -Werror
    echo "formatted as .clang-format says"
}

# tidy: all but the analyzer, which follows paths through functions and takes most of the time.
# clang-tidy on our sources; tests and the client examples are held to the compiler's warnings only, and so
# are the loops that are built once per instruction set, which consist of GCC's vectors, and the CUDA plugin, which
# the build that clang-tidy looks at leaves out.
tidy() {
    git ls-files -co --exclude-standard 'kernels/*.c' 'api/*.c' 'server/*.c' 'gpu/*.c' 'api/*.cc' ':!api/clients/*' \
        ':!gpu/cuda/*' |
        grep -vE '_(generic|avx[0-9a-z_]*)\.c$' |
        xargs -P "$JOBS" -n 1 clang-tidy -p build --quiet "$@" 2> >(grep -v 'warnings\? generated\.$' >&2)
}

# BUILD SCALE OPTION...; SCALE stretches the waits.
http() { TD_TEST_TIME_SCALE=$2 python3 tests/http/run.py --binary "$1/tensord" "${@:3}"; }
oip() { TD_TEST_TIME_SCALE=$2 python3 tests/oip/run.py --binary "$1/tensord"; }
conformance() { TD_TEST_TIME_SCALE=$2 python3 tests/conformance/test_all.py --binary "$1/tensord" "${@:3}"; }
clients() { python3 tests/clients/run.py "$1"; }
fuzz() { tests/fuzz/run.sh all "$1"; }
trial() { TD_TEST_TIME_SCALE=$3 python3 "tests/trials/$1.py" --binary "$2/tensord" --seconds "$4"; } # NAME BUILD SCALE SECONDS

# The CUDA plugin, for one architecture (9.0) so as to be quick: exports one function, depends on no library of
# CUDA's to be loaded, and says what it lacks where there is no GPU. Where there is one, the contract too.
gpu_plugin() {
    local plugin=$PWD/build-gpu/tensord-gpu-cuda.so exported needed status=0
    if ! command -v nvcc && ! [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
        echo "skipped: no nvcc"
        return 77
    fi
    cmake -S . -B build-gpu -DTD_ONLY=gpu -DTD_WERROR=ON -DTD_CUDA_ARCHITECTURES=90 &&
        cmake --build build-gpu -j "$JOBS" --target tensord-gpu-cuda test_cuda_plugin test_device_contract bench_gpu ||
        return 1
    exported=$(nm -D --defined-only "$plugin" | awk '{ print $NF }')
    needed=$(readelf -d "$plugin" | grep -E 'NEEDED.*(cuda|cublas|nv)' || true)
    if [ "$exported" != td_device_plugin ] || [ -n "$needed" ]; then
        printf 'exported: %s\nneeded: %s\n' "$exported" "$needed"
        return 1
    fi
    tests/gpu/test_plugin_code.py "$plugin" 90 90 && build-gpu/tests/gpu/test_cuda_plugin || return 1
    TD_TEST_DEVICE=$plugin build-gpu/tests/gpu/test_device_contract | sed 's/^skipped/SKIP contract on a GPU/' || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

# The same sources on an emulation of CUDA on the host, and the way from a request to them and back.
gpu_emulation() {
    if ctest --test-dir build -N -R '^gpu/emulation$' | grep -q 'Total Tests: 1'; then
        ctest --test-dir build -R '^gpu/emulation$' -V | sed -n 's/^[0-9]*: \(skipped\)/\1/p'
        return 77
    fi
    unit build -R '^gpu/emulation/' &&
        conformance build 1 --gpu "$PWD/build/tests/gpu/emulation/tensord-gpu-emulated.so"
}

# ---------------------------------------------------------------- the table of stages
names=()
declare -A lane sets needs command state pid begun

# stage NAME LANE SETS NEEDS COMMAND...
stage() {
    names+=("$1")
    lane[$1]=$2 sets[$1]=$3 needs[$1]=${4#-} state[$1]=unwanted
    command[$1]=$(printf '%q ' "${@:5}")
}

# The sets: q quick, w whole, l long. In each lane, stages whose needs are ready start in this order.
#     name                lane    sets needs         command
stage build-release       compute qwl  -             build release
stage layering            compute -wl  -             layering
stage format              compute -wl  -             format_check
stage unit-release        compute qwl  build-release unit build -E '^gpu/emulation/' # a stage of its own
stage build-asan          compute -wl  -             build asan
stage build-tsan          compute -wl  -             build tsan
stage unit-asan           compute -wl  build-asan    unit build-asan
stage unit-tsan           compute -wl  build-tsan    unit_tsan -R
stage build-benchmarks    compute -wl  build-release cmake --build build -j "$JOBS" --target benchmarks
stage tidy                compute -w-  build-release tidy --checks=-clang-analyzer-*
stage tidy-analyzer       compute --l  build-release tidy
stage unit-effort         compute --l  build-release unit_effort build -R '^(api|kernels)/'
stage gpu-plugin          compute -wl  -             gpu_plugin
stage gpu-emulation       compute -wl  build-release gpu_emulation
stage gpu-loan            compute -wl  build-release tests/gpu/test_prebuilt.sh build
stage unit-tsan-others    compute --l  build-tsan    unit_tsan -E
stage fuzz                compute -w-  -             fuzz 5
stage fuzz-long           compute --l  -             fuzz 180
stage http-tls            wait    --l  build-release env TD_TEST_TLS=1 tests/http/run.py --binary build/tensord --only test_ops \
    --only test_einsum --only test_binary --only test_tensors --only test_scatter --only test_oip --only test_devices --only test_targets
stage valgrind            compute --l  build-release tests/http/valgrind.sh build/tensord
stage conformance-json    wait    q--  build-release conformance build 1 --transport json
stage http-smoke          wait    q--  build-release http build 1 --only test_ops --only test_errors --only test_tensors \
    --only test_binary --only test_einsum
stage conformance-release wait    -wl  build-release conformance build 1
stage http-release        wait    -wl  build-release http build 1
stage oip                 wait    -wl  build-release oip build 1
for client in curl python triton node go c; do
    stage clients-$client wait    -wl  build-release clients $client
done
stage python-package      wait    -wl  build-release python3 tests/clients/python/run.py
stage progress            wait    qwl  -             tests/deploy/progress.sh
stage dependencies        wait    -wl  -             tests/deploy/dependencies.sh
stage install             wait    -wl  build-release tests/deploy/install.sh
stage sbom                wait    -wl  build-release tests/deploy/sbom.sh
stage quickstart          wait    -wl  build-release deploy/quickstart.sh --once
stage openapi             wait    -wl  build-release tests/openapi/run.py
stage perf-analyzer       wait    -wl  build-release python3 tests/oip/perf_analyzer.py --binary build/tensord
stage conformance-asan    wait    -wl  build-asan    conformance build-asan 4
stage http-asan           wait    -wl  build-asan    http build-asan 4
stage oip-asan            wait    -wl  build-asan    oip build-asan 4
stage http-tsan           wait    -wl  build-tsan    http build-tsan 6 --only test_concurrency --only test_overload \
    --only test_devices --only test_lifecycle
stage http-tsan-topics    wait    --l  build-tsan    http build-tsan 6 --only test_clients --only test_oip_memory \
    --only test_tensors --only test_scatter --only test_store_option --only test_traces
for trial in crash faults hostile restart replicas soak; do
    stage trial-$trial      wait  -w-  build-release trial $trial build 1 8
    stage trial-$trial-long wait  --l  build-release trial $trial build 1 180
done
stage trial-versions-long wait    --l  build-release trial versions build 1 180
stage trial-random        wait    -w-  build-asan    trial random_requests build-asan 4 8
stage trial-random-long   wait    --l  build-asan    trial random_requests build-asan 4 180
stage trial-hostile-asan  wait    --l  build-asan    trial hostile build-asan 4 120
stage import              wait    -wl  build-release tests/import/run.py
stage real                wait    -wl  build-release tests/real/run.sh
stage documents           wait    -wl  build-release python3 tests/documents/run.py # after real, which fetches the model that pages use
stage browser             wait    -wl  build-release tests/browser/run.py --binary build/tensord --pictures build/browser
stage systemd             wait    -wl  build-release tests/deploy/systemd.sh build/tensord
stage prometheus          wait    -wl  build-release tests/deploy/prometheus.py build/tensord
stage container           wait    -wl  build-release tests/deploy/container.sh
stage package             wait    --l  -             tests/deploy/package.sh
stage wheel               compute --l  -             tests/deploy/wheel.sh
stage proxies             wait    -wl  build-release python3 tests/deploy/proxies.py --binary build/tensord
stage cluster             wait    -wl  build-release python3 tests/deploy/cluster.py
stage kubernetes          wait    -wl  build-release python3 tests/deploy/kubernetes.py --binary build/tensord
stage mlserver            wait    --l  build-release python3 tests/oip/mlserver_client.py --binary build/tensord
stage kserve              wait    --l  build-release python3 tests/deploy/inference_service.py --binary build/tensord

list() {
    local name letter row
    printf '%-22s %-6s %-6s %-6s %s\n' stage quick whole long needs
    for name in "${names[@]}"; do
        row=$(printf '%-22s' "$name")
        for letter in q w l; do
            row+=$(printf ' %-6s' "$([[ ${sets[$name]} == *$letter* ]] && echo x || echo -)")
        done
        echo "$row ${needs[$name]}"
    done
}

# ---------------------------------------------------------------- what was asked for
want() {
    local need
    state[$1]=waiting
    for need in ${needs[$1]}; do want "$need"; done
}

want_set() {
    local name
    for name in "${names[@]}"; do [[ ${sets[$name]} != *$1* ]] || want "$name"; done
}

want_word() {
    local name found=no
    for name in "${names[@]}"; do
        [[ $name == *"$1"* ]] || continue
        want "$name"
        found=yes
    done
    [ $found = yes ] || { echo "run.sh: no stage has \"$1\" in its name: tests/run.sh --list shows them" >&2; exit 2; }
}

for word in "${@:-whole}"; do
    case $word in
    quick) want_set q ;;
    whole) want_set w ;;
    long) want_set l ;;
    --list) list; exit ;;
    -h | --help) sed -n '3,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; exit ;;
    -*) echo "run.sh: unknown option $word (see --help)" >&2; exit 2 ;;
    *) want_word "$word" ;;
    esac
done

# ---------------------------------------------------------------- what is printed
count() { # count STATE...: the stages in one of these states
    local name n=0
    for name in "${names[@]}"; do [[ " $* " != *" ${state[$name]} "* ]] || n=$((n + 1)); done
    echo $n
}

# On a terminal the last line shows what is running and what is left; elsewhere a line when a stage starts.
clear_progress() { [ ! -t 1 ] || printf '\r\033[K'; }

show_progress() {
    local name running='' line
    [ -t 1 ] || return 0
    for name in "${names[@]}"; do
        [ "${state[$name]}" != running ] || running+="${running:+, }$name $((SECONDS - begun[$name])) s"
    done
    line="${running:-nothing} running, $(count waiting) left, $(count failed not_run) failed"
    printf '\r\033[K%s' "${line:0:$(($(tput cols 2>/dev/null || echo 80) - 1))}"
}

# The line of a log that counts its tests, where it has one.
summary() { grep -E 'tests passed|[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1 || true; }

# report NAME STATUS: the line of a stage that has ended. What a passed stage left out is listed below it.
report() {
    local name=$1 status=$2 log=$LOGS/$1.log seconds=$((SECONDS - begun[$1])) reason
    clear_progress
    case $status in
    0)
        state[$name]=ok
        printf '%-22s ok       %3d s  %s\n' "$name" $seconds "$(summary "$log")"
        sed -n 's/^SKIP /    skipped: /p' "$log"
        ;;
    77)
        state[$name]=skipped
        reason=$(grep '^skipped' "$log" | tail -n 1 || true)
        printf '%-22s %s\n' "$name" "${reason:-skipped: no reason given}"
        ;;
    *)
        state[$name]=failed
        printf '%-22s FAILED   %3d s  exit %d; the end of %s:\n' "$name" $seconds "$status" "$log"
        tail -n 40 "$log" | sed 's/^/    /'
        if may_depend_on_load "$name"; then
            state[$name]=again
            mv "$log" "$LOGS/$name.first.log"
            printf '%-22s runs again at the end; this log is now %s\n' "$name" "$LOGS/$name.first.log"
        fi
        ;;
    esac
}

# A failure that a second run may tell from one of the machine's load. Once only.
may_depend_on_load() {
    [[ $1 != build-* && ! -e $LOGS/$1.first.log ]] &&
        ! grep -qE 'Sanitizer: |: runtime error: |SEGFAULT|[Aa]borted|Received signal|status -[0-9]|ha[ds] ended' "$LOGS/$1.log"
}

# ---------------------------------------------------------------- running
# A stage has a process group of its own, so that all its processes can be ended at once.
start() {
    local name=$1
    state[$name]=running begun[$name]=$SECONDS
    [ -t 1 ] || printf '%-22s started, %d left\n' "$name" "$(count waiting)"
    set -m
    (eval "${command[$name]}") >"$LOGS/$name.log" 2>&1 </dev/null &
    pid[$name]=$!
    set +m
}

signal_group() { kill "-$1" -- "-${pid[$2]}" 2>/dev/null || true; }

# start_next LANE: starts the first stage of a free lane whose needs are ready, if there is one.
start_next() {
    local name need ready
    for name in "${names[@]}"; do
        [ "${lane[$name]} ${state[$name]}" != "$1 running" ] || return 0
    done
    for name in "${names[@]}"; do
        [ "${lane[$name]} ${state[$name]}" = "$1 waiting" ] || continue
        ready=yes
        for need in ${needs[$name]}; do
            case ${state[$need]} in
            ok) ;;
            waiting | running) ready=no ;;
            *)
                ready=no state[$name]=not_run
                clear_progress
                printf '%-22s not run: %s failed\n' "$name" "$need"
                ;;
            esac
        done
        if [ $ready = yes ]; then
            start "$name"
            return
        fi
    done
}

# start_again: starts one of the stages that failed, once nothing else runs.
start_again() {
    local name
    for name in "${names[@]}"; do
        [ "${state[$name]}" = again ] || continue
        start "$name"
        return
    done
}

# Reports the stages that have ended. By looking at each: `wait -n` misses one that ends while another is reported.
reap() {
    local name status
    for name in "${names[@]}"; do
        [ "${state[$name]}" = running ] || continue
        ! kill -0 "${pid[$name]}" 2>/dev/null || continue
        status=0
        wait "${pid[$name]}" || status=$?
        signal_group KILL "$name" # what it left behind
        report "$name" "$status"
    done
}

report_second_runs() {
    local name
    for name in "${names[@]}"; do
        [[ ${state[$name]} = ok && -e $LOGS/$name.first.log ]] || continue
        printf '%-22s passed only in its second run, alone; the log of the first is %s\n' "$name" "$LOGS/$name.first.log"
    done
}

# However this script ends, its stages end before it.
end() {
    local status=$? name running=()
    trap '' INT TERM HUP
    for name in "${names[@]}"; do [ "${state[$name]}" != running ] || running+=("$name"); done
    clear_progress
    if [ ${#running[@]} -gt 0 ]; then
        for name in "${running[@]}"; do signal_group TERM "$name"; done
        sleep 2
        for name in "${running[@]}"; do
            signal_group KILL "$name"
            printf '%-22s interrupted; its log is %s\n' "$name" "$LOGS/$name.log"
        done
    fi
    printf '\n%d passed, %d failed, %d skipped' "$(count ok)" "$(count failed not_run again)" "$(count skipped)"
    [ "$status" -lt 128 ] || printf ', interrupted: %d not finished' "$(count running waiting)"
    printf '\n'
}

# In braces, so that bash has read this file to its end before it runs: the file may change meanwhile.
{
    mkdir -p "$LOGS"
    rm -f "$LOGS"/*.first.log
    if ! deploy/dependencies.sh --test >"$LOGS/dependencies.log" 2>&1; then
        tail -n 20 "$LOGS/dependencies.log"
        echo "the dependencies could not be installed: see $LOGS/dependencies.log"
        exit 1
    fi
    if command -v ccache >/dev/null; then
        export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    fi

    trap end EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    while :; do
        start_next compute
        start_next wait
        [ "$(count running)" -gt 0 ] || start_again
        [ "$(count running)" -gt 0 ] || break
        show_progress
        sleep 0.3
        reap
    done
    report_second_runs
    [ "$(count failed not_run)" -eq 0 ] && [ "$(count ok)" -gt 0 ]
    exit
}
