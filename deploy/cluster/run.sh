#!/usr/bin/env bash
# run.sh - runs three replicas of tensord on this machine, behind HAProxy, with tokens, and scraped by Prometheus.
#
#   deploy/cluster/run.sh [PORT [FOLDER]]
#
# The script runs until Ctrl-C and restarts replicas that end. All ports are on 127.0.0.1:
#   PORT (8080)               HAProxy, with deploy/haproxy/tensord.cfg
#   PORT+1, PORT+2, PORT+3    the replicas, read-only on deploy/sample
#   PORT+4                    metrics of HAProxy
#   PORT+5                    Prometheus, with deploy/prometheus
#   PORT+11 ... PORT+13       metrics of the replicas
# FOLDER (build/cluster) contains the logs, the process ids of the replicas (1.pid, 2.pid, 3.pid) and the file of tokens, which
# is created if it does not exist. Needs build/tensord, and haproxy and prometheus, which deploy/dependencies.sh --test installs.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { printf 'cluster: %s\n' "$*"; }
die() { printf 'cluster: error: %s\n' "$*" >&2; exit 1; }

case ${1:-} in -h | --help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; exit ;; esac
port=${1:-8080} folder=${2:-build/cluster}
if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || ((port > 65000)); then
    die "PORT is '$port': expected 1 to 65000"
fi
PATH=$PATH:/usr/sbin
[ -x build/tensord ] || die "build/tensord does not exist; see README.md"
for program in haproxy prometheus; do
    command -v "$program" >/dev/null || die "$program is not installed; run deploy/dependencies.sh --test"
done

# change FILE FROM TO...: prints the file with replacements. In each line, the first FROM that matches is replaced. Every FROM
# must occur in the file.
change() {
    local file=$1 line number to used=()
    shift
    while IFS= read -r line; do
        for ((number = 1; number < $#; number += 2)); do
            [[ $line == *"${!number}"* ]] || continue
            to=$((number + 1))
            line=${line/"${!number}"/"${!to}"}
            used[number]=yes
            break
        done
        printf '%s\n' "$line"
    done <"$file"
    [ ${#used[@]} -eq $(($# / 2)) ] || die "$file does not contain all of: $*"
}

write_files() {
    local new_token
    mkdir -p "$folder/prometheus"
    if [ ! -e "$folder/tokens" ]; then
        new_token=$(head -c 32 /dev/urandom | base64)
        (umask 027 && printf 'read %s\n' "$new_token" >"$folder/tokens")
    fi
    change deploy/haproxy/tensord.cfg 127.0.0.1:8080 "127.0.0.1:$port" 127.0.0.1:8081 "127.0.0.1:$((port + 1))" \
        127.0.0.1:8082 "127.0.0.1:$((port + 2))" 127.0.0.1:8083 "127.0.0.1:$((port + 3))" \
        127.0.0.1:8404 "127.0.0.1:$((port + 4))" >"$folder/haproxy.cfg"
    change deploy/prometheus/prometheus.yml "scrape_interval: 15s" "scrape_interval: 5s" "- 127.0.0.1:9180" \
        "- 127.0.0.1:$((port + 11))"$'\n'"          - 127.0.0.1:$((port + 12))"$'\n'"          - 127.0.0.1:$((port + 13))" \
        >"$folder/prometheus.yml"
    cp deploy/prometheus/tensord.rules.yml "$folder/"
}

# replica NUMBER: runs a replica, and starts it again whenever it ends.
replica() {
    trap 'kill "$daemon" 2>/dev/null; kill "$daemon" 2>/dev/null; wait "$daemon"; exit' TERM
    while :; do
        build/tensord --listen "127.0.0.1:$((port + $1))" --metrics-listen "127.0.0.1:$((port + 10 + $1))" \
            --data-dir deploy/sample --read-only --token-file "$folder/tokens" --trusted-proxy 127.0.0.1 \
            --drain-delay-ms 5000 2>>"$folder/$1.log" &
        daemon=$!
        echo "$daemon" >"$folder/$1.pid"
        { wait "$daemon" || true; } 2>/dev/null # stderr would show bash's report of a killed daemon
        sleep 1 & wait $! || true
    done
}

end() {
    trap '' INT TERM
    kill "${running[@]}" 2>/dev/null || true
    wait
    say "stopped"
}

write_files
running=()
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for number in 1 2 3; do
    replica "$number" &
    running+=($!)
done
haproxy -db -f "$folder/haproxy.cfg" >>"$folder/haproxy.log" 2>&1 &
running+=($!)
prometheus --config.file="$folder/prometheus.yml" --storage.tsdb.path="$folder/prometheus" \
    --web.listen-address="127.0.0.1:$((port + 5))" >>"$folder/prometheus.log" 2>&1 &
running+=($!)

until curl -sf -o /dev/null "127.0.0.1:$port/readyz" && curl -sf -o /dev/null "127.0.0.1:$((port + 5))/-/ready"; do
    for process in "${running[@]}"; do
        kill -0 "$process" 2>/dev/null || die "a process has ended; see the logs in $folder"
    done
    sleep 0.2 & wait $!
done
say "ready: HAProxy on port $port, Prometheus on port $((port + 5)); the token is in $folder/tokens; Ctrl-C stops all"
wait
