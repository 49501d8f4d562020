#!/usr/bin/env bash
# shellcheck disable=SC2317 # functions that run through eval and trap
# run.sh - runs the tests of tensord. The machine does not need anything installed.
#
#   tests/run.sh                the set `whole`, which every change must pass
#   tests/run.sh quick          while you work: release build, unit tests, a few HTTP tests
#   tests/run.sh long           the set `whole`, and stages that take too long for it
#   tests/run.sh unit http      the stages whose names contain one of these words, and the builds that they need
#   tests/run.sh --list         lists all stages, the sets they belong to, and what they need
#   tests/run.sh --times        shows the times of the last run's stages and its slowest tests
#
# Each stage prints one line when it ends: ok, FAILED (with the end of its log), skipped (with the reason), or not run. A stage is not
# run if its build failed; this counts as a failure. The last line shows the totals. The exit status is 0 only if at least one stage
# passed and none failed. Logs are in build/test-logs/. The script works as root and with sudo. A second run rebuilds only what has
# changed. The script uses ccache if it is installed.
#
# Tests do not depend on the speed or the load of the machine. A failing stage has found a fault, so the script does not repeat it.
#
# Stages run in parallel, one more than there are processors. At the end, the script names each stage that took at least 50 % longer
# than its budget in CONTRIBUTING.md.
#
# Stages only in `long`:
#   valgrind          runs the same cases as AddressSanitizer and finds the same faults, but takes several times as long.
#   tidy-analyzer     clang-tidy with clang's analyzer, which takes four times as long as the other checks.
#   unit-tsan-others  unit tests of single ops, which take minutes with ThreadSanitizer.
#   http-tsan-topics  HTTP topics that use the same threads as http-tsan.
#   unit-effort       unit tests of kernels and formats with ten times as many random cases.
#   trial-*-long      many rounds of tests/trials instead of a few.
#   mlserver, kserve, feast  need packages of hundreds of megabytes.
#   package           builds the Debian package, installs it in a minimal system and boots it; needs root and debootstrap.
#   wheel             compiles everything twice, the second time without ccache.
#   profiled-build    compiles everything twice, optimised across source files.
#   profiled-image    builds the image with the default of the Dockerfile, deploy/profiled_build.sh.
#   fuzz              3 minutes for each target of tests/fuzz, after a build with clang. In `whole`, unit tests run the seeds.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LOGS=build/test-logs
JOBS=$(nproc)
readonly JOBS

# A sanitizer that finds a fault ends the process with its own exit status, so the tests notice.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
# By default, a process that ends while it has threads waits a second for races between them.
export TSAN_OPTIONS=halt_on_error=1:exitcode=98:atexit_sleep_ms=100

# ---------------------------------------------------------------- the stages' commands
# Exit status 77 means skipped. The last line that starts with "skipped" gives the reason.

# Builds without the CUDA plugin, which has its own stage.
build() {
    cmake --preset "$1" -DTD_WERROR=ON -DTD_GPU=OFF && cmake --build --preset "$1" -j "$JOBS"
}

# ctest does not print why a test was skipped, so this function does.
unit() {
    local status=0
    ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$JOBS" "${@:2}" || status=$?
    sed -n 's/^skipped: /SKIP unit test: /p' "$1/Testing/Temporary/LastTest.log"
    return "$status"
}

# Runs ten times as many random cases as usual.
unit_effort() { TD_TEST_EFFORT=10 unit "$@"; }

# unit_tsan -E: tests that start threads, except those of single ops, whose threads run the same loops as kernels/random.
# unit_tsan -R: the tests of single ops.
unit_tsan() {
    unit build-tsan -L threads "$1" '^kernels/.*(dynamic_partition|dynamic_stitch|embedding_bag|permute|scatter|statistics|sumprod|top_k)$'
}

layering() {
    tests/check_layering.sh && tests/check_references.sh && tests/check_sleeps.sh && tests/check_excerpts.py && tests/check_links.py && tests/check_architecture.py &&
        tests/check_events.py
}

format_check() {
    git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' '*.inc' | xargs clang-format --dry-run -Werror
    if git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' '*.inc' '*.cu' '*.cuh' | LC_ALL=C.UTF-8 xargs grep -nE '^.{101}'; then
        echo "these lines are longer than 100 columns; clang-format does not wrap comments"
        return 1
    fi
    echo "the format matches .clang-format"
}

# tidy: all checks except the analyzer, which follows paths through functions and takes most of the time. Runs clang-tidy on the
# sources except tests and client examples, which only need to compile without warnings. It also skips two kinds of files: the loops
# that are built once for each instruction set, because they consist of GCC's vectors, and the CUDA plugin, which clang-tidy's build
# does not include.
tidy() {
    git ls-files -co --exclude-standard 'kernels/*.c' 'api/*.c' 'server/*.c' 'gpu/*.c' 'api/*.cc' ':!api/clients/*' \
        ':!gpu/cuda/*' |
        grep -vE '_(generic|avx[0-9a-z_]*)\.c$' |
        xargs -P "$JOBS" -n 1 clang-tidy -p build --quiet "$@" 2> >(grep -v 'warnings\? generated\.$' >&2)
}

# BUILD OPTION...
http() { python3 tests/http/run.py --binary "$1/tensord" "${@:2}"; }
oip() { python3 tests/oip/run.py --binary "$1/tensord"; }
conformance() { python3 tests/conformance/test_all.py --binary "$1/tensord" "${@:2}"; }
clients() { python3 tests/clients/run.py "$1"; }
quickstart() { deploy/quickstart.sh --once --port "$(PYTHONPATH=tests/http python3 -B -c 'import daemon; print(daemon.free_ports(1)[0])')"; }
profiled_build() { deploy/profiled_build.sh -DTD_GPU=OFF && conformance build-profiled && http build-profiled --only test_ops --only test_errors; }
trial() { python3 "tests/trials/$1.py" --binary "$2/tensord" --rounds "$3"; } # NAME BUILD ROUNDS

# The CUDA plugin: tests that it exports one function, that it loads no CUDA library at start, and that it says what is missing if
# there is no GPU. With a GPU, also tests the device contract. Before that, tests the messages of the build option TD_GPU. To save
# time, builds for one architecture (9.0), and host code with -O1: with -O3, the loops of kernels/ take as long to compile as the
# CUDA kernels, which the option does not affect.
gpu_plugin() {
    local plugin=$PWD/build-plugin/tensord-gpu-cuda.so exported needed status=0
    tests/gpu/test_build_option.sh || return 1
    if ! command -v nvcc && ! [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
        echo "skipped: no nvcc"
        return 77
    fi
    cmake -S . -B build-plugin -DTD_ONLY=gpu -DTD_WERROR=ON -DTD_CUDA_ARCHITECTURES=90 -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_FLAGS_DEBUG=-O1 &&
        cmake --build build-plugin -j "$JOBS" --target tensord-gpu-cuda test_cuda_plugin test_device_contract bench_gpu ||
        return 1
    exported=$(nm -D --defined-only "$plugin" | awk '{ print $NF }')
    needed=$(readelf -d "$plugin" | grep -E 'NEEDED.*(cuda|cublas|nv)' || true)
    if [ "$exported" != td_device_plugin ] || [ -n "$needed" ]; then
        printf 'exported: %s\nneeded: %s\n' "$exported" "$needed"
        return 1
    fi
    tests/gpu/test_plugin_code.py "$plugin" 90 90 && build-plugin/tests/gpu/test_cuda_plugin || return 1
    TD_TEST_DEVICE=$plugin build-plugin/tests/gpu/test_device_contract | sed 's/^skipped/SKIP contract on a GPU/' || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

# Tests the same sources on an emulation of CUDA on the host, from a request to its reply.
gpu_emulation() {
    if ctest --test-dir build -N -R '^gpu/emulation$' | grep -q 'Total Tests: 1'; then
        ctest --test-dir build -R '^gpu/emulation$' -V | sed -n 's/^[0-9]*: \(skipped\)/\1/p'
        return 77
    fi
    unit build -R '^gpu/emulation/' &&
        conformance build --gpu "$PWD/build/tests/gpu/emulation/tensord-gpu-emulated.so"
}

# ---------------------------------------------------------------- the table of stages
names=()
declare -A sets needs command state pid begun gone took used budget

# stage NAME SETS NEEDS COMMAND...
stage() {
    names+=("$1")
    sets[$1]=$2 needs[$1]=${3#-} state[$1]=unwanted
    command[$1]=$(printf '%q ' "${@:4}")
}

# The sets: q quick, w whole, l long. Stages whose needs are ready start in this order. Most long stages come first, so none of them
# runs alone at the end.
#     name                sets needs         command
stage build-release       qwl  -             build release
stage layering            -wl  -             layering
stage format              -wl  -             format_check
stage unit-release        qwl  build-release unit build -E '^gpu/emulation/' # gpu/emulation has its own stage
stage build-asan          -wl  -             build asan
stage build-tsan          -wl  -             build tsan
stage unit-asan           -wl  build-asan    unit build-asan
stage unit-tsan           -wl  build-tsan    unit_tsan -E
stage build-benchmarks    -wl  build-release cmake --build build -j "$JOBS" --target benchmarks
stage tidy                -w-  build-release tidy --checks=-clang-analyzer-*
stage tidy-analyzer       --l  build-release tidy
stage gpu-plugin          -wl  -             gpu_plugin
stage gpu-emulation       -wl  build-release gpu_emulation
stage gpu-loan            -wl  build-release tests/gpu/test_prebuilt.sh build
stage browser             -wl  build-release tests/browser/run.py --binary build/tensord --pictures build/browser
stage documents           -wl  build-release python3 tests/documents/run.py
stage unit-effort         --l  build-release unit_effort build -R '^(api|kernels)/'
stage unit-tsan-others    --l  build-tsan    unit_tsan -R
stage fuzz                --l  -             tests/fuzz/run.sh all 180
stage http-tls            --l  build-release env TD_TEST_TLS=1 tests/http/run.py --binary build/tensord --only test_ops \
    --only test_einsum --only test_binary --only test_tensors --only test_scatter --only test_oip --only test_devices --only test_targets --only test_addresses
stage valgrind            --l  build-release tests/http/valgrind.sh build/tensord
stage http-smoke          q--  build-release http build --only test_ops --only test_errors --only test_tensors \
    --only test_binary --only test_einsum
stage conformance-release qwl  build-release conformance build
stage conformance-onnx    -wl  build-release python3 tests/conformance/onnx_nodes.py --binary build/tensord
stage http-release        -wl  build-release http build
stage oip                 -wl  build-release oip build
for client in curl python triton node go c; do
    stage clients-$client -wl  build-release clients $client
done
stage python-package      -wl  build-release python3 tests/clients/python/run.py
stage programs            -wl  build-release python3 tests/programs/run.py
stage progress            qwl  -             tests/deploy/progress.sh
stage dependencies        -wl  -             tests/deploy/dependencies.sh
stage install             -wl  build-release tests/deploy/install.sh
stage sbom                -wl  build-release tests/deploy/sbom.sh
stage quickstart          -wl  build-release quickstart
stage openapi             -wl  build-release tests/openapi/run.py
stage perf-analyzer       -wl  build-release python3 tests/oip/perf_analyzer.py --binary build/tensord
stage http-asan           -wl  build-asan    http build-asan
stage oip-asan            -wl  build-asan    oip build-asan
stage http-tsan           -wl  build-tsan    http build-tsan --only test_concurrency --only test_overload \
    --only test_devices --only test_lifecycle
stage http-tsan-topics    --l  build-tsan    http build-tsan --only test_clients --only test_oip_memory \
    --only test_tensors --only test_scatter --only test_store_option --only test_traces
for trial in crash:20:500 faults:2:40 hostile:1:30 restart:8:200 replicas:1:15 soak:1:20; do # NAME:ROUNDS:ROUNDS in the set long
    IFS=: read -r trial rounds many <<<"$trial"
    stage trial-$trial      -w-  build-release trial "$trial" build "$rounds"
    stage trial-$trial-long --l  build-release trial "$trial" build "$many"
done
stage trial-versions-long --l  build-release trial versions build 400
stage trial-random        -w-  build-asan    trial random_requests build-asan 1000
stage trial-random-long   --l  build-asan    trial random_requests build-asan 30000
stage trial-programs      -w-  build-asan    trial random_programs build-asan 2000
stage trial-programs-long --l  build-asan    trial random_programs build-asan 100000
stage trial-hostile-asan  --l  build-asan    trial hostile build-asan 10
stage import              -wl  build-release tests/import/run.py
stage real                -wl  build-release tests/real/run.sh
stage systemd             -wl  build-release tests/deploy/systemd.sh build/tensord
stage prometheus          -wl  build-release tests/deploy/prometheus.py build/tensord
stage container           -wl  build-release tests/deploy/container.sh
stage package             --l  -             tests/deploy/package.sh
stage wheel               --l  build-release tests/deploy/wheel.sh
stage profiled-build      --l  -             profiled_build
stage profiled-image      --l  -             tests/deploy/container.sh yes
stage proxies             -wl  build-release python3 tests/deploy/proxies.py --binary build/tensord
stage cluster             -wl  build-release python3 tests/deploy/cluster.py
stage kubernetes          -wl  build-release python3 tests/deploy/kubernetes.py --binary build/tensord
stage compose             -wl  build-release python3 tests/deploy/compose.py --binary build/tensord
stage mlserver            --l  build-release python3 tests/oip/mlserver_client.py --binary build/tensord
stage kserve              --l  build-release python3 tests/deploy/inference_service.py --binary build/tensord
stage feast               --l  build-release python3 tests/clients/feast/run.py

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

# ---------------------------------------------------------------- times
# Prints the times written by the last run: the stages with their budgets and processor times, and the ten slowest tests.
times() { cat "$LOGS/times" 2>/dev/null || { echo "run.sh: there are no times yet, because no run has finished" >&2; exit 1; }; }

# Reads the table "stage | seconds" of CONTRIBUTING.md.
read_budgets() {
    local name seconds
    while read -r name seconds; do budget[$name]=$seconds; done < <(
        sed -n '/^| stage | seconds |$/,/^$/s/^| `\([a-z-]*\)` | \([0-9]*\) |$/\1 \2/p' CONTRIBUTING.md)
}

# Prints tests with their times, from the lines of ctest and from lines "TIME seconds name".
slowest_tests() {
    local name
    for name in "${names[@]}"; do
        [ -n "${took[$name]:-}" ] && [ -e "$LOGS/$name.log" ] || continue
        sed -nE -e 's/^TIME ([0-9.]+) (.*)/\1 \2/p' -e 's/^.*Test +#[0-9]+: (\S+) \.+ +Passed +([0-9.]+) sec.*/\2 \1/p' "$LOGS/$name.log" |
            sed "s/\$/ ($name)/"
    done | sort -rn | sed -n 1,10p # head would end sort with a signal
}

write_times() {
    local name
    {
        printf '%-22s %8s %8s %8s\n' stage seconds budget processor
        for name in "${names[@]}"; do
            [ -z "${took[$name]:-}" ] || printf '%-22s %8d %8s %8d\n' "$name" "${took[$name]}" "${budget[$name]:--}" "${used[$name]}"
        done | sort -k 2 -rn
        printf '\nslowest tests, seconds\n'
        slowest_tests | awk '{ printf "%8.1f  ", $1; $1 = ""; print substr($0, 2) }'
    } >"$LOGS/times"
}

report_over_budget() {
    local name
    for name in "${names[@]}"; do
        [ "${took[$name]:-0}" -gt $((${budget[$name]:-100000} * 3 / 2)) ] || continue
        printf '%-22s took %d s; its budget in CONTRIBUTING.md is %d s\n' "$name" "${took[$name]}" "${budget[$name]}"
    done
}

# ---------------------------------------------------------------- selection
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
    [ $found = yes ] || { echo "run.sh: no stage has \"$1\" in its name; tests/run.sh --list shows the names" >&2; exit 2; }
}

for word in "${@:-whole}"; do
    case $word in
    quick) want_set q ;;
    whole) want_set w ;;
    long) want_set l ;;
    --list) list; exit ;;
    --times) times; exit ;;
    -h | --help) sed -n '3,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; exit ;;
    -*) echo "run.sh: unknown option $word (see --help)" >&2; exit 2 ;;
    *) want_word "$word" ;;
    esac
done

# ---------------------------------------------------------------- output
count() { # count STATE...: prints the number of stages in one of these states
    local name n=0
    for name in "${names[@]}"; do [[ " $* " != *" ${state[$name]} "* ]] || n=$((n + 1)); done
    echo $n
}

# On a terminal, the last line shows which stages are running and how many are left. Otherwise, each stage prints a line at its start.
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

# Prints the line of a log that counts its tests, if it has one.
summary() { grep -E 'tests passed|[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1 || true; }

# report NAME STATUS: prints the line of a stage that has ended, and below it the tests that a passed stage skipped.
report() {
    local name=$1 status=$2 log=$LOGS/$1.log seconds=$((SECONDS - begun[$1])) reason
    took[$name]=$seconds
    clear_progress
    [ -r "$log" ] || log=/dev/null # the log was removed or could not be written
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
        ;;
    esac
}

# ---------------------------------------------------------------- running
# tell NAME STATUS: reports the end of a stage, with the processor time in seconds that its ended processes used, including time in
# the kernel. In a pipe, `times` would measure another shell without children.
tell() {
    local line user system
    builtin times >"$LOGS/$1.used"
    { read -r line && read -r user system; } <"$LOGS/$1.used"
    rm "$LOGS/$1.used"
    user=${user%[.,]*} system=${system%[.,]*} # the locale decides which of the two bash prints
    echo "$1 $2 $((${user%m*} * 60 + ${user#*m} + ${system%m*} * 60 + ${system#*m}))" >&"$ended"
}

# Runs a stage in its own process group, so all its processes can be ended at once. When the stage ends, it writes a line into the
# pipe `ended`.
start() {
    local name=$1
    state[$name]=running begun[$name]=$SECONDS gone[$name]=
    [ -t 1 ] || printf '%-22s started, %d left\n' "$name" "$(count waiting)"
    set -m
    {
        set +e
        (
            set -e
            eval "${command[$name]}"
        ) >"$LOGS/$name.log" 2>&1 </dev/null
        tell "$name" $?
    } &
    pid[$name]=$!
    set +m
}

signal_group() { kill "-$1" -- "-${pid[$2]}" 2>/dev/null || true; }

# Starts the stages whose needs are ready, in their order, while there is room.
start_ready() {
    local name need ready
    for name in "${names[@]}"; do
        [ "${state[$name]}" = waiting ] || continue
        [ "$(count running)" -lt $((JOBS + 1)) ] || return 0
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
        [ $ready = no ] || start "$name"
    done
}

finish() { # finish NAME STATUS PROCESSOR_SECONDS
    used[$1]=$3
    wait "${pid[$1]}" || true
    signal_group KILL "$1" # end the processes it left behind
    report "$1" "$2"
}

# Writes an empty line into the pipe each second. `read -t` does not work here, because bash loses the part of a line that it has read
# when the time runs out.
tick() {
    while sleep 1 && kill -0 $$ 2>/dev/null; do echo >&"$ended"; done
}

# Reports the next stage that ends, or returns after a tick to update the progress line. A killed stage writes no line. Such a stage
# was already gone at the previous tick, because otherwise its line would have arrived between the two ticks.
reap() {
    local name status seconds
    read -r name status seconds <&"$ended"
    if [ -n "$name" ]; then
        finish "$name" "$status" "$seconds"
        return
    fi
    for name in "${names[@]}"; do
        [ "${state[$name]}" = running ] || continue
        if [ -n "${gone[$name]:-}" ]; then
            finish "$name" 137 0
        elif ! kill -0 "${pid[$name]}" 2>/dev/null; then
            gone[$name]=yes
        fi
    done
}

# Ends the stages before this script ends, for whatever reason it ends.
end() {
    local status=$? name running=() line
    trap '' INT TERM HUP
    set +e # nothing in this function changes the exit status
    for name in "${names[@]}"; do [ "${state[$name]}" != running ] || running+=("$name"); done
    clear_progress
    if [ ${#running[@]} -gt 0 ]; then
        for name in "${running[@]}"; do signal_group TERM "$name"; done
        for _ in 1 2 3; do read -r -t 2 line <&"$ended" || break; done # gives the stages a few seconds to clean up
        for name in "${running[@]}"; do
            signal_group KILL "$name"
            printf '%-22s interrupted; its log is %s\n' "$name" "$LOGS/$name.log"
        done
    fi
    kill "$ticker" 2>/dev/null
    write_times
    [ "$status" -ge 128 ] || { echo; times; }
    report_over_budget
    printf '\n%d passed, %d failed, %d skipped' "$(count ok)" "$(count failed not_run)" "$(count skipped)"
    [ "$status" -lt 128 ] || printf ', interrupted: %d not finished' "$(count running waiting)"
    printf '\n'
}

# The braces make bash read the whole file before it runs it, because the file may change during the run.
{
    mkdir -p "$LOGS"
    if ! deploy/dependencies.sh --test >"$LOGS/dependencies.log" 2>&1; then
        tail -n 20 "$LOGS/dependencies.log"
        echo "the dependencies could not be installed; see $LOGS/dependencies.log"
        exit 1
    fi
    if command -v ccache >/dev/null; then
        export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    fi
    read_budgets
    rm -f "$LOGS/ended"
    mkfifo "$LOGS/ended"
    exec {ended}<>"$LOGS/ended"
    tick &
    ticker=$!

    trap end EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    while :; do
        start_ready
        [ "$(count running)" -gt 0 ] || break
        show_progress
        reap
    done
    [ "$(count failed not_run)" -eq 0 ] && [ "$(count ok)" -gt 0 ]
    exit
}
