# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Counts test cases. Input: the output of `ctest -N -V`, with each test's labels, then
# CTest's JUnit file. A test's cases are in the last line "N passed, N failed, N skipped" it
# printed; a test without such a line is one case, with CTest's verdict. A test that CTest failed
# has at least one failed case, whatever it printed. Exits 1 if a case failed.

function text(line) {
    gsub(/&quot;/, "\"", line)
    gsub(/&apos;/, "'", line)
    gsub(/&lt;/, "<", line)
    gsub(/&gt;/, ">", line)
    gsub(/&amp;/, "\\&", line)
    return line
}

function attribute(line, name) {
    if (!match(line, " " name "=\"[^\"]*\""))
        return ""
    return substr(line, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
}

function add(label) {
    if (!(label in tests))
        order[++count] = label
    tests[label]++
    passed[label] += p
    failed[label] += f
    skipped[label] += s
}

function row(label, name) {
    printf "%-14s %6d %8d %7d %8d\n", name, tests[label], passed[label], failed[label],
           skipped[label]
}

function finish(    list, n, i) {
    if (!counted) {
        p = verdict == "passed"
        f = verdict == "failed"
        s = verdict == "skipped"
    }
    if (verdict == "failed" && !f)
        f = 1
    n = split(labels[test], list, " ")
    for (i = 1; i <= n; i++)
        add(list[i])
    if (!n)
        add("(none)")
    add("all")
}

FNR == NR && $1 == "Labels:" { sub(/^Labels: */, ""); pending = $0 }
FNR == NR && $1 == "Test" && $2 ~ /^#/ { labels[$3] = pending; pending = "" }
FNR == NR { next }

/<testcase / {
    test = text(attribute($0, "name"))
    status = attribute($0, "status")
    verdict = status == "run" ? "passed" : "failed"
    counted = 0
}
/<skipped message="SKIP_RETURN_CODE=/ { verdict = "skipped" }
{ sub(/.*<system-out>/, ""); sub(/<\/system-out>.*/, "") }
/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {
    p = $1
    f = $3
    s = $5
    counted = 1
}
/SKIPPED because: / { reasons[text(substr($0, index($0, "because: ") + 9))]++ }
/<\/testcase>/ { finish() }

END {
    if (length(reasons))
        print "\nskipped, because:"
    for (reason in reasons)
        printf "%5d  %s\n", reasons[reason], reason
    print "\nlabel           tests   passed  failed  skipped"
    for (i = 1; i <= count; i++)
        if (order[i] != "all")
            row(order[i], order[i])
    row("all", "all")
    printf "\n%d passed, %d failed, %d skipped\n", passed["all"], failed["all"], skipped["all"]
    exit failed["all"] > 0
}
