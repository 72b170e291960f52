#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The scripts that report failures: tests/run runs folders of small tests that pass, fail, crash, skip
# or do not exist, and the tests' main() runs cases that end in each of these ways: scripts.sh HARNESS.
. "$(dirname "$0")/cases.sh"

harness=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A folder of tests: each argument is the shell command of one.
tests_of() {
    local command n=0
    rm -rf "$work/tests"
    mkdir "$work/tests"
    for command; do
        printf 'add_test(t%d sh -c [=[%s]=])\n' $((++n)) "$command"
        printf 'set_tests_properties(t%d PROPERTIES SKIP_RETURN_CODE 77 LABELS "l%d;both")\n' $n $n
    done >"$work/tests/CTestTestfile.cmake"
}

# ends EXIT "LAST LINE" TEST...: tests/run of these tests exits with EXIT and prints that last line.
ends() {
    local expected=$1 line=$2 output status
    shift 2
    tests_of "$@"
    output=$("$SOURCE_DIR/tests/run" "$work/tests" 2>&1)
    status=$?
    echo "$output"
    [[ $(tail -n 1 <<<"$output") == "$line" ]] && ((!status == !expected))
}

# adds "LAST LINE" COMMAND: .ci/steps with one step, a shell command.
adds() {
    local output
    output=$(env -u HMREG_TEST_NO_SKIP ${no_skip-} bash -c '. "$SOURCE_DIR/.ci/steps"; step sh -c "$1"; finish' - "$2" 2>&1)
    echo "$output"
    [[ $(tail -n 1 <<<"$output") == "$1" ]]
}

counts_by_label() {
    tests_of 'echo 3 passed, 0 failed, 1 skipped' 'echo 2 passed, 0 failed, 0 skipped'
    local output
    output=$("$SOURCE_DIR/tests/run" "$work/tests" 2>&1) || return
    echo "$output"
    grep -Eq '^l1 +1 +3 +0 +1$' <<<"$output" && grep -Eq '^both +2 +5 +0 +1$' <<<"$output"
}

names_reasons_of_skips() {
    tests_of 'echo "SKIPPED because: no <GPU> & no \"NIC\""; exit 77' 'true'
    says '1  no <GPU> & no "NIC"' "$SOURCE_DIR/tests/run" "$work/tests"
}

# The test waits until it is shown.
shows_what_hangs() {
    local status
    tests_of "$work/tests/shell -c 'until grep -q \"^-- /proc/.*/task/\" $work/shown; do sleep 0.1; done'"
    cp "$(command -v bash)" "$work/tests/shell"
    HMREG_TEST_HUNG=1 "$SOURCE_DIR/tests/run" "$work/tests" >"$work/shown" 2>&1
    status=$?
    cat "$work/shown"
    ((!status)) && grep -A1 "hangs: $work/tests/shell" "$work/shown" | grep -q '^-- .*/task/[0-9]*: [A-Z] in ..*, '
}

# exits EXIT "CLOSING LINE" CASE: the tests' main, running the cases of this name.
exits() {
    local output status
    output=$("$harness" "$3" 2>&1 <&0)
    status=$?
    echo "$output"
    [[ $status == "$1" && $(grep -xE '[0-9]+ passed, .*' <<<"$output") == "$2" ]]
}

# The changes that ./run mutants makes of the C on its input, one a line.
mutations() {
    PYTHONPATH=$SOURCE_DIR/tests/measure python3 -B -c '
import sys
from mutations import mutations
text = sys.stdin.read()
for begin, end, new in mutations(text):
    print((text[begin:end].strip() + " -> " + new.strip()).strip())'
}

each_kind_is_found() {
    diff <(mutations <<<'if (a < 7 && !b)
        c(a + 1);
        return x->y;
        d(a);' | sort) <(sort <<'END'
< -> <=
&& -> ||
+ -> -
7 -> 8
1 -> 2
1 -> 0
! ->
a < 7 && !b -> !(a < 7 && !b)
c(a + 1) ->
d(a) ->
END
    )
}

no_code_stays() {
    local found
    found=$(mutations <<'END'
#define A(x) ((x) < 1 && \
              x == 2)
static const char *a = "1 + 2"; /* a == b
                                   && 1 */
// !a
    assert(a < 1 && b(2));
END
    ) && [[ ! $found ]]
}

# Each line of equivalent.txt names a mutant that the sources still have.
equivalents_exist() {
    local gone
    gone=$(cd "$SOURCE_DIR" && PYTHONPATH=tests/measure python3 -B -c '
import mutated, mutants
path = "tests/measure/equivalent.txt"
files = sorted({line.split(":")[0] for line in open(path) if line.strip() and line[0] != "#"})
mutants.Equivalents(path, [mutated.Source(".", file) for file in files])
print(len(files), "files")' 2>&1)
    echo "$gone"
    [[ $gone =~ ^[1-9][0-9]*\ files$ ]]
}

# The whole output of a passed test is kept.
long='seq 100000; echo 4 passed, 0 failed, 0 skipped'

check tests_run__cases_are_summed ends 0 '5 passed, 0 failed, 2 skipped' \
    'echo 3 passed, 0 failed, 2 skipped' 'echo 2 passed, 0 failed, 0 skipped'
check tests_run__failed_case__fails ends 1 '1 passed, 2 failed, 0 skipped' \
    'echo 1 passed, 2 failed, 0 skipped; exit 1'
check tests_run__failed_case_and_exit_0__fails ends 1 '1 passed, 2 failed, 0 skipped' \
    'echo 1 passed, 2 failed, 0 skipped'
check tests_run__crash__is_a_failed_case ends 1 '1 passed, 1 failed, 0 skipped' 'kill -SEGV $$' true
check tests_run__crash_after_the_line__is_a_failed_case ends 1 '2 passed, 1 failed, 0 skipped' \
    'echo 2 passed, 0 failed, 0 skipped; kill -ABRT $$'
check tests_run__skipped_program__is_skipped ends 0 '1 passed, 0 failed, 3 skipped' \
    'echo 0 passed, 0 failed, 3 skipped; exit 77' true
check tests_run__skip_without_a_line__is_one ends 0 '1 passed, 0 failed, 1 skipped' 'exit 77' true
check tests_run__no_test__fails ends 1 '0 passed, 0 failed, 0 skipped'
check tests_run__last_line_counts ends 0 '7 passed, 0 failed, 0 skipped' \
    'echo 1 passed, 1 failed, 0 skipped; echo 7 passed, 0 failed, 0 skipped'
check tests_run__long_output ends 0 '4 passed, 0 failed, 0 skipped' "$long"
check tests_run__labels counts_by_label
check tests_run__reasons names_reasons_of_skips
check tests_run__hang__is_shown shows_what_hangs
check steps__case_failed__counted adds '1 passed, 2 failed, 0 skipped' 'echo 1 passed, 2 failed, 0 skipped; exit 1'
check steps__no_line__one_case adds '1 passed, 0 failed, 0 skipped' true
check steps__failed_after_the_line__one_failed adds '3 passed, 1 failed, 0 skipped' 'echo 3 passed, 0 failed, 0 skipped; exit 1'
check steps__all_skipped__no_failure adds '0 passed, 0 failed, 2 skipped' 'echo 0 passed, 0 failed, 2 skipped; exit 77'
check steps__skipped_without_a_line__one_skipped adds '0 passed, 0 failed, 1 skipped' 'exit 77'
no_skip=HMREG_TEST_NO_SKIP=1
check steps__skips_are_failures__one_failed adds '0 passed, 1 failed, 1 skipped' 'echo 0 passed, 0 failed, 1 skipped; exit 77'
no_skip=
check tests_run__no_folder__fails fails usage "$SOURCE_DIR/tests/run"

check harness__pass__0 exits 0 '1 passed, 0 failed, 0 skipped' passes
check harness__failure__1 exits 1 '0 passed, 1 failed, 0 skipped' fails
check harness__failure_that_leaves_much_behind__next_case_has_none_of_it \
    exits 1 '1 passed, 1 failed, 0 skipped' left
check harness__failure_in_a_child__runs_no_other_case_there \
    exits 0 '1 passed, 0 failed, 0 skipped' child_ends_badly
HMREG_TEST_NO_SKIP=0 check harness__skip__77 exits 77 '0 passed, 0 failed, 1 skipped' skips
HMREG_TEST_NO_SKIP=1 check harness__skip_where_none_may__1 exits 1 \
    '0 passed, 1 failed, 0 skipped' skips
check harness__descriptor_leaked__1 exits 1 '0 passed, 1 failed, 0 skipped' leaks
check harness__descriptor_lost__1 exits 1 '0 passed, 1 failed, 0 skipped' closes_too_much
check harness__descriptor_closed_by_a_thread__0 exits 0 '1 passed, 0 failed, 0 skipped' closed_by
HMREG_TEST_PART=10 check harness__part_of_the_usual_number__0 exits 0 \
    '1 passed, 0 failed, 0 skipped' a_tenth
HMREG_TEST_PART=none check harness__part_that_is_no_number__1 exits 1 \
    '0 passed, 1 failed, 0 skipped' a_tenth
check harness__no_such_case__1 exits 1 '0 passed, 0 failed, 0 skipped' fly

if command -v python3 >/dev/null; then
    check mutations__of_each_kind__are_found each_kind_is_found
    check mutations__of_comments_strings_macros_assertions__are_none no_code_stays
    check mutations__chosen_at_run_time__act_as_if_written \
        python3 -B "$SOURCE_DIR/tests/measure/schemata_check.py" "$work"
    check mutations__named_as_equivalent__exist equivalents_exist
else
    skip mutations__are_found 'no python3'
fi

fuzz=$SOURCE_DIR/tests/fuzz
# Every target has its corpus, its line in the build, and one in the docs.
targets_are_whole() {
    local targets
    targets=$("$fuzz/fuzz" . fly 2>&1 | sed 's/.*targets: \(.*\), all.*/\1/' | tr ' ' '\n' | sort)
    echo "$targets"
    diff <(echo "$targets") <(ls "$fuzz/corpus") &&
        diff <(echo "$targets") <(sed -nE 's/^ *hmreg_fuzz_target\(([a-z_]+) .*/\1/p' "$fuzz/CMakeLists.txt" | sort) &&
        [[ $(grep -cE "^\| \`(${targets//$'\n'/|})\` " "$SOURCE_DIR/docs/fuzzing.md") == $(wc -l <<<"$targets") ]]
}

# Its table names files of the tree, which here has none of them.
moved_file() {
    mkdir -p "$work/moved/tests/fuzz"
    cp "$fuzz/fuzz" "$work/moved/tests/fuzz"
    fails "tokens: no file's name begins with core/remote/token" "$work/moved/tests/fuzz/fuzz" . coverage
}

coverage_of() { # BEGINNING...
    python3 -B "$fuzz/coverage.py" tokens "$work" "$@" \
        <<<'{"data": [{"files": [{"filename": "'"$work"'/core/remote/token.c", "summary": {
            "lines": {"covered": 3, "count": 4}, "branches": {"covered": 0, "count": 0}}}]}]}'
}

check fuzz__file_that_was_moved__named moved_file
check fuzz_coverage__of_a_file__its_share says '75.0 % of 4 lines,   0.0 % of 0 branches' coverage_of core/remote/token
check fuzz_coverage__no_file__named fails 'no file whose name begins with core/mr/remote' \
    coverage_of core/remote/token core/mr/remote
check fuzz__each_target__has_corpus_build_and_line targets_are_whole
check fuzz__unknown_target__teaches fails 'no target is called fly; targets: tokens' "$fuzz/fuzz" . fly
check fuzz__no_number__teaches fails 'SECONDS is a number, not soon' "$fuzz/fuzz" . json soon
check run__alone__teaches says 'begin with ./run demo' "$SOURCE_DIR/run"
check run__help__teaches says 'HMREG_TEST_NO_SKIP' "$SOURCE_DIR/run" --help
check run__unknown_command__fails fails 'no such command: fly' "$SOURCE_DIR/run" fly
check run__unknown_group__fails fails 'has no group fly' "$SOURCE_DIR/run" setup fly
check on__unknown_release__teaches fails 'usage: ./run on [--bare] 12|13|sid COMMAND' "$SOURCE_DIR/run" on 11 test
check on__no_command__teaches fails 'usage: ./run on [--bare] 12|13|sid COMMAND' "$SOURCE_DIR/run" on 13
check matrix__no_cell__teaches fails 'SANITIZER  none, address+undefined, thread' \
    "$SOURCE_DIR/.ci/matrix"
check options__unknown_option__teaches fails 'FLY=OFF is none; there are, =ON or =OFF: CUDA' \
    "$SOURCE_DIR/.ci/options" 'CUDA=OFF FLY=OFF'
check options__no_value__teaches fails 'CUDA is none' "$SOURCE_DIR/.ci/options" CUDA
check matrix__unknown_vendor__teaches fails 'VENDOR     none, cuda' \
    "$SOURCE_DIR/.ci/matrix" fly gcc none
finish
