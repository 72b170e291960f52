#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The workflows: actions are named by commit, images by digest, tokens only read, and a job on a runner that is not
# GitHub's is protected. Each rule is tried on a workflow that breaks it.
. "$(dirname "$0")/cases.sh"
cd "$SOURCE_DIR" || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# FILE...: a line for each violation. The form of ours is the only one that is understood: what differs is reported.
violations() {
    awk '
    function report(words) { print FILENAME ": " words }
    function end_job() {
        if (job == "" || hosted)
            return
        if (job_text !~ /\n    environment: devices\n/)
            report("job " job ": a runner that is not GitHub'"'"'s without environment: devices")
        if (job_text !~ /\n    if: [^\n]*github\.ref == .refs\/heads\/main.\n/ || job_text ~ /\n    if: [^\n]*\|\|/)
            report("job " job ": a runner that is not GitHub'"'"'s on other branches than main")
        if (events !~ /^( schedule| workflow_dispatch)+$/)
            report("job " job ": a runner that is not GitHub'"'"'s by the events" events)
    }
    function end_file() {
        end_job()
        if (name != "" && reads != "contents: read")
            print name ": permissions are not contents: read alone"
        job = events = reads = section = ""
    }
    FNR == 1 { end_file(); name = FILENAME }
    /^ *#/ || /^ *$/ { next }
    /^[^ ]/ { end_job(); job = ""; section = $0; sub(/:.*/, "", section) }
    section == "on" && /^on: *[^ ]/ { events = events " " substr($0, 5) }
    section == "on" && /^  [^ ]/ { events = events " " $1; sub(/:.*/, "", events) }
    section == "permissions" && /^  / { reads = reads (reads == "" ? "" : ", ") $1 " " $2 }
    section == "permissions" && /^permissions: *[^ ]/ { reads = $0 }
    section == "jobs" && /^  [^ ]/ { end_job(); job = $1; hosted = 0; job_text = "\n" }
    job != "" { job_text = job_text $0 "\n" }
    job != "" && /^    runs-on: (ubuntu|windows|macos)-[a-z0-9.]+$/ { hosted = 1 }
    job != "" && /permissions/ { report("job " job ": permissions of its own") }
    /uses/ && !/^ +-? ?uses: [A-Za-z0-9_.\/-]+@[0-9a-f]+ # v[0-9.]+$/ { report("not by its commit: " $0); next }
    /uses/ {
        commit = $0
        gsub(/.*@| #.*/, "", commit)
        if (length(commit) != 40)
            report("not by its commit: " $0)
    }
    /docker:\/\// { report("not by its digest: " $0) }
    /container: *[^ ]/ { report("not by its digest: " $0) }
    /image/ && !/image: \$\{\{ matrix\.image \}\}$/ && !/image"?: "?debian@sha256:[0-9a-f]+"?,? (#|\/\/) [a-z]+-[0-9]+$/ {
        report("not by its digest: " $0)
        next
    }
    /sha256:/ {
        digest = $0
        gsub(/.*sha256:|"?,? (#|\/\/).*/, "", digest)
        if (length(digest) != 64)
            report("not by its digest: " $0)
    }
    END { end_file() }' "$@"
}

none_in() {
    local found
    found=$(violations "$@")
    echo "$found"
    [[ ! $found ]]
}

# WORDS FILE SED-EXPRESSION: that file of ours, changed so, is reported so.
reported() {
    sed -E "$3" "$2" >"$work/changed.yml"
    ! cmp "$2" "$work/changed.yml" >/dev/null || return
    violations "$work/changed.yml"
    [[ $(violations "$work/changed.yml") == *"$1"* ]]
}

image_of_the_container() {
    local found
    found=$(violations .devcontainer/devcontainer.json | grep -v permissions)
    echo "$found"
    [[ ! $found ]]
}

[[ -d .github/workflows ]] || { skip workflows 'this tree has no .github' && finish; }
ci=.github/workflows/ci.yml nightly=.github/workflows/nightly.yml
check workflows__ours__no_violation none_in .github/workflows/*.yml
check workflows__the_development_container__by_digest image_of_the_container
check workflows__action_by_tag__reported reported 'not by its commit' $ci 's/(checkout@).*/\1v4/'
check workflows__action_by_short_hash__reported reported 'not by its commit' $ci 's/(checkout@.{12})[^ ]*/\1/'
check workflows__action_by_branch__reported reported 'not by its commit' $nightly '$a\      - uses: some/action@main'
check workflows__image_by_tag__reported reported 'not by its digest' $ci 's/debian@sha256[^ ]*/debian:13/'
check workflows__image_by_short_digest__reported reported 'not by its digest' $ci 's/(sha256:.{12})[^ ]*/\1/'
check workflows__container_by_tag__reported reported 'not by its digest' $nightly '/container:$/{N;s/:\n.*/: debian:12/}'
check workflows__more_permissions__reported reported 'not contents: read alone' $ci 's/^(  contents:) read/\1 write/'
check workflows__permissions_of_a_job__reported reported 'permissions of its own' $ci \
    's/^(    )runs-on/\1permissions: write-all\n&/'
check workflows__devices_without_environment__reported reported 'without environment' $nightly '/environment:/d'
check workflows__devices_on_any_branch__reported reported 'other branches' $nightly "s/ && github.ref == [^ ]*//"
check workflows__devices_on_any_branch_or_main__reported reported 'other branches' $nightly \
    "s/if: .* && (github.ref)/if: true || \1/"
check workflows__devices_for_pull_requests__reported reported 'by the events' $nightly 's/^  workflow_dispatch:/&\n  pull_request:/'
check workflows__another_runner_for_pull_requests__reported reported 'without environment' $ci \
    's/runs-on: .*/runs-on: [self-hosted, gpu]/'
check workflows__runner_by_an_expression__reported reported 'by the events' $ci 's/(runs-on: ).*/\1${{ matrix.runner }}/'
finish
