# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# For libfabric.sh and verbs.sh, in bash.

# LINE... -- COMMAND...: it succeeds, and prints each line.
prints() {
    local lines=() output line
    while [[ $1 != -- ]]; do
        lines+=("$1")
        shift
    done
    shift
    output=$("$@" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    for line in "${lines[@]}"; do
        grep -qxF -- "$line" <<<"$output" || { echo "no line: $line"; return 1; }
    done
}
