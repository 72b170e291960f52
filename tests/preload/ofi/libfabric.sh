#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# libfabric.sh FABRIC VENDOR...: programs on libfabric that know nothing of hmreg, without the hook and
# with it; with HMREG_TEST_LONG=1 for all vendors. The devices are simulated. shm moves a device's bytes only without CMA.
. "$(dirname "$0")/../../package/cases.sh"
. "$(dirname "$0")/prints.sh"
fabric=$1
shift
vendors=("${@:1:1}")
modes=(trace gpu)
hooks=("ofi_hook_noop;hmreg")
if [[ ${HMREG_TEST_LONG-} ]]; then
    vendors=("$@")
    hooks+=("hmreg;ofi_hook_noop" "hmreg;hmreg" "hmreg;absent")
fi
traces=$(mktemp -d)
scratch=$(mktemp -d)
names_before=$(ls /dev/shm)
trap 'rm -rf "$traces" "$scratch"; remove_names' EXIT
export HMREG_RUN_DIR=$traces FI_SHM_DISABLE_CMA=1 FI_PROVIDER=$fabric
ulimit -c 0
cd "$scratch" || exit 1 # libpsm2 writes a file there when a signal ends the program

# The files of endpoints over shm whose programs were ended by a signal.
remove_names() {
    local name
    for name in $(grep -vxF -- "$names_before" <(ls /dev/shm)); do
        [[ $name =~ ^[0-9]+: ]] && ! kill -0 "${name%%:*}" 2>/dev/null && rm -f "/dev/shm/$name"
    done
}

# PROGRAM...: without us.
plainly() {
    env -u FI_PROVIDER_PATH -u FI_HOOK "$@"
}

# MODE PROGRAM...: with the hook, and then prints what it recorded.
hooked() {
    local mode=$1 result
    shift
    rm -f "$traces"/*
    FI_PROVIDER_PATH=$HOOK_DIR FI_HOOK=${hook:-hmreg} HMREG_RUN_MODE=$mode "$@"
    result=$?
    if compgen -G "$traces/*" >/dev/null; then
        "$TRACE_PRINT" "$traces"/*
    fi
    return $result
}

# MODE MEMORY ROUNDS [WORD...]: the program under the hook.
program() {
    local mode=$1
    shift
    hooked "$mode" "$PLAIN" "$fabric" "$@"
}

# COMMAND...: it succeeds, and all bytes were right.
is_right() {
    local output result
    output=$("$@" 2>&1)
    result=$?
    echo "exit status $result: $output"
    [[ $result == 0 && $output == *"all right"* ]]
}

# COMMAND...: it fails.
breaks() {
    ! "$@" >/dev/null 2>&1
}

# SLUG MEMORY ROUNDS [WORD...]: as without us, and the reason is recorded, and that libfabric took the memory for the
# host's.
breaks_for() {
    local slug=$1 output
    shift
    output=$(program gpu "$@" 2>&1) && return 1
    echo "$output"
    [[ $output == *"reason $slug "* && $output == *"registered fi_mr_reg passed $1 system "* ]]
}

# VENDOR: what a runtime in another namespace has cannot be asked.
unknown_apart() {
    local output
    output=$(VENDOR_APART=1 program gpu "$1" 1 offsets 2>&1)
    echo "$output"
    [[ $output == *"registered fi_mr_reg passed unknown "* && $output != *"registered fi_mr_reg passed system none"* ]]
}

# VENDOR FILE: the runtime is loaded as FILE.
program_of() {
    VENDOR_FILE=$2 program gpu "$1" 3 offsets
}

same_output() { # MODE
    local before after
    before=$(plainly "$PLAIN" "$fabric" host 2) || return
    after=$(rm -f "$traces"/*; FI_PROVIDER_PATH=$HOOK_DIR FI_HOOK=hmreg HMREG_RUN_MODE=$1 \
        "$PLAIN" "$fabric" host 2 2>&1) || return
    echo "before: $before"
    echo "after: $after"
    [[ $before == "$after" ]]
}

# fi_pingpong's rows but for its times and rates; its client under the words of `under`.
under=() bytes=4096
pingpong() {
    local server result
    while tcp_is_listening "$port"; do # another program
        ((++port))
    done
    fi_pingpong -p "$fabric" -e rdm -I 5 -S "$bytes" -B "$port" >"$scratch/server.out" 2>&1 &
    server=$!
    until tcp_is_listening "$port" || ! kill -0 $server 2>/dev/null; do
        sleep 0.1
    done
    "${under[@]}" fi_pingpong -p "$fabric" -e rdm -I 5 -S "$bytes" -P "$port" 127.0.0.1 >"$scratch/client.out" 2>&1
    result=$?
    ((result)) && kill $server 2>/dev/null
    wait $server || result=1
    awk '{ print $1, $2, $3, $4 }' "$scratch/client.out" "$scratch/server.out"
    return $result
}

any_port() { # of a range of this run's fabric, since CTest runs both at once
    local from=20000
    [[ $fabric != shm ]] || from=25000
    echo $((from + RANDOM % 5000))
}

same_pingpong() { # MODE
    local before after
    port=$(any_port)
    before=$(plainly_pingpong) || { echo "without us: $before"; return 1; }
    port=$((port + 1))
    after=$(export FI_PROVIDER_PATH=$HOOK_DIR FI_HOOK=hmreg HMREG_RUN_MODE=$1; pingpong)
    echo "before: $before"
    echo "after: $after"
    [[ $before == *bytes* && $before == "$after" ]]
}

# Above tcp, ofi_rxm registers each large message (of libfabric 2.1 those of a megabyte, not of 64 KiB), which no cache
# of the program's would save.
says_that_libfabric_registers() {
    local fabric='tcp;ofi_rxm' bytes=1048576 under=("$HMREG" run --output "$scratch/report")
    local port=$(any_port)
    FI_PROVIDER=tcp,ofi_rxm pingpong
    cat "$scratch/report"
    grep -q 'libfabric made [0-9]* of them for its own use, as its provider ofi_rxm does' "$scratch/report" &&
        ! grep -q 'a cache would save' "$scratch/report"
}

plainly_pingpong() {
    unset FI_PROVIDER_PATH FI_HOOK
    pingpong
}

# A region of the host's is recorded once, although tcp's and ofi_rxm's domains see it.
check "${fabric}__trace__each_registration_and_end_once" \
    prints "registered fi_mr_reg passed system system remote 0 3" \
    "registered fi_mr_reg passed system system written 0 3" "ended 3" "live 0" "unknown 0" "again 2" \
    -- program trace host 3
check "${fabric}__trace__region_left_at_the_end_is_live" \
    prints "live 1" -- program trace host 1 leave
# libfabric 1.17's ofi_rxm itself frees such a domain twice.
stay=""
plainly "$PLAIN" "$fabric" host 1 stay >/dev/null 2>&1 && stay=stay
for mode in "${modes[@]}"; do
    check "${fabric}__${mode}__same_output" same_output "$mode"
    check "${fabric}__${mode}__child_between__right_bytes" \
        is_right program "$mode" host 2 child
    [[ $stay ]] && check "${fabric}__${mode}__domain_with_a_region__busy" \
        is_right program "$mode" host 3 stay
    check "${fabric}__${mode}__provider_chooses_keys__right_bytes" \
        is_right program "$mode" host 3 basic
done

for vendor in "${vendors[@]}"; do
    check "${fabric}__${vendor}_without_us__breaks" \
        breaks plainly "$PLAIN" "$fabric" "$vendor" 1 offsets
    check "${fabric}__${vendor}_with_gpu__right_bytes" \
        prints "registered fi_mr_reg made $vendor mapped remote 0 3" "live 0" "unknown 0" \
        -- program gpu "$vendor" 3 offsets
    check "${fabric}__${vendor}_with_gpu_and_a_child__right_bytes" \
        prints "registered fi_mr_reg made $vendor mapped remote 0 3" \
        -- program gpu "$vendor" 3 offsets child
    check "${fabric}__${vendor}_peers_use_its_addresses__passed_on" \
        breaks_for virtual-addresses "$vendor" 1 basic
done

# However a program names the runtime that it loads, it is known by the name that it has itself.
declare -A files=([cuda]=libcuda.so [rocr]=libhsa-runtime64.so)
for vendor in "${vendors[@]}"; do
    [[ ${files[$vendor]-} ]] || continue
    folder=${LD_LIBRARY_PATH%%"/$vendor"*}/$vendor
    folder=${folder##*:}
    ln -sf "$folder/${files[$vendor]}" "$scratch/${files[$vendor]}.550.54"
    for name in "${files[$vendor]}" "$scratch/${files[$vendor]}.550.54"; do
        check "${fabric}__${vendor}_loaded_as_${name##*/}__right_bytes" \
            prints "registered fi_mr_reg made $vendor mapped remote 0 3" "live 0" "unknown 0" \
            -- program_of "$vendor" "$name"
    done
    check "${fabric}__${vendor}_in_a_namespace_of_its_own__unknown" \
        unknown_apart "$vendor"
done

# The last hook sees a call first; libfabric's own makes fi_mr_regattr() of all.
for others in "${hooks[@]}"; do
    hook=$others
    call=fi_mr_reg
    [[ $others == *ofi_hook_noop ]] && call=fi_mr_regattr
    check "${fabric}__hooks_${others//;/_and_}__recorded_once" \
        prints "registered $call passed system system remote 0 2" "ended 2" "unknown 0" \
        -- program trace host 2
done
hook=hmreg

if [[ $fabric != tcp ]]; then
    skip "${fabric}__fi_pingpong" "it needs a network address"
elif ! command -v fi_pingpong >/dev/null; then
    skip "${fabric}__fi_pingpong" "it is not installed: Debian's libfabric-bin has it"
else
    for mode in "${modes[@]}"; do
        check "${fabric}__${mode}__fi_pingpong_prints_the_same" same_pingpong "$mode"
    done
    if [[ $HMREG ]]; then
        check "${fabric}__run__registrations_of_libfabric_itself_named" says_that_libfabric_registers
    fi
fi
finish
