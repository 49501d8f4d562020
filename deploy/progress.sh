# shellcheck shell=bash
# progress.sh - shows the progress of a script's long steps. Other scripts source this file.

# step LOG TITLE COMMAND...: runs the command, appends its output to the file LOG, and returns its exit status.
#
# On a terminal, one line shows the title, the elapsed seconds and, if LOG contains the progress of make or ninja, the
# percentage. When the command ends, the line becomes "TITLE: 12 s". Without a terminal, the function prints "TITLE ..."
# at the start and "TITLE: 12 s" at the end.
step() {
    local log=$1 title=$2 begun=$SECONDS from=0 status=0 ticker='' result=''
    shift 2
    [ ! -f "$log" ] || from=$(wc -c <"$log")
    if [ -t 1 ]; then
        show_step "$log" "$title" "$from" &
        ticker=$!
    else
        printf '%s ...\n' "$title"
    fi
    "$@" >>"$log" 2>&1 || { status=$? && result=' (failed)'; }
    if [ -n "$ticker" ]; then
        kill "$ticker" 2>/dev/null || true
        wait "$ticker" 2>/dev/null || true
        printf '\r\033[K'
    fi
    printf '%s: %d s%s\n' "$title" $((SECONDS - begun)) "$result"
    return "$status"
}

# show_step LOG TITLE FROM: draws the line of a step until this process is killed or the script ends. It reads LOG from byte
# FROM on.
show_step() {
    local log=$1 title=$2 from=$3 begun=$SECONDS width line
    width=$(tput cols 2>/dev/null || echo 80)
    while kill -0 $$ 2>/dev/null; do
        line="$title: $((SECONDS - begun)) s$(percentage "$log" "$from")"
        printf '\r\033[K%s' "${line:0:$((width - 1))}"
        sleep 0.5
    done
}

# percentage LOG FROM: prints ", 42%" if the last progress in LOG after byte FROM is "[ 42%]" or "[42/100]". Without such a
# line, it prints nothing.
percentage() {
    tail -c "+$(($2 + 1))" "$1" 2>/dev/null | tail -n 20 | awk '
        match($0, /^\[ *[0-9]+%\]/) { percent = substr($0, 2) + 0; found = 1 }
        match($0, /^\[[0-9]+\/[0-9]+\]/) {
            split(substr($0, 2, RLENGTH - 2), n, "/")
            percent = int(100 * n[1] / (n[2] > 0 ? n[2] : 1))
            found = 1
        }
        END { if (found) printf ", %d%%", percent }'
}
