# eventually.sh - shared by tests in shell: waits for a state that no event announces. Sourced, not run; for any sh.
# shellcheck shell=sh

# eventually COMMAND...: repeats the command until it succeeds. Fails after so many tries that it hangs: that is the only limit.
eventually() {
    tries_left=6000
    until "$@"; do
        tries_left=$((tries_left - 1))
        [ "$tries_left" -gt 0 ] || return 1
        sleep 0.02
    done
}
