#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The component `simulated`, installed into an empty prefix: programs that know only their vendor's
# interface are built with it and run by hmreg-simulated, also after the prefix was moved; the
# guide's program; the reference and the manual page against the libraries and the command. simulated.sh VENDOR...
. "$(dirname "$0")/cases.sh"

vendors=$*
programs=$(dirname "$(readlink -f "$0")")/simulated
guide=$SOURCE_DIR/docs/simulated.md
reference=$SOURCE_DIR/docs/simulated-reference.md
page=$SOURCE_DIR/docs/man/hmreg-simulated.1.md

if [[ $SANITIZE ]]; then
    skip simulated__component "a library with -fsanitize=$SANITIZE is for programs built alike"
    finish
fi
if [[ ! $vendors ]]; then
    skip simulated__component "this build is without vendors"
    finish
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH ZE_ENABLE_ALT_DRIVERS

has() { # VENDOR
    [[ " $vendors " == *" $1 "* ]]
}

simulate() { # as the user runs it
    "$prefix/bin/hmreg-simulated" "$@"
}

# ---- what is installed --------------------------------------------------------------------

default_is_without_it() {
    [[ ! -e $hmreg/bin/hmreg-simulated && ! -e $hmreg/$LIBDIR/hmreg-simulated ]] || return
    [[ ! -e $hmreg/share/man/man1/hmreg-simulated.1 ]]
}

component_is_all_there_is() {
    local expected=(bin/hmreg-simulated share/{bash-completion/completions/hmreg-simulated,zsh/vendor-completions/_hmreg-simulated,fish/vendor_completions.d/hmreg-simulated.fish} share/doc/hmreg/docs/simulated{,-cuda,-reference,-ze}.md share/doc/hmreg/LICENSES/{BSD-2-Clause,GPL-2.0-only}.txt)
    local folder lib=$LIBDIR/hmreg-simulated
    ((DOCS)) && expected+=(share/man/man1/hmreg-simulated.1)
    for folder in cuda cuda-11.6; do
        has cuda && expected+=("$lib/$folder/"{functions,libcuda.so,libcuda.so.1})
    done
    for folder in rocr rocr-5.2; do
        has rocr && expected+=("$lib/$folder/"{functions,libhsa-runtime64.so,libhsa-runtime64.so.1})
    done
    if [[ $(uname -m) == x86_64 ]]; then
        expected+=(bin/hmreg-guest "$lib/guest/"{guest,prepare,mirror,progress,init,stage2,rdma-up,machine,shim.c,softgpu.h})
        expected+=("$lib/guest/kmod/"{Makefile,kmod.h,bus.c,memory.c,module.c,pageless.c,peers.c,regions.c})
        ((DOCS)) && expected+=(share/man/man1/hmreg-guest.1)
    fi
    [[ " $COMPONENTS " != *" verbs "* ]] || expected+=("$lib/nic/fake_nic.so")
    has ze && expected+=("$lib/ze/"{functions,libze_fake.so,libze_fake2.so})
    diff <(printf '%s\n' "${expected[@]}" | LC_ALL=C sort) <(cd "$prefix" && find . ! -type d | sed 's|^./||' | LC_ALL=C sort)
}

names_no_place() {
    ! grep -rIF -e "$work" -e "$BUILD_DIR" -e "$SOURCE_DIR" "$prefix" || return
    local file
    for file in "$prefix/$LIBDIR"/hmreg-simulated/*/*.so*; do
        ! readelf -d "$file" | grep -E 'R(UN)?PATH' || return
    done
}

# ---- programs -----------------------------------------------------------------------------

# VENDOR [LIBRARY]: from the installation alone; Level Zero's loader is the machine's.
compiles() {
    local library=("-L$(simulate --folder "$1")" "$2")
    "$CC" -std=gnu11 -Wall -Wextra -Werror -o "$work/$1" "$programs/$3" "${library[@]}"
}

# runs LINES "LAST LINE" SWITCH... -- PROGRAM: status 0; stderr is one line.
runs() {
    local lines=$1 last=$2
    shift 2
    simulate "$@" >"$work/stdout" 2>"$work/stderr"
    local status=$?
    cat "$work/stdout" "$work/stderr"
    [[ $status == 0 && $(tail -n 1 "$work/stdout") == "$last" && $(wc -l <"$work/stdout") == "$lines" ]] &&
        [[ $(wc -l <"$work/stderr") == 1 && $(<"$work/stderr") == 'hmreg-simulated: simulated devices: '* ]]
}

ends() { # STATUS WORDS SWITCH...: on stderr
    local expected=$1 words=$2 output status
    shift 2
    output=$(simulate "$@" 2>&1 >/dev/null)
    status=$?
    echo "$output, status $status"
    [[ $status == "$expected" && $output == *"$words"* ]]
}

stdout_is_the_programs() {
    [[ $(simulate "--${vendors%% *}" 1 -- echo 'a  b' 2>/dev/null) == 'a  b' ]]
}

keeps_the_callers_path() {
    [[ $(LD_LIBRARY_PATH=/fly simulate "--${vendors%% *}=1" sh -c 'echo "$LD_LIBRARY_PATH"' 2>/dev/null) == *:/fly ]]
}

cuda_programs() {
    local run=(runs 4 'CUDA 13.0: 3 devices' --cuda 3)
    check "simulated_$1__cuda__compiles" compiles cuda -lcuda cuda.c
    check "simulated_$1__cuda__every_byte" "${run[@]}" -- "$work/cuda"
    SEEKABLE=1 check "simulated_$1__cuda_memfd__seekable_dmabufs" "${run[@]}" --memfd "$work/cuda"
    check "simulated_$1__cuda_11_6__has_no_export" ends 127 'undefined symbol: cuMemGetHandleForAddressRange' \
        --cuda 1 --cuda-version 11.6 "$work/cuda"
    check "simulated_$1__cuda_0__no_device" ends 1 'cuInit(0): error 100' --cuda 0 "$work/cuda"
    check "simulated_$1__cuda_third_allocation_fails__its_code" ends 1 'cuMemAlloc(&one, SIZE): error 2' \
        --cuda 2 --fail cuMemAlloc_v2:2:2:1 "$work/cuda"
    check "simulated_$1__cuda_one_device_without_dmabuf__refused" ends 1 'error 801' \
        --cuda 2 --cuda-no-dmabuf 1 "$work/cuda"
    check "simulated_$1__cuda_forbidden_context__ends" ends 134 'a context is made on device 1' \
        --cuda 2 --cuda-forbid-context=1 sh -c "'$work/cuda'; exit \$?"
}

rocr_programs() {
    check "simulated_$1__rocr__compiles" compiles rocr -lhsa-runtime64 hsa.c
    check "simulated_$1__rocr__every_byte" runs 3 'HSA: 2 GPUs' --rocr 2 -- "$work/rocr"
    check "simulated_$1__rocr_0__no_gpu" runs 1 'HSA: 0 GPUs' --rocr 0 -- "$work/rocr"
    check "simulated_$1__rocr_5_2__has_no_export" ends 127 'undefined symbol: hsa_amd_portable_export_dmabuf' \
        --rocr 1 --rocr-version 5.2 "$work/rocr"
    check "simulated_$1__rocr_start_fails__its_code" ends 1 'hsa_init(): error 4104' \
        --rocr 1 --fail hsa_init:0x1008 "$work/rocr"
}

ze_programs() {
    check "simulated_$1__ze__compiles" compiles ze -lze_loader ze.c
    check "simulated_$1__ze__every_byte" runs 3 'Level Zero: 2 devices of 1 drivers' --ze 2 -- "$work/ze"
    check "simulated_$1__ze_two_drivers__every_byte" runs 5 'Level Zero: 4 devices of 2 drivers' \
        --ze 2 --ze-drivers 2 -- "$work/ze"
    check "simulated_$1__ze_0__no_device" ends 1 'zeInit(ZE_INIT_FLAG_GPU_ONLY): error 2013265921' --ze 0 "$work/ze"
    check "simulated_$1__ze_missing_function__the_loader_answers" ends 1 'error 2013265923' \
        --ze 1 --ze-missing zeMemGetAddressRange "$work/ze"
}

program_of() { # DOCUMENT: the C that it contains
    awk '/^```c$/ { code = 1; next } /^```/ { code = 0 } code' "$1"
}

# The program of the guide, which needs nothing but the installation.
guides_program_runs() {
    program_of "$guide" >"$work/copy.c"
    "$CC" -Wall -Wextra -Werror -o "$work/copy" "$work/copy.c" -L"$(simulate --folder cuda)" -lcuda &&
        runs 1 hello --cuda 1 -- "$work/copy" &&
        ends 1 'simulated devices' --cuda 1 --fail cuMemAlloc_v2:2 -- "$work/copy"
}

# Device memory is none that counts as locked, where there is no room for that.
guides_program_runs_without_locked_memory() {
    local user=()
    ((EUID)) || user=(setpriv --bounding-set=-ipc_lock)
    (ulimit -l 0 && runs 1 hello --cuda 1 -- "${user[@]}" "$work/copy")
}

# An installed hmreg, and the program of the reference.
hmreg_registers_simulated_memory() {
    local -x PKG_CONFIG_PATH=$hmreg/$LIBDIR/pkgconfig LD_LIBRARY_PATH=$hmreg/$LIBDIR
    program_of "$reference" >"$work/hello.c"
    # shellcheck disable=SC2046
    "$CC" -Wall -Wextra -Werror -o "$work/hello" "$work/hello.c" $(pkg-config --cflags --libs hmreg-loopback) &&
        runs 1 hello --cuda 1 -- "$work/hello" && fails 'cuda' "$work/hello"
}

example_uses_simulated_memory() {
    local -x PKG_CONFIG_PATH=$hmreg/$LIBDIR/pkgconfig LD_LIBRARY_PATH=$hmreg/$LIBDIR
    local examples=$hmreg/share/doc/hmreg/examples
    # shellcheck disable=SC2046
    "$CC" -o "$work/device" "$examples/2-device-memory/device.c" "$examples/common/endpoint.c" \
        $(pkg-config --cflags --libs hmreg-ofi) || return
    says 'cuda device 1 (simulated)' simulate --cuda 2 -- "$work/device" &&
        says 'written into device memory' simulate --cuda 2 -- "$work/device"
}

# By a program that knows libibverbs only.
nics_are_listed() {
    cat >"$work/nics.c" <<'END'
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    for (int i = 0; list && list[i]; i++) {
        struct ibv_context *context = ibv_open_device(list[i]);
        struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
        struct ibv_port_attr port = {.state = IBV_PORT_NOP};
        char buffer[64];

        if (context)
            ibv_query_port(context, 1, &port);
        printf("%s %s %s\n", ibv_get_device_name(list[i]), port.state == IBV_PORT_ACTIVE ? "active" : "not-active",
               pd && ibv_reg_mr(pd, buffer, sizeof(buffer), 0) ? "registers" : "refuses");
    }
    return 0;
}
END
    "$CC" -Wall -Wextra -Werror -o "$work/nics" "$work/nics.c" -libverbs &&
        runs 2 'other active registers' --nic mlx5_0 --nic other:good -- "$work/nics"
}

nics_have_states() {
    diff <(simulate --nic a:down --nic b:dead --nic c:closed --nic d -- "$work/nics" 2>&1) - <<'END'
hmreg-simulated: simulated devices: NIC a:down, NIC b:dead, NIC c:closed, NIC d
a not-active registers
b active refuses
c not-active refuses
d active registers
END
}

everything() { # WHERE
    local vendor
    for vendor in $vendors; do
        "${vendor}_programs" "$1"
    done
    if has cuda; then
        check "simulated_$1__program_of_the_guide" guides_program_runs
        check "simulated_$1__program_of_the_guide__no_locked_memory" guides_program_runs_without_locked_memory
        check "simulated_$1__hello_of_an_installed_hmreg" hmreg_registers_simulated_memory
        [[ " $COMPONENTS " != *" ofi "* ]] || check "simulated_$1__example_of_an_installed_hmreg" example_uses_simulated_memory
    fi
    if [[ " $COMPONENTS " == *" verbs "* && $prefix != *' '* ]]; then
        check "simulated_$1__nics__are_listed" nics_are_listed
        check "simulated_$1__nics__have_their_states" nics_have_states
    fi
    check "simulated_$1__names_no_place" names_no_place
    if [[ $(uname -m) == x86_64 ]]; then
        check "simulated_$1__guest__explains_itself" guest_explains_itself
        [[ $prefix == *' '* ]] || # which it refuses
            check "simulated_$1__guest__names_what_it_lacks" guest_needs_its_tools
        check "simulated_$1__guest__folder_of_another_user__not_used" guest_refuses_folders_of_others
    fi
}

# Without a kernel, which it would download: that it finds its files, and names itself and its folder.
guest_explains_itself() {
    local cache=$work/cache
    says 'usage: hmreg-guest [OPTION...] COMMAND' "$prefix/bin/hmreg-guest" --help &&
        says '/dev/softgpu' "$prefix/bin/hmreg-guest" --describe &&
        fails "'6.2'; there are 6.1" env XDG_CACHE_HOME="$cache" "$prefix/bin/hmreg-guest" --kernel 6.2 true &&
        [[ ! -e $prefix/build && ! -e ${prefix%/*}/build ]]
}

# What hmreg-guest needs before it asks for the virtual machine's tools, and none of these.
guest_tools() {
    local tool
    mkdir -p "$work/tools"
    for tool in bash chmod dirname find mkdir readlink stat uname; do
        ln -sf "$(command -v $tool)" "$work/tools"
    done
}

# guest_ends STATUS WORDS: with the cache $work/others, or another.
guest_ends() {
    local status output
    output=$(PATH=$work/tools XDG_CACHE_HOME=${3-$work/others} "$prefix/bin/hmreg-guest" true 2>&1)
    status=$?
    echo "$output, status $status"
    [[ $status == "$1" && $output == *"$2"* ]]
}

# It looks before anything is downloaded or booted. Where it accepts the store, the lack of QEMU is what fails.
guest_refuses_folders_of_others() {
    local others=$work/others refused='belongs to another user' accepted='cannot run here: '
    guest_tools
    rm -rf "$others" "$work/ours"
    mkdir -p "$others/hmreg-guest" "$work/ours"
    guest_ends 125 "$accepted" || return
    if ((EUID)); then # the root folder is another's, and has none
        guest_ends 125 "$refused" /
        return
    fi
    chown 1234 "$others/hmreg-guest" && guest_ends 125 "$refused" || return   # its files are another's
    chown 1234 "$others" && chown 0 "$others/hmreg-guest" && guest_ends 125 "$refused" || return # it may be replaced
    rm -r "$others/hmreg-guest" && guest_ends 125 "$refused" || return         # it may be made
    ln -s "$work/ours" "$others/hmreg-guest" && guest_ends 125 "$refused"      # it is ours, but chosen by another
}

guest_needs_its_tools() {
    guest_tools
    fails 'as root: apt-get install qemu-system-x86 ' env PATH="$work/tools" HOME="$work" XDG_CACHE_HOME="$work/cache" \
        "$prefix/bin/hmreg-guest" true
}

# ---- arguments ----------------------------------------------------------------------------

# "SWITCH VALUE" that it accepts, for each of the usage.
each_switch() {
    simulate --help | sed -nE 's/^  (--[a-z0-9-]+)( ([^ ]+))?(  .*)?$/\1 \3/p' | while read -r name value; do
        case $value in
        '' | N) [[ $value ]] && echo "$name 1" || echo "$name" ;;
        *'|'*) echo "$name ${value%%|*}" && echo "$name ${value##*|}" ;;
        DEVICES) echo "$name 0,1" && echo "$name all" ;;
        SIZE | BYTES) echo "$name 64K" ;;
        NAME\[:STATE]) [[ " $COMPONENTS " != *" verbs "* || $prefix == *' '* ]] || echo "$name mlx5_0:down" ;;
        NAME*) echo "$name zeVirtualMemMap,zeVirtualMemFree" ;;
        CALL*) echo "$name $(head -n 1 "$prefix/$LIBDIR/hmreg-simulated/${vendors%% *}/functions"):1:2:-1" ;;
        *) echo "$name has a value of unknown kind: $value" ;;
        esac
    done
}

each_switch_is_accepted() {
    local line vendor found=0
    while read -r line; do
        vendor=${line%%[ -]*} && vendor=${line#--} && vendor=${vendor%%[ -]*}
        [[ $vendor != @(cuda|rocr|ze) ]] && vendor=${vendors%% *}
        has "$vendor" || continue
        ((++found))
        # shellcheck disable=SC2086
        simulate --$vendor 1 $line -- true || return
    done < <(each_switch)
    echo "$found switches"
    ((found > 8))
}

# Each setting of the simulated runtimes has a switch, and each switch sets one.
settings_have_switches() {
    local sources=("$SOURCE_DIR"/simulated/{engine/fake,cuda/*,rocr/*,ze/*}.c)
    diff <(grep -ohE '"HMREG_FAKE_[A-Z_]+"' "${sources[@]}" | tr -d '"' | grep -v 'HMREG_FAKE_DEVICES' | sort -u) \
        <(grep -oE '\) echo HMREG_FAKE_[A-Z_]+' "$prefix/bin/hmreg-simulated" | sed 's/.* //' | sort -u)
}

page_has_each_switch() {
    diff <(simulate --help | grep -oE '^  --[a-z0-9-]+' | tr -d ' ' | sort -u) \
        <(grep -oE '^\*\*\\--[a-z0-9-]+\*\*' "$page" | tr -d '*\\' | sort -u | grep -vE '^--(functions|folder|version)$')
}

# ---- functions ----------------------------------------------------------------------------

functions_are_the_librarys() {
    local vendor folder=$prefix/$LIBDIR/hmreg-simulated symbols='s/.* T ((cu[A-Z]|hsa_)[A-Za-z0-9_]*).*/\1/p'
    for vendor in "$folder"/{cuda,rocr}*; do
        [[ -d $vendor ]] || continue
        diff <(nm -D "$vendor"/*.so.1 | sed -nE "$symbols" | LC_ALL=C sort) "$vendor/functions" || return
        (($(wc -l <"$vendor/functions") > 20)) || return
    done
    has ze || return 0
    # The names with which the driver's tables are filled.
    diff <(tr -d '\n ' <"$SOURCE_DIR/simulated/ze/ze.c" | grep -oE 'SET\(pfn[A-Za-z]+,"ze[A-Za-z]+"' |
        sed -E 's/.*"(.*)"/\1/' | LC_ALL=C sort) "$folder/ze/functions"
}

# "VENDOR NAME", from the indented lines below "CUDA", "HSA" and "Level Zero".
listed_functions() { # HEADING
    awk -v heading="$1" '/^(CUDA|HSA|Level Zero)[ :]/ { in_it = index($0, heading) == 1; next }
                         /^[^ ]/ { in_it = 0 } in_it' "$reference" | tr -s ' \n' '\n' | grep .
}

reference_lists_them() {
    local vendor
    local -A heading=([cuda]=CUDA [rocr]=HSA [ze]='Level Zero')
    for vendor in $vendors; do
        diff <(listed_functions "${heading[$vendor]}") <(simulate --functions "$vendor") || return
    done
}

guide_is_one_page() {
    (($(wc -l <"$guide") <= 80))
}

links_lead_nowhere_else() { # these pages may be installed alone
    ! grep -nE '\]\([^)#]+\)' "$guide" "$reference" "${reference/reference/cuda}" "${reference/reference/ze}" |
        grep -vE '\]\(simulated(-(cuda|reference|ze))?\.md\)'
}

hmreg=$work/hmreg
prefix=$work/first
one=${vendors%% *}
check simulated__hmreg_installs "$CMAKE" --install "$BUILD_DIR" --prefix "$hmreg"
check simulated__default_install__is_without_it default_is_without_it
check simulated__installs "$CMAKE" --install "$BUILD_DIR" --component simulated --prefix "$prefix"
check simulated__component__nothing_else component_is_all_there_is
everything installed

mv "$prefix" "$work/the second"
prefix="$work/the second"
everything moved
ln -s "$prefix/bin/hmreg-simulated" "$work/link"
check simulated__by_a_link__found says "$prefix/" "$work/link" --folder "$one"

cp -a "$prefix" "$work/a,b"
check simulated__folder_that_the_linker_divides__refused fails 'would divide' \
    "$work/a,b/bin/hmreg-simulated" "--$one" 1 true

check simulated__stdout__is_the_programs stdout_is_the_programs
check simulated__library_path__is_kept keeps_the_callers_path
check simulated__program_fails__its_status ends 7 'simulated devices: 1' "--$one" 1 -- sh -c 'exit 7'
check simulated__no_such_program__127 ends 127 fly-by-night "--$one" 1 fly-by-night
check simulated__help says 'Exit status' simulate --help
check simulated__version says "$VERSION" simulate --version
check simulated__no_program__says_so ends 125 'no program' "--$one" 1
check simulated__no_vendor__says_so ends 125 'name at least one of --cuda N, --rocr N, --ze N, --nic NAME' true
check simulated__unknown_switch__named ends 125 'unknown switch --fly' "--$one" 1 --fly true
check simulated__no_number__named ends 125 "--$one two: not a number from 0 to" "--$one" two true
check simulated__too_many__named ends 125 "--$one 9: not a number from 0 to" "--$one" 9 true
check simulated__octal__refused ends 125 "--$one 01: not a number from 0 to" "--$one" 01 true
check simulated__value_missing__named ends 125 "--$one: its value is missing" "--$one"
check simulated__size__named ends 125 '--memory 5X: not a size' "--$one" 1 --memory 5X true
check simulated__flag_with_value__refused ends 125 '--memfd has no value' "--$one" 1 --memfd=1 true
check simulated__failure_form__named ends 125 '--fail x: not CALL:CODE[:SKIP[:TIMES]]' "--$one" 1 --fail x true
check simulated__failure_of_no_function__named ends 125 '--fail cuFly: no such function is simulated' \
    "--$one" 1 --fail cuFly:1 true
check simulated__functions_of_no_vendor__named ends 125 '--functions fly: accepted are cuda rocr ze' --functions fly
if has cuda; then
    check simulated__devices__named ends 125 '--cuda-no-dmabuf 8: neither all nor numbers' \
        --cuda 1 --cuda-no-dmabuf 8 true
    check simulated__version_of_no_fake__named ends 125 '--cuda-version 12: accepted are 13.0 11.6' \
        --cuda 1 --cuda-version 12 true
    check simulated__switch_of_another_vendor__named ends 125 '--rocr-large-bar: is for --rocr N' \
        --cuda 1 --rocr-large-bar true
    check simulated__vendor_not_installed__named eval \
        'mv "$prefix/$LIBDIR/hmreg-simulated/cuda" "$work/away"; ends 125 "built without that vendor" --cuda 1 true; rc=$?;
         mv "$work/away" "$prefix/$LIBDIR/hmreg-simulated/cuda"; ((!rc))'
fi
check simulated__nic_of_no_state__named ends 125 '--nic fly: accepted are good dead no-dmabuf' --nic mlx5_0:fly true
check simulated__nic_of_no_name__named ends 125 '--nic a b: not NAME[:STATE]' --nic 'a b' true
if [[ " $COMPONENTS " != *" verbs "* ]]; then
    check simulated__nic_without_verbs__named ends 125 'built without libibverbs' --nic mlx5_0 true
else
    check simulated__nic_in_a_folder_with_a_space__named ends 125 'would divide' --nic mlx5_0 true # "the second"
fi
check simulated__each_switch__accepted each_switch_is_accepted
check simulated__each_setting__has_a_switch settings_have_switches
check simulated__manual_page__has_each_switch page_has_each_switch
check simulated__functions__are_the_librarys functions_are_the_librarys
check simulated__reference__lists_them reference_lists_them
check simulated__guide__is_one_page guide_is_one_page
check simulated__guide__may_be_read_alone links_lead_nowhere_else
finish
