#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: the commands of examples/8-kernel/README.md build the modules and load them, as they stand there; the
# example registers memory when it is loaded, and ends that when it is unloaded. On Soft-iWARP it cannot, and says so.
. "$SOURCE_DIR/tests/package/cases.sh"
built=$SOURCE_DIR/build/guest/$HMREG_GUEST/kfi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/kernel" "$work/examples" "$work/bin" "/lib/modules/$(uname -r)"
cp -r "$SOURCE_DIR/kernel/kfi" "$work/kernel"
cp -r "$SOURCE_DIR/examples/8-kernel" "$work/examples"
ln -sfn "$SOURCE_DIR/build/guest/$HMREG_GUEST/kbuild" "/lib/modules/$(uname -r)/build" # of the headers' package
# make: emulation would take minutes for what ./modules has built, by the same variables.
cat >"$work/bin/make" <<'END'
#!/bin/bash
set -e
[[ $1 == -C && -e $2/Makefile && $3 == M=* && ${!#} == modules ]]
folder=${3#M=}
[[ -e $folder/Kbuild ]]
case $folder in
*/kernel/kfi) (($# == 4)) && cp "$BUILT"/plain/{*.ko,Module.symvers} "$folder" ;;
*/8-kernel) [[ -e ${4#KFI=}/hmreg_kfi.h && -e ${5#KBUILD_EXTRA_SYMBOLS=} ]] && cp "$BUILT"/example/*.ko "$folder" ;;
esac
END
chmod +x "$work/bin/make"
rmmod hmreg_kfi_client hmreg_kfi 2>/dev/null # the tests' own
says='rxe0: kernel_memory: 65536 bytes at (0x)?[0-9a-f]+ by key 0x[0-9a-f]+'
[[ ! -e /sys/class/infiniband/siw0 ]] || says='siw0: kernel_memory: -95'

shown_commands() {
    awk '/^```/ { on = !on; next } on' "$SOURCE_DIR/examples/8-kernel/README.md"
}

load() {
    local output
    dmesg --clear
    output=$(cd "$work" && BUILT=$built PATH=$work/bin:$PATH bash -ec "$(shown_commands)" 2>&1) || { echo "$output"; return 1; }
    grep -E "infiniband $says$" <<<"$output"
}

regions() {
    rdma resource show mr | tee /dev/stderr | grep -c 'mrlen 65536 .*kernel_memory'
}

is_listed() {
    [[ $(regions) == 1 ]]
}

module_is_in_use() {
    ! rmmod hmreg_kfi
}

unload() {
    rmmod kernel_memory && rmmod hmreg_kfi && [[ $(regions) == 0 ]]
}

check readme__its_commands__say_the_key_or_why_not load
[[ $says == siw0* ]] || check region__is_listed_by_rdma is_listed
check unload__in_use__refused module_is_in_use
check unload__region_is_gone unload
finish
