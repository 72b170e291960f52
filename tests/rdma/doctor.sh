#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: the doctor proves GPUDirect by dmabuf on real dmabufs and a real RDMA device, and
# its verdict follows the machine: by peer memory alone, without the kernel module, without
# an active port, without the RDMA device, without the GPU. Each state is one run.
. "$SOURCE_DIR/tests/package/cases.sh"
tool=$BUILD_DIR/tools/hmreg
fakes=$BUILD_DIR/simulated
peermem=/sys/module/softgpu/parameters/peermem
export LD_LIBRARY_PATH=$fakes/cuda HMREG_IFACES=cuda FI_PROVIDER=shm

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# run NAME [--no-proof] [COMMAND...]: the doctor's words and status, kept under a name.
run() {
    local name=$1 option=--patience=280
    shift
    [[ ${1-} == --no-proof ]] && option=$1 && shift
    "$@" "$tool" doctor --verbose "$option" >"$work/$name.txt" 2>&1
    echo $? >"$work/$name.status"
}

verdict() { # NAME VERDICT STATUS
    cat "$work/$1.txt"
    grep -qx "${2^^}" "$work/$1.txt" && [[ $(<"$work/$1.status") == "$3" ]]
}

says() { # NAME WORDS
    cat "$work/$1.txt"
    tr -s ' \n' ' ' <"$work/$1.txt" | grep -F -- "$2" >/dev/null
}

finds() { # NAME CODE: with a number, or below the one that explains it
    cat "$work/$1.txt"
    grep -Eq "^ +([0-9]+\.|so:) $2 \(" "$work/$1.txt"
}

is_silent_about() { # NAME CODE
    ! finds "$@"
}

narrow() { # NAME
    awk 'length($0) > 100 { print; bad = 1 } END { exit bad }' "$work/$1.txt"
}

# ---- a good machine -----------------------------------------------------------------------

run good
check doctor__dmabuf_proven__good verdict good good 0
check doctor__dmabuf_proven__says_so says good 'cuda 0, simulated dmabuf ok'
check doctor__dmabuf_proven__every_device \
    says good 'works for 2 of 2 pairs of device and NIC, proven by'
check doctor__fits_100_columns narrow good
check doctor__nic_is_described says good 'RDMA device rxe0 on no bus, port 1 ACTIVE'
check doctor__nothing_better_was_refused is_silent_about good no-peer-memory

# ---- as a user ----------------------------------------------------------------------------

user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
# Where the clone is in a folder that is root's alone, the user may look into it.
"${user[@]}" test -x "$tool" ||
    user+=(--inh-caps +dac_read_search --ambient-caps +dac_read_search)
chmod 600 /dev/infiniband/uverbs0
run closed --no-proof "${user[@]}"
check doctor__user_without_the_file__broken verdict closed broken 2
check doctor__user_without_the_file__names_it \
    says closed 'the file /dev/infiniband/uverbs0 is root:root 0600, and you are'
chmod 666 /dev/infiniband/uverbs0
run user "${user[@]}" bash -c 'ulimit -l 4096; exec "$@"' --
check doctor__user__proves_without_root says user 'cuda 0, simulated dmabuf ok'
check doctor__user__memlock finds user memlock-low
check doctor__user__memlock_counted_in_the_sentence \
    says user 'ulimit -l is 4 MiB; with 1 RDMA device, registrations larger than 4 MiB fail'

# ---- peer memory alone: libibverbs as Debian has it imports no dmabufs on Soft-RoCE -----------

echo 1 >"$peermem"
run peer env LD_PRELOAD=
check doctor__peer_memory__degraded verdict peer degraded 1
check doctor__peer_memory__proven says peer 'cuda 0, simulated peermem ok'
check doctor__peer_memory__better_path_refused finds peer nic-imports-no-dmabuf
check doctor__peer_memory__is_listed says peer 'peer memory clients softgpu'
echo 0 >"$peermem"

# ---- no localhost, for which libfabric's name server would wait --------------------------------

echo "127.0.0.1 guest" >"$work/hosts"
run lonely env FI_PROVIDER=verbs unshare --mount \
    bash -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$work/hosts"
check doctor__localhost_has_no_address__does_not_wait verdict lonely good 0

# ---- no port ------------------------------------------------------------------------------

ip link set eth0 down
run down
check doctor__port_down__broken verdict down broken 2
check doctor__port_down__found finds down no-port
check doctor__port_down__unproven finds down loopback-untried
ip link set eth0 up

# ---- the module is gone: no dmabuf import, no peer memory; the CPU still moves the bytes ------

module=$(find "$SOURCE_DIR/build/guest/$HMREG_GUEST/module" -name softgpu.ko)
rmmod softgpu
run unloaded env FI_PROVIDER=tcp
check doctor__module_unloaded__degraded verdict unloaded degraded 1
check doctor__module_unloaded__no_gpudirect says unloaded 'No GPUDirect here: the CPU moves'
check doctor__module_unloaded__why_no_dmabuf finds unloaded nic-imports-no-dmabuf
check doctor__module_unloaded__why_no_peer_memory finds unloaded no-peer-memory
check doctor__module_unloaded__remedy says unloaded 'or load the vendor'"'"'s peer memory module'
check doctor__module_unloaded__the_cpu_is_proven \
    says unloaded 'proven: host, cuda 0, cuda 1 (the CPU moves'
insmod "$module"
run again
check doctor__module_loaded_again__good verdict again good 0

# ---- devices are gone ---------------------------------------------------------------------

run no-gpu --no-proof env HMREG_FAKE_FAIL=cuInit:100
check doctor__gpu_gone__broken verdict no-gpu broken 2
check doctor__gpu_gone__names_the_runtimes_reason says no-gpu 'no device is visible'
check doctor__gpu_gone__remedy says no-gpu 'make the device visible to this process'

rdma link del rxe0
run no-nic --no-proof
check doctor__nic_gone__broken verdict no-nic broken 2
check doctor__nic_gone__found finds no-nic no-nic
check doctor__nic_gone__remedy says no-nic 'modprobe mlx5_ib, irdma, bnxt_re, efa, ionic_rdma, rdma_rxe'
# Restored for later tests.
check doctor__nic_back "$SOURCE_DIR/simulated/guest/rdma-up"
finish
