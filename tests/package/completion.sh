#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Completion in bash against what the commands accept: each refusal lists the commands, options and
# values that there are; zsh's and fish's against bash's. completion.sh HMREG [HMREG-SIMULATED]
. "$(dirname "$0")/cases.sh"

hmreg=$1 simulated=
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ ${2-} ]]; then # the build's is not executable, nor has it its folder
    mkdir -p "$work/bin" "$work/$LIBDIR/hmreg-simulated"
    simulated=$work/bin/hmreg-simulated
    cp "$2" "$simulated" && chmod +x "$simulated"
fi
. "$SOURCE_DIR/tools/completion/hmreg"

# complete FUNCTION WORD...: what is offered for the last word, one a line.
complete() {
    local COMP_WORDS=("${@:2}") COMPREPLY=()
    local COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    "$1" 2>/dev/null
    printf '%s\n' "${COMPREPLY[@]}" | grep . | sort
}

offers() { # "WORDS" FUNCTION WORD...
    diff <(tr ' ' '\n' <<<"$1" | grep . | sort) <(complete "${@:2}") >"$work/diff" || ! head -n 20 "$work/diff"
}

# What a refusal lists behind "accepted are".
accepted() { # ARGUMENT...
    "$hmreg" "$@" 2>&1 >/dev/null | sed -nE 's/.*accepted are //; T; s/,//g; p'
}

each_command() {
    accepted no-such
}

# Another user's program of the command's name, or one that all may write, is not run.
strangers_command_is_not_run() { # OWNER MODE FUNCTION
    printf '#!/bin/sh\necho >"%s/was-run"\n' "$work" >"$work/hmreg"
    chown "$1" "$work/hmreg" && chmod "$2" "$work/hmreg"
    rm -f "$work/was-run"
    complete "$3" "$work/hmreg" '' >/dev/null
    [[ ! -e $work/was-run ]]
}

commands_are_offered() {
    [[ $(each_command | wc -w) -gt 5 ]] && offers "$(each_command)" _hmreg "$hmreg" '' &&
        offers "$(each_command)" _hmreg "$hmreg" help ''
}

options_are_offered() { # COMMAND
    local all
    all=$(accepted "$1" --no-such)
    [[ $all == *--help* ]] && offers "$all" _hmreg "$hmreg" "$1" --
}

values_are_offered() { # COMMAND OPTION
    local all
    all=$(accepted "$1" "$2" no-such)
    [[ $all == *' '* ]] && offers "$all" _hmreg "$hmreg" "$1" "$2" '' && offers "$all" _hmreg "$hmreg" "$1" "$2" = ''
}

findings_are_offered() {
    local found
    found=$("$hmreg" doctor --explain list | awk 'NR > 1 { print $1 }')
    [[ $(wc -w <<<"$found") -gt 40 ]] && offers "list $found" _hmreg "$hmreg" doctor --explain ''
}

# A process that has the library open is offered by its PID.
processes_are_offered() {
    local pid words status
    coproc library { exec python3 -c 'import ctypes, sys
lib = ctypes.c_void_p()
ctypes.CDLL(sys.argv[1]).hmreg_open(None, ctypes.byref(lib))
print("open", flush=True)
sys.stdin.read()' "$BUILD_DIR/core/libhmreg.so"; }
    pid=$library_PID
    read -r words <&"${library[0]}" && [[ $words == open ]] && complete _hmreg "$hmreg" stats '' | grep -qx "$pid" &&
        complete _hmreg "$hmreg" stats "${pid%?}" | grep -qx "$pid"
    status=$?
    kill "$pid"
    wait "$pid" 2>/dev/null
    return $status
}

switches_are_offered() {
    offers "$(sed -nE 's/^    (--[a-z0-9-]+)\) echo HM.*/\1/p' "$simulated")
        --nic --ze-drivers --cuda-version --rocr-version --functions --folder --version --help" _hmreg_simulated "$simulated" --
}

# ---- other shells -------------------------------------------------------------------------

# As they are installed, beside bash's.
install_completions() {
    local name share=$work/share
    mkdir -p "$share"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    for name in hmreg hmreg-simulated; do
        cp "$SOURCE_DIR/tools/completion/hmreg" "$share/bash-completion/completions/$name"
        cp "$SOURCE_DIR/tools/completion/hmreg.zsh" "$share/zsh/vendor-completions/_$name"
        cp "$SOURCE_DIR/tools/completion/hmreg.fish" "$share/fish/vendor_completions.d/$name.fish"
    done
}

by_zsh() { # WORD...
    zsh -fc 'fpath=($1 $fpath) name=${2:t}
        autoload -Uz compinit && compinit -D -u && [[ $_comps[$name] == _$name || $name != hmreg ]] || exit
        compadd() { [[ $1 != -S ]] || shift 2; shift; print -rl -- "$@" }
        shift && words=("$@") CURRENT=$#words && autoload +X _$name && _$name' - "$work/share/zsh/vendor-completions" "$@" | sort
}

by_fish() { # WORD...: of a fish that has no file of its user's
    HOME=$work/home XDG_CONFIG_HOME=$work/home XDG_DATA_HOME=$work/home fish -c 'source $argv[1]; complete -C "$argv[2..]"' \
        "$work/share/fish/vendor_completions.d/${1##*/}.fish" "$@" | cut -f 1 | sort
}

offers_as_bash() { # SHELL FUNCTION WORD...
    complete "${@:2}" >"$work/expected"
    [[ -s $work/expected ]] && diff "$work/expected" <("by_$1" "${@:3}")
}

# Such a word is divided for bash alone.
offers_joined_values() { # SHELL
    offers_as_bash "$1" _hmreg "$hmreg" doctor --explain memlock- &&
        diff <(complete _hmreg "$hmreg" doctor --explain = memlock- | sed 's/^/--explain=/') \
            <("by_$1" "$hmreg" doctor --explain=memlock-)
}

offers_folders_with_a_slash() { # SHELL
    mkdir -p "$work/files/fly-folder" && touch "$work/files/fly-file"
    diff <(printf '%s\n' "$work/files/fly-file" "$work/files/fly-folder/") <("by_$1" "$hmreg" verify --out "$work/files/fl")
}

program_is_offered() { # FUNCTION WORD...
    complete "$@" tr | grep -qx true || complete "$@" tru | grep -qx true
}

check completion__commands_are_those_accepted commands_are_offered
for command in $(each_command); do
    [[ $command == help ]] || check "completion__${command}__options_are_those_accepted" options_are_offered "$command"
done
check completion__plan_iface__values_are_those_accepted values_are_offered plan --iface
check completion__doctor_explain__findings findings_are_offered
check completion__verify_check__checks offers "$("$hmreg" verify --list)" _hmreg "$hmreg" verify --check ''
if [[ $SANITIZE ]] || ! type -P python3 >/dev/null; then
    skip completion__stats__processes "Python loads no library of a sanitizer, or is not installed"
else
    check completion__stats__processes processes_are_offered
fi
check completion__beginning__what_begins_so offers doctor _hmreg "$hmreg" do
check completion__beginning_of_option__what_begins_so offers --json _hmreg "$hmreg" info --j
check completion__value_of_any_kind__nothing offers '' _hmreg "$hmreg" doctor --patience ''
check completion__file__files offers "$0" _hmreg "$hmreg" verify --out "${0%e.sh}"
check completion__no_such_command__nothing offers '' _hmreg "$hmreg" no-such --
# A device's name, which verify --list prints, is no command.
hostile_list() {
    local fake
    fake=$(mktemp -d)
    printf '#!/bin/sh\n%s\n' "printf '%s\\n' 'loopback/good' '\$(touch\$IFS$fake/ran)' 'x\`touch\${IFS}$fake/ran\`'" >"$fake/hmreg"
    chmod +x "$fake/hmreg"
    offers loopback/good _hmreg "$fake/hmreg" verify --check '' && [[ ! -e $fake/ran ]]
    local status=$?
    rm -r "$fake"
    return $status
}
check completion__name_with_a_command__not_run hostile_list
check completion__command_that_all_may_write__not_run strangers_command_is_not_run "$EUID" 777 _hmreg
check completion__simulated_that_all_may_write__not_run strangers_command_is_not_run "$EUID" 777 _hmreg_simulated
if ((EUID)); then
    skip completion__command_of_another_user__not_run 'only root makes files of another user'
else
    check completion__command_of_another_user__not_run strangers_command_is_not_run 65534 755 _hmreg
fi
check completion__no_hmreg__nothing offers '' _hmreg /nonexistent/hmreg ''
if [[ " $(each_command) " == *' run '* ]]; then
    check completion__run__program program_is_offered _hmreg "$hmreg" run --gpu --follow 5
    check completion__run_with_dashes__program program_is_offered _hmreg "$hmreg" run --
    check completion__run_by__values_are_those_accepted values_are_offered run --by
    check completion__run_optional_value__offered_behind_its_sign offers 'watch' _hmreg "$hmreg" run --trace = ''
    check completion__run_options_of_the_program__not_ours offers '' _hmreg "$hmreg" run true --gp
else
    skip completion__run "this build's command has no run"
fi
install_completions
for shell in zsh fish; do
    if ! type -P $shell >/dev/null; then
        skip completion__$shell "$shell is not installed"
        continue
    fi
    check completion__${shell}__commands offers_as_bash $shell _hmreg "$hmreg" ''
    for command in $(each_command); do
        [[ $command == help ]] || check "completion__${shell}__${command}__options" offers_as_bash $shell _hmreg "$hmreg" "$command" --
    done
    check completion__${shell}__values offers_as_bash $shell _hmreg "$hmreg" plan --iface ''
    check completion__${shell}__value_behind_its_sign offers_joined_values $shell
    check completion__${shell}__folder__with_a_slash offers_folders_with_a_slash $shell
    [[ ! $simulated ]] || check completion__${shell}__simulated offers_as_bash $shell _hmreg_simulated "$simulated" --
done
if [[ $simulated ]]; then
    check completion__simulated__options_are_its_switches switches_are_offered
    check completion__simulated__value_with_choices offers '11.6 13.0' _hmreg_simulated "$simulated" --cuda 1 --cuda-version ''
    check completion__simulated__program program_is_offered _hmreg_simulated "$simulated" --cuda 1 --
else
    skip completion__simulated "this build is without the component simulated"
fi
finish
