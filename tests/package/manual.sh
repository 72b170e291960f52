#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The manual against the code: every function of the public headers has a page with its prototype and the
# errors its comment names, fields have the units of the header, examples compile, the reasons and JSON keys
# that the code contains are explained, and links have targets.
. "$(dirname "$0")/cases.sh"
. "$(dirname "$0")/code.sh"

headers=("$SOURCE_DIR"/include/hmreg/*.h)
pages=("$SOURCE_DIR"/docs/man/*.3.md)
overview=$SOURCE_DIR/docs/man/hmreg.7.md
command_page=$SOURCE_DIR/docs/man/hmreg.1.md
doctor_page=$SOURCE_DIR/docs/man/hmreg-doctor.1.md
plan_page=$SOURCE_DIR/docs/man/hmreg-plan.1.md
topo_page=$SOURCE_DIR/docs/man/hmreg-topo.1.md
stats_page=$SOURCE_DIR/docs/man/hmreg-stats.1.md
run_page=$SOURCE_DIR/docs/man/hmreg-run.1.md
verify_page=$SOURCE_DIR/docs/man/hmreg-verify.1.md
tool=$BUILD_DIR/tools/hmreg

# ---- prototypes ---------------------------------------------------------------------------

# C text to one prototype a line, however it was laid out.
prototypes() {
    sed -z 's@/\*\([^*]\|\*\+[^*/]\)*\*\+/@@g' | sed -z 's@\\\n@ @g' |
        sed -e '/^#ifdef __cplusplus/,/^#endif/d' -e '/^#/d' | sed -z ':inner; s@{[^{}]*}@;@g; t inner' | tr -s ' \n' ' ' | sed 's/( /(/g' |
        tr ';' '\n' | sed 's/.*[{}]//; s/^ //' | grep -E '^[a-z].*\bhmreg_[a-z0-9_]+\(.*\)$'
}

code_of() { # PAGE SECTION: the section's code
    awk -v section="# $2" '/^# / { in_it = $0 == section } in_it && /^```/ { code = !code; next }
                           in_it && code' "$1"
}

name_of() { # of a prototype
    sed -E 's/.*\b(hmreg_[a-z0-9_]+)\(.*/\1/'
}

# "NAME PAGE" for every name of a page's NAME section.
index_names() {
    awk '/^# / { in_it = $0 == "# NAME"; next }
         in_it && !/^$/ {
             words[FILENAME] = words[FILENAME] " " $0
         }
         END {
             for (page in words) {
                 sub(/ -( .*|$)/, "", words[page])
                 n = split(words[page], names, /[ ,]+/)
                 for (i = 1; i <= n; i++)
                     if (names[i] != "")
                         print names[i], page
             }
         }' "${pages[@]}"
}

page_of() { # the page whose NAME section has this name
    awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }' "$work/names" && return
    echo "no page of docs/man has $1 in its NAME" >&2
    return 1
}

documented_as_declared() { # NAME PROTOTYPE
    local page
    page=$(page_of "$1") || return
    echo "declared: $2"
    echo "in ${page##*/}:"
    grep -w "$1" "$work/${page##*/}"
    grep -qxF "$2" "$work/${page##*/}"
}

all_prototypes() {
    cat "${headers[@]}" | prototypes
}

no_page_of_what_is_not_declared() {
    all_prototypes | sort | diff - <(sort "$work"/*.3.md)
}

# ---- errors -------------------------------------------------------------------------------

# "NAME ERROR..." for each function: what the comment before its declaration names.
errors_declared() {
    cat "${headers[@]}" | awk '
        /^\/\*/ { comment = "" }
        /^\/\*/, /\*\// { comment = comment " " $0; next }
        { sub(/\/\*.*/, "") }
        match($0, /hmreg_[a-z0-9_]+\(/) {
            line = substr($0, RSTART, RLENGTH - 1)
            rest = comment
            while (match(rest, /-(HMREG_)?E[A-Z]+/)) {
                line = line " " substr(rest, RSTART, RLENGTH)
                rest = substr(rest, RSTART + RLENGTH)
            }
            print line
        }'
}

explains_errors() { # NAME ERROR...
    local page error
    page=$(page_of "$1") || return
    shift
    for error; do
        sed -n '/^# ERRORS/,/^# NOTES/p' "$page" | grep -E -e "$error\b" >/dev/null && continue
        echo "the header names $error, the ERRORS of ${page##*/} do not"
        return 1
    done
}

# ---- callers ------------------------------------------------------------------------------

# "NAME FILE" of each call in the overview.
callers() {
    sed -n '/^# CALLS/,/^# EXAMPLE/p' "$overview" | grep -E '^hmreg_[a-z_]+ +[a-z]'
}

each_call_has_one_caller() {
    all_prototypes | grep -v '^static inline' | name_of | sort | diff - <(callers | cut -d' ' -f1 | sort)
}

# In an example, the command or a preloaded library, and in its code.
callers_call() {
    local name file read=0 bad=0
    while read -r name file; do
        ((++read))
        [[ $file =~ ^(examples|tools|preload)/ && -f $SOURCE_DIR/$file ]] &&
            sed -z 's@/\*\([^*]\|\*\+[^*/]\)*\*\+/@@g' "$SOURCE_DIR/$file" | grep "\b$name(" >/dev/null && continue
        echo "$file does not call $name"
        bad=1
    done < <(callers)
    ((read > 50 && !bad))
}

# ---- units --------------------------------------------------------------------------------

# "NAME UNIT" of each field of a public struct whose comment names a unit.
units_of_fields() {
    cat "${headers[@]}" | sed -zE 's@\n +@ @g' |
        grep -oE '[ *][a-z0-9_]+(\[[^]]*\])?; +/\*([^*]|\*[^/])*\*/' |
        sed -nE 's/^[ *]([a-z0-9_]+)[[;].*[^a-z](bytes|nanoseconds|microseconds|milliseconds|seconds)[^a-z].*/\1 \2/p' | sort -u
}

# Some page has the field, in a paragraph that names the unit.
fields_have_units() {
    local field unit count=0 bad=0
    while read -r field unit; do
        ((++count))
        awk -v RS= -v field="\\*$field\\*" -v unit="$unit" '
            $0 ~ field { text = $0; gsub(/\n/, " ", text); found = found || text ~ "(^|[^a-z_])" unit }
            END { exit !found }' "$SOURCE_DIR"/docs/man/*.md && continue
        echo "the header gives $field in $unit, no page of docs/man does"
        bad=1
    done < <(units_of_fields)
    echo "$count fields"
    ((!bad && count > 15))
}

# A page whose functions take a length says that it is in bytes, one whose functions wait, how long.
arguments_have_units() {
    local page bad=0
    for page in "${pages[@]}"; do
        if grep -qE '\b(len|size|offset|stride)[,)]' "$work/${page##*/}" &&
            ! sed '1,/^# DESCRIPTION/d' "$page" | grep '\bbytes\b' >/dev/null; then
            echo "${page##*/} does not give its lengths in bytes"
            bad=1
        fi
        if grep -qE '_ms[,)]' "$work/${page##*/}" && ! grep -q '\bmilliseconds\b' "$page"; then
            echo "${page##*/} does not give its time in milliseconds"
            bad=1
        fi
    done
    ((!bad))
}

# ---- constants ----------------------------------------------------------------------------

constants_page=$SOURCE_DIR/docs/man/hmreg-constants.7.md

# The names of macros that are values, and of enumerators.
constants_of() { # HEADER...
    cat "$@" | sed -z 's@/\*\([^*]\|\*\+[^*/]\)*\*\+/@@g' | awk '
        /^#define HMREG_[A-Z0-9_]+([ \t]|$)/ { if ($2 !~ /_H$/) print $2; next }
        /^enum [a-z_]+ \{/ { enumerators = 1 }
        enumerators {
            for (rest = $0; match(rest, /HMREG_[A-Z0-9_]+/); rest = substr(rest, RSTART + RLENGTH))
                print substr(rest, RSTART, RLENGTH)
        }
        /\}/ { enumerators = 0 }'
}

values_documented() { # "NAME VALUE" of each constant in the page
    grep -E '^HMREG_[A-Z0-9_]+ +-?[0-9a-fx]+$' "$constants_page"
}

constants_are_documented() {
    constants_of "${headers[@]}" | sort | diff - <(values_documented | cut -d' ' -f1 | sort)
}

# Of headers that this build can include.
values_are_the_headers() {
    local header usable=() name value
    for header in "${headers[@]}"; do
        [[ $header == *@(ofi|verbs).h && " $COMPONENTS " != *" $(basename "$header" .h) "* ]] || usable+=("$header")
    done
    {
        printf '#include <hmreg/%s>\n' "${usable[@]##*/}"
        values_documented | grep -wFf <(constants_of "${usable[@]}") | while read -r name value; do
            echo "_Static_assert((uint64_t)($name) == (uint64_t)$value, \"$name is not $value\");"
        done
    } >"$work/values.c"
    grep -c Static_assert "$work/values.c"
    # shellcheck disable=SC2046
    "$CC" -std=c11 -fsyntax-only "-I$SOURCE_DIR/include" "-I$BUILD_DIR/include" \
        $(pkg-config --cflags libfabric libibverbs 2>/dev/null) "$work/values.c"
}

# The page's Python, with a pkg-config that answers for this build.
cffi_reads_the_header() {
    mkdir -p "$work/bin"
    printf '#!/bin/sh\necho "-I%s" "-I%s"\n' "$SOURCE_DIR/include" "$BUILD_DIR/include" >"$work/bin/pkg-config"
    ln -sf "$(command -v "$CC")" "$work/bin/cc"
    chmod +x "$work/bin/pkg-config"
    code_of "$constants_page" EXAMPLE >"$work/example.py"
    says system env PATH="$work/bin:$PATH" LD_LIBRARY_PATH="$BUILD_DIR/core" python3 -W error "$work/example.py"
}

# An example that shows fi_write() says when its completion means that the bytes are there.
rma_says_delivery_complete() {
    local page bad=0
    for page in $(grep -lE '\bfi_write\(' "${pages[@]}" "$overview" "$SOURCE_DIR/README.md"); do
        grep -q FI_DELIVERY_COMPLETE "$page" && continue
        echo "${page##*/} shows fi_write() without FI_DELIVERY_COMPLETE"
        bad=1
    done
    return $bad
}

# ---- pages --------------------------------------------------------------------------------

has_sections() { # PAGE
    diff <(printf '# %s\n' NAME SYNOPSIS DESCRIPTION 'RETURN VALUE' ERRORS NOTES EXAMPLE 'SEE ALSO') \
        <(grep '^# [A-Z]' "$1" | grep -v SPDX)
}

# As it stands, includes too.
example_compiles() { # PAGE
    code_of "$1" EXAMPLE | compiles_as_c_and_cxx
}

# The overview's example, with a provider that refuses and then accepts: only what was posted is held.
example_holds_what_it_posted() {
    {
        printf '#include <%s.h>\n' assert rdma/fi_rma rdma/fi_errno
        code_of "$overview" EXAMPLE
        cat <<'END'
static ssize_t answer;
static int held;
static char region;

int hmreg_remote_addr(const struct hmreg_remote *remote, uint64_t offset, size_t len, uint64_t *addr,
                      uint64_t *key)
{
    return 0;
}
int hmreg_mr_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 struct hmreg_mr **mr)
{
    *mr = (struct hmreg_mr *)&region;
    return held++;
}
void hmreg_mr_put(struct hmreg_mr *mr)
{
    held--;
}
void *hmreg_mr_desc(const struct hmreg_mr *mr)
{
    return NULL;
}
static ssize_t posted(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t peer,
                      uint64_t addr, uint64_t key, void *context)
{
    assert(context == &region);
    return answer;
}
int main(void)
{
    struct fi_ops_rma rma = {.write = posted};
    struct fid_ep ep = {.rma = &rma};

    answer = -FI_EAGAIN;
    assert(write_to(NULL, &ep, 0, NULL, "a", 1) == -FI_EAGAIN && held == 0);
    answer = 0;
    assert(write_to(NULL, &ep, 0, NULL, "a", 1) == 0 && held == 1);
    return 0;
}
END
    } >"$work/example.c"
    # shellcheck disable=SC2046
    "$CC" -std=gnu11 "-I$SOURCE_DIR/include" "-I$BUILD_DIR/include" -o "$work/example" \
        $(pkg-config --cflags libfabric) "$work/example.c" && "$work/example"
}

# The table of hmreg_domain_open_verbs(3): each access flag of libibverbs, and no name that hmreg does not have.
verbs_rights_are_in_the_table() {
    local table flag name read=0 bad=0
    table=$(sed -n '/^IBV_ACCESS_LOCAL_WRITE /,/^```/p' "$SOURCE_DIR/docs/man/hmreg_domain_open_verbs.3.md")
    while read -r flag; do
        ((++read))
        grep -qE "^$flag(,| |\$)" <<<"$table" || { echo "the table lacks $flag" && bad=1; }
    done < <(echo '#include <infiniband/verbs.h>' | "$CC" -E - |
        sed -n '/^enum ibv_access_flags/,/^}/p' | grep -oE '\bIBV_ACCESS_[A-Z_]+ *=' | tr -d ' =')
    while read -r name; do
        grep -qw "$name" "${headers[@]}" || { echo "$name is in no header" && bad=1; }
    done < <(grep -oE 'HMREG_[A-Z_]+' <<<"$table" | sort -u)
    ((read > 5 && !bad))
}

pages_named_in_see_also() {
    sed -n '/^# SEE ALSO/,$p' "$SOURCE_DIR"/docs/man/*.md | grep -oE '\*\*hmreg[a-z_-]*\*\*\([137]\)' |
        tr -d '*' | sort -u
}

see_also_leads_somewhere() {
    local reference name section bad=0
    for reference in $(pages_named_in_see_also); do
        name=${reference%(*} section=${reference//[^0-9]/}
        [[ $section != 3 ]] && [[ -f $SOURCE_DIR/docs/man/$name.$section.md ]] && continue
        [[ $section == 3 ]] && page_of "$name" >/dev/null && continue
        bad=1
    done
    return $bad
}

# ---- reasons and JSON keys ----------------------------------------------------------------

# Of core and providers; vendors answer with errors, and the core makes reasons of them. Slugs are
# the only strings of lower-case words joined by dashes that reasons are made with.
slugs_are_explained() {
    local slug bad=0 found=0
    for slug in $(cat $(find "$SOURCE_DIR"/core "$SOURCE_DIR"/providers -name "*.c") | tr -s '\n ' ' ' |
        grep -oE '(hmreg_refuse|refuse_as_last_error)\([^;]*;' |
        grep -oE '"[a-z]+(-[a-z0-9]+)+"' | tr -d '"' | sort -u); do
        ((++found))
        grep -qx "$slug" "$overview" && continue
        echo "hmreg(7) does not explain the reason $slug"
        bad=1
    done
    ((found > 5)) || echo "only $found slugs were found"
    ((found > 5 && !bad))
}

variables_are_explained() {
    local name bad=0 found=0
    for name in $(grep -ohE '"(HMREG|FI)_[A-Z_]+"' "$SOURCE_DIR"/core/context/settings.c | tr -d '"'); do
        ((++found))
        grep -qF "**$name**" "$overview" && continue
        echo "hmreg(7) does not explain $name"
        bad=1
    done
    ((found > 10 && !bad))
}

json_keys_are_explained() { # AT-LEAST PAGES COMMAND...: keys of the commands' documents
    local least=$1 pages=$2 command key bad=0 found=0
    shift 2
    for key in $(for command; do "$tool" "$command" --json; done |
        grep -oE '"[a-z_]+":' | tr -d '":' | sort -u); do
        ((++found))
        # shellcheck disable=SC2086
        grep -qE "\*$key\*|\"$key\"" $pages && continue
        echo "$pages do not explain the key $key"
        bad=1
    done
    ((found > least)) || echo "only $found keys were found"
    ((found > least && !bad))
}

# Its documents are of other processes: keys are the words in its source, but for files of /proc.
json_keys_of_stats_are_explained() {
    local key bad=0 found=0
    for key in $(grep -ohE '"[a-z_]+"' "$SOURCE_DIR"/tools/stats/stats_find.c | tr -d '"' | sort -u |
        grep -vxE 'status|comm'); do
        ((++found))
        grep -qE "\*$key\*|\"$key\"" "$stats_page" "$command_page" && continue
        echo "hmreg-stats(1) does not explain the key $key"
        bad=1
    done
    ((found > 30 && !bad))
}

# The same of reports: keys are the words in its source that are followed by a value.
json_keys_of_run_are_explained() {
    local key bad=0 found=0
    for key in $(grep -ohE '(doc_set|set_number)\([a-z]+, "[a-z_]+"|"(slug|count|text)"' "$SOURCE_DIR"/tools/run/report.c |
        grep -oE '"[a-z_]+"' | tr -d '"' | sort -u); do
        ((++found))
        grep -qE "\*$key\*" "$run_page" && continue
        echo "hmreg-run(1) does not explain the key $key"
        bad=1
    done
    ((found > 30 && !bad))
}

# ---- doctor's findings --------------------------------------------------------------------

# "CODE SEVERITY TITLE" of each.
findings() {
    [[ -s $work/findings ]] ||
        "$tool" doctor --explain list | sed '1d; s/^ *//; s/  */ /; s/  */ /2' >"$work/findings"
    cat "$work/findings"
}

findings_are_documented() {
    local code severity title bad=0 found=0
    while read -r code severity title; do
        ((++found))
        grep -qxF "| \`$code\` | $severity | $title |" "$SOURCE_DIR/docs/doctor.md" ||
            { echo "docs/doctor.md lacks: | \`$code\` | $severity | $title |" && bad=1; }
        grep -qxF "$code ($severity)" "$doctor_page" && grep -qxF ":   $title" "$doctor_page" ||
            { echo "hmreg-doctor(1) lacks: $code ($severity), $title" && bad=1; }
    done < <(findings)
    ((found > 40 && !bad))
}

findings_are_taught() {
    local code said bad=0
    for code in $(findings | cut -d' ' -f1); do
        said=$("$tool" doctor --explain "$code") && [[ $said == *"What to do"* ]] && continue
        echo "hmreg doctor --explain $code: $said"
        bad=1
    done
    return $bad
}

no_finding_documented_that_is_none() {
    grep -oE '^\| `[a-z-]+` \| (broken|degraded|note)' "$SOURCE_DIR/docs/doctor.md" |
        grep -oE '[a-z-]+`' | tr -d '`' | sort | diff - <(findings | cut -d' ' -f1 | sort)
}

# doctor --explain has each reason of hmreg(7).
reasons_are_taught() {
    local slug bad=0
    for slug in $(sed -n '/^# PATHS/,/^# ERRORS/p' "$overview" | grep -E '^[a-z]+(-[a-z]+)+$'); do
        grep -q "^$slug " <(findings) && continue
        echo "hmreg doctor --explain does not know the reason $slug of hmreg(7)"
        bad=1
    done
    return $bad
}

# ---- what is built ------------------------------------------------------------------------

built_for_all() {
    local name bad=0
    for name in $(all_prototypes | name_of); do
        [[ $name == hmreg_domain_open_@(ofi|verbs) && " $COMPONENTS " != *" ${name##*_} "* ]] &&
            continue
        [[ -s $BUILD_DIR/docs/man/man3/$name.3 ]] && continue
        echo "docs/man/man3/$name.3 was not built"
        bad=1
    done
    return $bad
}

# As man(1) formats it, without a warning; its first line names page and section, its last the version, the date and
# the page again.
is_formatted() { # PAGE
    local name=${1##*/} section=${1##*.} said
    name=${name%.*}
    said=$(groff -K utf8 -t -mandoc -Tutf8 -P-c -rLL=100n -rLT=100n -w mac "$1" 2>"$work/warnings" | sed 's/.\x08//g' | grep .)
    said=$(sed -n '1p;$p' <<<"$said" | tr -s ' ')
    name=${name^^}
    echo "$1: $said"
    cat "$work/warnings"
    [[ ! -s $work/warnings &&
        $said =~ ^"$name($section) hmreg $name($section)"$'\n'"hmreg "[0-9.]+\ [0-9]+\ [A-Z][a-z]+\ [0-9]{4}\ "$name($section)"$ ]]
}

# On a terminal of 80 columns no line of a synopsis is folded. 14 of them are the indentation of code.
synopses_fit() {
    local page bad=0
    for page in "$BUILD_DIR"/docs/man/man?/*; do
        [[ $(head -c 3 "$page") != .so ]] || continue
        groff -K utf8 -t -mandoc -Tutf8 -P-c -rLL=80n "$page" 2>/dev/null | sed 's/.\x08//g' |
            awk '/^[A-Z]/ { in_it = $0 == "SYNOPSIS" } in_it && length > 80 { print; bad = 1 } END { exit bad }' ||
            { echo "${page##*/}: longer than 80 columns" && bad=1; }
    done
    return $bad
}

# Pages, and names of pages.
formats() {
    local page first of said bad=0
    cd "$BUILD_DIR/docs/man" || return
    for page in man?/*; do
        read -r first of <"$page"
        if [[ $first == .so ]]; then
            [[ -s $of ]] || { echo "$page: no page $of" && bad=1; }
        else
            said=$(LC_ALL=C.UTF-8 is_formatted "$page") || { echo "$said" && bad=1; }
        fi
    done
    return $bad
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
index_names >"$work/names"
for page in "${pages[@]}"; do
    code_of "$page" SYNOPSIS | prototypes >"$work/${page##*/}"
done

while read -r prototype; do
    name=$(name_of <<<"$prototype")
    check "manual__${name}__is_as_declared" documented_as_declared "$name" "$prototype"
done < <(all_prototypes)
while read -r name errors; do
    # shellcheck disable=SC2086
    [[ ! $errors ]] || check "manual__${name}__errors" explains_errors "$name" $errors
done < <(errors_declared)
check manual__no_page_of_what_is_not_declared no_page_of_what_is_not_declared
for page in "${pages[@]}" "$overview"; do
    name=$(basename "$page" .md)
    [[ $page == "$overview" ]] || check "manual__${name}__has_its_sections" has_sections "$page"
    absent=$(lacks "$(code_of "$page" SYNOPSIS; code_of "$page" EXAMPLE)")
    if [[ $absent ]]; then
        skip "manual__${name}__example" "this build is without $absent"
    else
        check "manual__${name}__example_compiles_as_${languages}" example_compiles "$page"
    fi
done
if [[ $(lacks "$(code_of "$overview" EXAMPLE)") ]]; then
    skip manual__hmreg.7__example_holds_what_it_posted "this build is without ofi"
else
    check manual__hmreg.7__example_holds_what_it_posted example_holds_what_it_posted
fi
check manual__constants__each_has_its_value constants_are_documented
check manual__constants__values_are_the_headers values_are_the_headers
if [[ $SANITIZE ]]; then
    skip manual__constants__cffi_reads_the_header "Python loads no library of a sanitizer"
elif ! python3 -c 'import cffi' 2>/dev/null; then
    skip manual__constants__cffi_reads_the_header "python3-cffi is not installed"
else
    check manual__constants__cffi_reads_the_header cffi_reads_the_header
fi
check manual__callers__each_call_has_one each_call_has_one_caller
check manual__callers__are_there_and_call_it callers_call
check manual__units__fields_have_those_of_the_header fields_have_units
check manual__units__arguments_have_theirs arguments_have_units
check manual__rma__says_delivery_complete rma_says_delivery_complete
if [[ $(lacks ibv_reg_mr) ]]; then
    skip manual__rights_of_verbs__each_is_in_the_table "this build is without verbs"
else
    check manual__rights_of_verbs__each_is_in_the_table verbs_rights_are_in_the_table
fi
check manual__see_also_leads_somewhere see_also_leads_somewhere
check manual__reasons_are_explained slugs_are_explained
check manual__environment_is_explained variables_are_explained
if [[ $TOOL == 1 ]]; then
    check manual__json_keys_are_explained json_keys_are_explained 20 "$command_page" info
    check manual__json_keys_of_doctor_are_explained \
        json_keys_are_explained 60 "$command_page $doctor_page $topo_page" doctor topo
    check manual__json_keys_of_plan_are_explained \
        json_keys_are_explained 15 "$command_page $plan_page" plan
    check manual__json_keys_of_verify_are_explained \
        json_keys_are_explained 40 "$command_page $verify_page" verify
    check manual__json_keys_of_stats_are_explained json_keys_of_stats_are_explained
    check manual__json_keys_of_run_are_explained json_keys_of_run_are_explained
    check manual__findings_are_documented findings_are_documented
    check manual__findings_are_taught findings_are_taught
    check manual__no_finding_documented_that_is_none no_finding_documented_that_is_none
    check manual__reasons_are_taught reasons_are_taught
else
    skip manual__json_keys "this build is without the command"
fi
if [[ $DOCS != 1 ]]; then
    skip manual__built "this build is without the manual"
else
    check manual__built_for_every_function built_for_all
    if command -v groff >/dev/null; then
        check manual__formats_without_warnings formats
        check manual__synopses__fit_into_80_columns synopses_fit
    else
        skip manual__formats "no groff is installed"
        skip manual__synopses "no groff is installed"
    fi
fi
finish
