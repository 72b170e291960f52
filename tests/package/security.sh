#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# docs/security*.md say what the sources say: each of their numbers is in the table below, beside
# the place in the sources that it comes from, is the version of a kernel or a library, or was measured.
# Each test that they name is run. And the command writes to stderr by print_error() only.
. "$(dirname "$0")/cases.sh"
documents=("$SOURCE_DIR"/docs/security{,-rights,-process,-tools,-files}.md)

# Words of the document | file | what the file has, a regular expression
numbers="
rkey, 32 bits|providers/verbs/verbs.c|\.key_size = sizeof\(uint32_t\),
from 2^31 keys and more|core/context/keys.h|2\^31 keys each can be
thread, 10 ms later at most|core/base/reaper.c|define REST_NS +3000000\$
131,072 descriptors|tools/stats/stats.h|define STATS_ONE_DESCRIPTORS \(1u << 17\)
1,048,576 descriptors|tools/stats/stats.h|define STATS_ALL_DESCRIPTORS \(1u << 20\)
an HMAC-SHA256 of|tools/doctor/peer_secret.c|hmac_sha256
8 have a place|tools/doctor/peer_serve.c|define STRANGERS 8\b
the secret, for 5 s|tools/doctor/peer_serve.c|define PROVES_IN 5000\b
HMAC of 80 bytes|tools/doctor/peer_wire.c|define NAME 16\b
JSON of at most 64 KiB|tools/doctor/peer.h|define WIRE_MOST +65536\b
1,024 pairs|tools/doctor/peer.h|define PEER_PAIRS +1024\b
3 minutes between two|tools/doctor/peer.h|define PEER_IDLE +180\b
the 1st, 2nd, 4th, 8th|tools/doctor/peer_serve.c|server->refused & \(server->refused - 1\)
512 slots|kernel/counter/counter.h|define CHARGE 512\$
16 pages|tools/stats/stats.h|define STATS_ONE_FILES +16\$
1,024 pages|tools/stats/stats.h|define STATS_ALL_FILES +1024\$
1,024 caches|tools/stats/stats.h|define STATS_ONE_CACHES +1024\$
4,096 caches|tools/stats/stats.h|define STATS_ALL_CACHES +4096\$
5 seconds|tools/stats/stats.h|define STATS_ALL_SECONDS +5\$
1,024 files|tools/run/report.c|define MOST_FILES +1024\$
32,768 rows|tools/run/report.c|define MOST_ROWS +32768\$
file of mode 0600|core/base/own_path.c|O_CREAT \| O_EXCL \| O_CLOEXEC \| O_NOFOLLOW, 0600
store of mode 0700|simulated/guest/machine|chmod 700 ..guest_store
mode 0700, so that no user|.ci/on|chmod 700 
"

# The document in one line, without names of tests, sources, calls and processors.
words_of() {
    sed -sE '1d; s/`[^`]*`//g; s/\]\([^)]*\)/]/g' "${documents[@]}" | tr -s '\n ' ' ' |
        sed -E 's/[a-z_]+\([1-9]\)//g; s/x86-64|arm64|UTF-8//g'
}

is_so() { # WORDS FILE PATTERN
    [[ $(words_of) == *"$1"* ]] || { echo "no page says \"$1\""; return 1; }
    grep -qE -- "$3" "$SOURCE_DIR/$2" || { echo "$2 has no line like $3"; return 1; }
}

# What is left has no digit.
no_other_number() {
    local left line
    left=$(words_of | sed -E 's/(Linux|libfabric) [0-9]+\.[0-9]+//g
        s/\((measured: )?(after )?[0-9.]+ to [0-9.]+ ms(, [0-9]+ to [0-9]+ writes)?\)//g')
    while IFS='|' read -r line _; do
        [[ $line ]] && left=${left//"$line"/}
    done <<<"$numbers"
    ! grep -oE '.{0,30}[0-9].{0,20}' <<<"$left"
}

tests_are_run() {
    local name bad=0
    for name in $(grep -ohE '`(fault|tool|unit|conformance|package|cuda|kfi)_[a-z_]+(:[a-z0-9_]+)?`' "${documents[@]}" | tr -d '\`' |
        sort -u); do
        case $name in
        *:*) grep -qrE "^(TEST|TEST_FIRST|CASE|REFUSED_CASE)\(${name#*:}\)" "$SOURCE_DIR/tests" || { echo "no test is $name" && bad=1; } ;;
        package_*) [[ -f $SOURCE_DIR/tests/package/${name#*_}.sh ]] || { echo "no test is $name" && bad=1; } ;;
        esac
    done
    return $bad
}

# Words of its own a source may print as they are.
no_text_past_print_error() {
    ! grep -rnE 'fprintf\(stderr|psignal\(|[^a-z]warnx?\(|dprintf\(' "$SOURCE_DIR"/tools "$SOURCE_DIR"/preload --include='*.c' |
        grep -vE '/tools/foreign\.c:|fprintf\(stderr, "[^%]*"\);'
}

while IFS='|' read -r words file pattern; do
    [[ $words ]] && check "security__${words//[^A-Za-z0-9]/_}__as_in_the_source" is_so "$words" "$file" "$pattern"
done <<<"$numbers"
check security__no_number_without_a_source no_other_number
check security__tests_are_run tests_are_run
check security__no_text_past_print_error no_text_past_print_error
finish
