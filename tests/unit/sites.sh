#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# sites.sh PROGRAM: the dynamic linker is hooked, too, where it is the command that starts the program.
. "$(dirname "$0")/../package/cases.sh"
program=$1
linker=$(readelf -l "$program" | sed -n 's/.*program interpreter: \(.*\)]/\1/p')

has_as_many() {
    local plain by_linker
    plain=$("$program") || { echo "$plain"; return 1; }
    by_linker=$("$linker" "$program")
    echo "$plain sites, and $by_linker"
    [[ $plain == "$by_linker" ]]
}

check sites__program_started_by_the_linker__as_many has_as_many
finish
