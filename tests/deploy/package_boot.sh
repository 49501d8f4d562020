#!/bin/sh
# package_boot.sh - what package.sh runs in a system that systemd has booted, with the package installed and an upgrade in /root.
set -eu
# shellcheck source=tests/support/eventually.sh
. /root/eventually.sh
trap '[ $? -eq 0 ] || { systemctl status --no-pager tensord.service; journalctl -n 20 --no-pager -u tensord; }' EXIT

refuses() { if "$@"; then exit 1; fi; }
ok() { echo "ok: $*"; }
main_pid() { systemctl show -p MainPID --value tensord; }
# Asks until the file /root/enough is there, and keeps the statuses.
ask() { until [ -e /root/enough ]; do curl -s -o /dev/null -w '%{http_code}\n' localhost:8080/healthz >>/root/statuses; done; }
has_asked() { [ "$(wc -l </root/statuses)" -ge "$1" ]; }
has_planets() { curl -sf -o /dev/null localhost:8080/v1/tensors/planets; }

systemctl is-active -q tensord.socket tensord.service
curl -sf -o /dev/null localhost:8080/readyz
ok "the service has started with the system"

test "$(stat -c %U "/proc/$(main_pid)")" = tensord
grep -q '^CapEff:.0000000000000000$' "/proc/$(main_pid)/status"
grep -q '^Seccomp:.2$' "/proc/$(main_pid)/status"
ok "it runs as its user, without rights, with a filter of system calls"

cp /usr/share/doc/tensord/examples/planets.npy /var/lib/tensord/
systemctl reload tensord
eventually has_planets
ok "a reload adds a table"

curl -sf -o /dev/null -X PUT 'localhost:8080/v1/tensors/kept?persist=1' -d '[1,2]'
before=$(main_pid)
: >/root/statuses
ask &
eventually has_asked 50
systemctl restart tensord
eventually has_asked 300
touch /root/enough
wait $!
test "$(sort -u /root/statuses)" = 200 || { sort /root/statuses | uniq -c; exit 1; }
test "$(main_pid)" != "$before"
ok "a restart loses no request"

journalctl --no-pager -u tensord | grep -q '"event":"ready"'
ok "the journal has its log"

before=$(main_pid)
dpkg -i /root/0.3.1.deb >/dev/null
systemctl is-active -q tensord.service
test "$(main_pid)" != "$before"
curl -sf localhost:8080/v1/tensors/kept | grep -q '"persisted":true'
ok "an upgrade restarts it, with its tensors"

systemctl disable -q --now tensord.service
dpkg -i /root/0.3.1.deb >/dev/null 2>&1
refuses systemctl is-enabled -q tensord.service
ok "an installation leaves a disabled service disabled"

dpkg --purge tensord >/dev/null 2>&1
refuses systemctl is-active -q tensord.socket
refuses curl -s -o /dev/null localhost:8080/healthz
test -z "$(find / -xdev -name '*tensord*' ! -path '/proc/*')"
ok "a purge stops it and leaves no file"
echo passed
