#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# hmreg doctor asked on many machines, and its metrics as node_exporter's textfile collector scrapes them:
# fleet.sh HMREG.
. "$(dirname "$0")/cases.sh"
hmreg=$1
export HMREG_IFACES=system FI_PROVIDER=shm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fifty_lines() {
    local i lines
    for ((i = 1; i <= 50; i++)); do
        unshare --net --uts sh -c 'hostname node'$i' && exec "$0" doctor --brief --no-proof' "$hmreg"
        (($? == 2)) || return 1 # no GPU, no NIC
    done >"$work/lines"
    lines=$(sort -u "$work/lines" | wc -l)
    cat "$work/lines"
    ((lines == 50)) && (($(awk 'length > 240' "$work/lines" | wc -l) == 0)) &&
        grep -q '^node37 BROKEN no-' "$work/lines"
}

scraped() {
    local exporter port=$((20000 + $$ % 10000)) text=
    "$hmreg" doctor --no-proof --openmetrics >"$work/doctor.prom"
    prometheus-node-exporter --collector.disable-defaults --collector.textfile \
        --collector.textfile.directory="$work" --web.listen-address=127.0.0.1:$port >"$work/log" 2>&1 &
    exporter=$!
    until tcp_is_listening $port || ! kill -0 $exporter; do read -rt 0.1 <> <(:); done
    text=$(python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' \
        "http://127.0.0.1:$port/metrics")
    kill $exporter
    wait $exporter
    cat "$work/log"
    grep -E 'hmreg|textfile' <<<"$text"
    grep -qx 'hmreg_doctor_verdict 2' <<<"$text" && grep -qx 'node_textfile_scrape_error 0' <<<"$text"
}

if unshare --net --uts true 2>/dev/null; then
    check fleet__fifty_hosts__a_line_each fifty_lines
else
    skip fleet__fifty_hosts__a_line_each "this user may make no network namespace"
fi
if command -v prometheus-node-exporter >/dev/null && command -v python3 >/dev/null; then
    check fleet__metrics__scraped_by_node_exporter scraped
else
    skip fleet__metrics__scraped_by_node_exporter "prometheus-node-exporter or python3 is not installed"
fi
finish
