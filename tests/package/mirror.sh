#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# simulated/guest/mirror on machines whose apt has other sources: in each format, and with what it cannot use.
. "$(dirname "$0")/cases.sh"
command -v apt-get >/dev/null || { skip mirror "apt-get is not installed" && finish; }
unset HMREG_DEBIAN_MIRROR

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
echo "Dir \"$root\";" >"$root/apt.conf"
export APT_CONFIG=$root/apt.conf

# gives "URI SUITE..." FILE...: with these files (NAME=TEXT) in /etc/apt, the mirrors of trixie, or $suite.
gives() {
    local expected=$1 output file
    shift
    rm -rf "$root/etc" && mkdir -p "$root"/etc/apt/{apt.conf,preferences,sources.list}.d
    for file; do
        printf '%b' "${file#*=}" >"$root/etc/apt/${file%%=*}"
    done
    output=$("$SOURCE_DIR/simulated/guest/mirror" "${suite:-trixie}" 2>&1)
    echo "$output"
    [[ $output == "$expected" ]]
}

three='deb http://a/main trixie main
deb http://a/main trixie-updates main
deb https://s/security trixie-security main'
lines='# deb http://comment/main bookworm main\n'
lines+='deb [arch=amd64 signed-by=/other.gpg] http://other/main bookworm main\n'
lines+='deb-src http://source/main bookworm-updates main\n'
lines+='deb cdrom:[Debian 12]/ bookworm main\n'
lines+='deb [trusted=yes] http://a/main/ bookworm main non-free # comment\n'
lines+='deb http://a/main/ bookworm-updates main\ndeb https://s/security bookworm-security main\n'
check mirror__lines gives "$three" "sources.list=$lines"
suite=sid check mirror__unstable__no_updates gives 'deb http://a/main sid main' "sources.list=$lines"

stanza='Types: deb\nComponents: main\n'
stanzas="Enabled: no\nURIs: http://disabled/main\nSuites: bookworm bookworm-updates\n$stanza\n"
stanzas+="# a comment\nURIs: http://a/main http://second/main\nSuites: bookworm bookworm-updates\n$stanza"
stanzas+="Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
stanzas+="URIs: https://s/security\nSuites: bookworm-security\n$stanza"
check mirror__stanzas gives "$three" "sources.list.d/debian.sources=$stanzas" \
    "sources.list.d/a.sources.off=URIs: http://off/main\nSuites: bookworm-updates\n$stanza"

check mirror__file_of_mirrors gives "${three%$'\n'*}" \
    "sources.list=deb mirror+file:$root/etc/apt/mirrors bookworm-updates main\n" \
    'mirrors=# mirrors\nhttp://a/main\tpriority:1\nhttp://b/main\n'
check mirror__no_updates gives "${three%%$'\n'*}" \
    'sources.list=deb http://other/main sid stable\ndeb http://a/main sid main\n'

none="mirror: apt's sources name no mirror of Debian by http; set HMREG_DEBIAN_MIRROR=URI"
check mirror__none__error gives "$none" \
    'sources.list=deb http://ubuntu/ubuntu jammy-updates main\ndeb file:/a bookworm main\n'
HMREG_DEBIAN_MIRROR='http://a/main https://s/security' check mirror__variable gives "$three"
finish
