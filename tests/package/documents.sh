#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Each command that the documents and the manual pages show, executed as it stands there: blocks of "sh", each of
# whose commands succeeds, or has the status in its comment ("# status 1"), and blocks of "console", "$ COMMAND"
# and its output, where … stands for what may differ. readme.sh has the blocks of C.
#
# Commands of hmreg run in an installation, on a simulated machine: CUDA devices, NICs and files of /sys
# (documents/machine). Commands of the source tree run in a copy of its scripts; in the place of what builds, tests,
# boots or installs, which CI executes, there is a program that accepts the options that the real one has.
# A comment before a block, "<!-- with A=b -->", sets variables of its machine.
# documents.sh FAKE-NIC-LIBRARY; DOCUMENT=REGEX in the environment: those documents only
. "$(dirname "$0")/cases.sh"

here=$(dirname "$(readlink -f "$0")")
fakes=$BUILD_DIR/simulated
if [[ $SANITIZE || ! -e ${1-} || $TOOL != 1 ]]; then
    skip documents__commands "this build is sanitized, or has no command or simulated NICs"
    finish
fi
fake_nic=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix tree=$work/hmreg there=$work/there

# FILE: the first words of a command, and the test that executes it.
elsewhere='
examples/README.md: cmake => package_install
examples/README.md: cc => package_install
docs/releasing.md: gpg --verify => package_release
docs/releasing.md: sha256sum --check => package_release
docs/releasing.md: tar -xf => package_release
docs/releasing.md: HMREG_RELEASE_KEY => package_release
docs/fleets.md: hmreg doctor --serve => tool_peer_hosts
docs/fleets.md: hmreg doctor --peer => tool_peer_hosts
docs/man/hmreg-doctor.1.md: hmreg doctor --peer => tool_peer_hosts
docs/man/hmreg-stats.1.md: hmreg stats 4711 => tool_stats
docs/fakes.md: LD_LIBRARY_PATH=build/dev/simulated/hsakmt => rocr_kmt
'

# ---- the places -----------------------------------------------------------------------------------

# program NAME REAL...: accepts each option whose name is in one of the real files, and does nothing.
program() {
    mkdir -p "${1%/*}"
    rm -f "$1"
    {
        echo '#!/bin/bash'
        printf 'real=('
        printf '%q ' "${@:2}"
        printf ')\n'
        cat <<'END'
for option; do
    type -P -- "$option" >/dev/null && break # a command, which has its own options
    [[ $option == --?* ]] || continue
    option=${option%%=*}
    grep -rqF -- "${option#--}" "${real[@]}" || { echo "${0##*/} has no option $option" >&2; exit 2; }
done
END
    } >"$1"
    chmod +x "$1"
}

# Presets and options are those of the project; folders of builds are not looked at.
make_cmake() {
    cat >"$tree/bin/cmake" <<END
#!/bin/bash
[[ \$1 != --preset ]] || grep -q "\"name\": \"\$2\"" "$SOURCE_DIR/CMakePresets.json" || exit 2
for option; do
    [[ \$option != -DHMREG_* ]] || grep -rq "\b\$(cut -c 3- <<<"\${option%%=*}")\b" "$SOURCE_DIR/CMakeLists.txt" "$SOURCE_DIR/cmake" || exit 2
done
END
    chmod +x "$tree/bin/cmake"
}

make_tree() {
    local file name
    mkdir -p "$tree/bin" "$tree/build/packages/12" "$tree/cmake" "$tree/simulated/guest" "$tree/results" "$tree/build/coverage"
    cp "$SOURCE_DIR/run" "$tree"
    cp "$SOURCE_DIR/cmake/packages.txt" "$tree/cmake"
    for file in "$SOURCE_DIR"/.ci/*; do
        [[ ! -x $file ]] || program "$tree/.ci/${file##*/}" "$file"
    done
    for name in tests/run tests/fuzz/fuzz tests/measure/coverage.py tests/measure/mutants.py simulated/guest/guest \
        examples/demo/run.sh; do
        program "$tree/$name" "$SOURCE_DIR/$name"
    done
    program "$tree/docs/site/make" "$SOURCE_DIR/docs/site/make"
    program "$tree/.ci/package" "$SOURCE_DIR/.ci/package"
    program "$tree/build/release/bench/hmreg-bench" "$SOURCE_DIR"/bench/*.c
    program "$tree/build/release/bench/preloaded" "$SOURCE_DIR/bench/preloaded.c"
    program "$tree/build/fuzz/tests/fuzz/fuzz_replay_tokens" "$SOURCE_DIR"/tests/fuzz/tokens.c
    ln -s "$BUILD_DIR" "$tree/build/dev"
    for name in $(sed -n 's/^Package: //p' "$SOURCE_DIR/debian/control"); do
        touch "$tree/build/packages/12/${name}_0_amd64.deb"
    done
    for name in dpkg-buildpackage ldconfig; do
        printf '#!/bin/sh\n' >"$tree/bin/$name"
    done
    printf '#!/bin/sh\necho installed\n' >"$tree/bin/dpkg-query"
    # Files to be installed are there; [...]* is a name that no package has.
    printf '#!/bin/sh\nfor file; do case $file in ./*.deb) [ -e "$file" ] || exit 100 ;; esac; done\n' >"$tree/bin/apt-get"
    chmod +x "$tree"/bin/*
    make_cmake
    ln -s "$(type -P true)" "$tree/bin/gdb"
    ln -s "$(type -P true)" "$tree/bin/python3" # coverage.py
    mkdir "$work/user" && ln -s "$tree" "$work/user/hmreg"
    program "$tree/my-verbs-program" "$0"
}

# A program, started with the libraries of a simulated NIC and of a simulated CUDA device.
make_program() { # NAME SOURCE
    local program=${2##*/}
    program=$work/bin/${program%.c}
    mkdir -p "$work/bin"
    "$CC" -o "$program" "$2" -libverbs "${@:3}" || return
    printf '#!/bin/sh\nHMREG_FAKE_CUDA_DEVICES=1 LD_LIBRARY_PATH=%s exec %s "$@"\n' "$fakes/ibverbs:$fakes/cuda" \
        "$program" >"$there/$1"
    chmod +x "$there/$1"
}

# Example 10 on a machine with 32 NICs and 8 GPUs. DEAD_NIC: registers nothing.
make_nearest() {
    local nics
    [[ -x $BUILD_DIR/examples/10-nearest ]] && "$here/documents/machine" "$there/rails" rails || return
    nics=$(seq -s, -f mlx5_%g 0 31)
    printf '#!/bin/sh\nHMREG_FAKE_CUDA_DEVICES=8 HMREG_FAKE_NICS=$(echo %s | sed "s/\\b${DEAD_NIC:-none}\\b/&:dead/") LD_PRELOAD=%s LD_LIBRARY_PATH=%s exec %s "$@"\n' \
        "$nics" "$fake_nic" "$fakes/cuda" "$BUILD_DIR/examples/10-nearest" >"$there/10-nearest"
}

make_there() {
    local name
    mkdir -p "$there/bin" "$there/build"
    make_program program "$here/documents/program.c" && make_program plain_verbs "$SOURCE_DIR/tests/rdma/plain_verbs.c" &&
        make_program gpu-program "$here/documents/gpu_program.c" "-L$fakes/cuda" -lcuda || return
    for name in server client job bin/ib_write_bw; do
        cp "$there/program" "$there/$name"
    done
    for name in my-tests my-test bin/ctest; do
        printf '#!/bin/sh\n' >"$there/$name"
    done
    # mpirun -n 4 COMMAND: one process of it; gdb ... --args COMMAND: without gdb
    printf '#!/bin/sh\nshift 2\nexec "$@"\n' >"$there/bin/mpirun"
    cp "$there/bin/mpirun" "$there/bin/pdsh" # pdsh -w HOSTS COMMAND
    printf '#!/bin/sh\nwhile [ "$1" != --args ]; do shift; done\nshift\nexec "$@"\n' >"$there/bin/gdb"
    printf '#!/bin/sh\nexec %s "$@"\n' "$CC" >"$there/bin/cc"
    printf '#!/bin/sh\n' >"$there/bin/scontrol" # Slurm's
    make_nearest || return
    chmod +x "$there"/my-test* "$there"/bin/* "$there/10-nearest"
    program "$there/bin/hmreg-guest" "$SOURCE_DIR/simulated/guest/guest"
    echo 'int main(void) { return 0; }' >"$there/my.c"
}

make_places() {
    "$CMAKE" --install "$BUILD_DIR" --prefix "$prefix" && make_tree && make_there &&
        "$here/documents/machine" "$work/machine" || return
    "$CMAKE" --install "$BUILD_DIR" --component simulated --prefix "$prefix"
}

# ---- blocks ---------------------------------------------------------------------------------------

# LINE KIND VARIABLES FILE of each block of a document, which is split into files of the folder.
split_blocks() { # DOCUMENT FOLDER
    mkdir -p "$2"
    awk -v folder="$2" '
        /^<!-- with / { with = $0; gsub(/^<!-- with | -->$/, "", with); gsub(/ /, ",", with); next }
        /^ *```/ && !fenced { fenced = 1; kind = $0; sub(/^ *```/, "", kind); file = folder "/" NR
                              print NR, kind == "" ? "none" : kind, with == "" ? "-" : with, file; next }
        /^ *```/ { fenced = 0; with = ""; next }
        fenced { print >file; next }
        /^    [^ ]/ && before == "" { print NR, "indented", "-", $0 }
        { before = $0 }' "$1"
}

is_elsewhere() { # DOCUMENT COMMAND
    local entry
    while read -r entry; do
        [[ $entry && "$1: $2" == "${entry%% => *}"* ]] && return
    done <<<"$elsewhere"
    return 1
}

# Runs a command where it belongs; its output is this function's.
execute() { # VARIABLES COMMAND
    local machine=(HMREG_FAKE_CUDA_DEVICES=2 HMREG_FAKE_NIC=late HMREG_FAKE_NICS=mlx5_0
        "HMREG_DOCTOR_ROOT=$work/machine" FI_PROVIDER=tcp "LD_PRELOAD=$fake_nic" "ASAN_OPTIONS=verify_asan_link_order=0")
    local paths=("PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig" "LD_LIBRARY_PATH=$prefix/$LIBDIR:$fakes/cuda")
    local folder=$there bin=$there/bin:$prefix/bin
    case $2 in
    *'./run '* | *'hmreg/run '* | *.ci/* | apt-get* | cmake* | ldconfig* | *build/release* | *build/fuzz* | *build/dev*)
        folder=$tree bin=$tree/bin machine=() paths=(HOME="$work/user") ;;
    # Programs that get simulated devices in another way; the doctor reads the files of one machine all the same
    *'hmreg-simulated'*' hmreg doctor'*) machine=("HMREG_DOCTOR_ROOT=$work/machine" FI_PROVIDER=tcp) ;;
    *'hmreg run'* | ./* | *hmreg-simulated* | *HMREG_RUN_MODE* | cc\ *) machine=() ;;
    esac
    [[ $1 == - ]] || IFS=, read -ra with <<<"$1"
    [[ $1 == - ]] && local with=()
    (cd "$folder" && env TMPDIR="$work" "${paths[@]}" PATH="$bin:$PATH" "${machine[@]}" "${with[@]}" bash -c "$2" 2>&1)
}

# Each command of a block; those of several lines end where bash finds them complete.
commands_succeed() { # DOCUMENT VARIABLES FILE
    local line command='' expected status executed=0
    while IFS= read -r line; do
        command+=${command:+$'\n'}$line
        [[ $line == *\\ ]] || ! bash -n -c "$command" 2>/dev/null && continue
        [[ $command =~ ^[[:space:]]*(#.*)?$ ]] && command= && continue
        ((++executed))
        if ! is_elsewhere "$1" "$command"; then
            expected=0
            [[ ! $command =~ \#\ status\ ([0-9]+) ]] || expected=${BASH_REMATCH[1]}
            echo "\$ $command"
            [[ $command != *'&' ]] || command+=$'\nwait' # the next one is typed later
            execute "$2" "$command"
            status=$?
            ((status == expected)) || { echo "status $status, not $expected"; return 1; }
        fi
        command=
    done <"$3"
    [[ ! $command ]] && ((executed))
}

# "$ COMMAND" and its output, which a … continues.
prints_what_is_shown() { # VARIABLES FILE
    local command output pattern
    command=$(sed -n '1s/^\$ //p' "$2")
    output=$(execute "$1" "$command")
    pattern=$(sed 1d "$2" | sed 's/[][\\*?]/\\&/g; s/…/*/g')
    printf 'printed:\n%s\nshown:\n%s\n' "$output" "$(sed 1d "$2")"
    # shellcheck disable=SC2053
    [[ $command && $pattern && $output == $pattern ]]
}

# The vendor that this build is without and whose devices a block simulates.
absent_vendor() { # FILE
    local vendor
    for vendor in cuda rocr ze; do
        [[ ! -e $fakes/$vendor ]] && grep -q "hmreg-simulated .*--$vendor\b" "$1" && echo "$vendor" && return
    done
}

check_block() { # DOCUMENT LINE KIND VARIABLES FILE
    local name=${1%.md} absent
    name=documents__${name//\//_}_$2
    case $3 in
    sh)
        absent=$(absent_vendor "$5")
        if grep -qw jq "$5" && ! type -P jq >/dev/null; then
            skip "${name}__succeeds" "jq is not installed"
        elif [[ $absent ]]; then
            skip "${name}__succeeds" "this build is without $absent"
        else
            check "${name}__succeeds" commands_succeed "$1" "$4" "$5"
        fi
        ;;
    console) check "${name}__prints_what_is_shown" prints_what_is_shown "$4" "$5" ;;
    indented) # text, code in a list, a picture
        [[ ! $5 =~ ^\ +(\./run|hmreg|hmreg-[a-z]+|cmake|cc|apt-get|\.ci/[a-z]+|mpirun|gdb|jq)\  ]] ||
            check "${name}__command_is_in_a_block_of_sh" false ;;
    c) ! grep -q '^int main(' "$5" || cp "$5" "$there/hello.c" ;; # readme.sh, manual.sh
    python | cmake | text | toml | rust) ;;                      # manual.sh, install.sh, rust.sh
    none) [[ $1 == examples/* || $1 == docs/man/*.[37].md ]] || check "${name}__says_what_it_is" false ;;
    *) check "${name}__is_of_a_kind" false ;;
    esac
}

check_documents() {
    local document line kind with file
    while read -r document; do
        while read -r line kind with file; do
            check_block "${document#"$SOURCE_DIR/"}" "$line" "$kind" "$with" "$file"
        done < <(split_blocks "$document" "$work/blocks/${document//\//_}")
    done < <(find "$SOURCE_DIR"/{README,CONTRIBUTING,SECURITY}.md "$SOURCE_DIR"/docs "$SOURCE_DIR/examples" \
        "$SOURCE_DIR/simulated" \
        -name '*.md' | grep "${DOCUMENT-}" | sort)
}

# Each entry of the list is about a command that there is.
list_is_used() {
    local entry words
    while read -r entry; do
        words=${entry#*: }
        [[ ! $entry ]] || grep -qF -- "${words%% => *}" "$SOURCE_DIR/${entry%%:*}" || return
    done <<<"$elsewhere"
}

check documents__places_are_made make_places
check documents__executed_elsewhere__are_there list_is_used
check_documents
finish
