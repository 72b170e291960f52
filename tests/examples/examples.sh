#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Each example does what its README says, and fails where it says so.
. "$(dirname "$0")/../package/cases.sh"
. "$(dirname "$0")/../package/shown.sh"

examples=$BUILD_DIR/examples
fakes=$BUILD_DIR/simulated
simulated=(env "LD_LIBRARY_PATH=$fakes/cuda:$fakes/rocr${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    "ZE_ENABLE_ALT_DRIVERS=$fakes/ze/libze_fake.so")

# To these examples all vendors' memory is alike, and one rail is less than four: the first tier has one vendor, with the
# newest version of the plugin, and four rails. The READMEs' commands have every version, and two rails.
one=${VENDORS%% *} version=(-v 12) rail_counts=4
[[ ! ${HMREG_TEST_LONG-} ]] || one=$VENDORS version=() rail_counts='1 2 4'

# Every simulated device of every vendor built in is written, and nothing else.
device_memory() {
    local output vendor
    output=$("${simulated[@]}" "$examples/2-device-memory") || return
    echo "$output"
    for vendor in $VENDORS; do
        [[ $output == *"$vendor device 0 (simulated)"* ]] || return
        [[ $output == *"$vendor device 1 (simulated)"* ]] || return
    done
    [[ $(grep -c 'path mapped' <<<"$output") == $(grep -c simulated <<<"$output") ]] &&
        [[ $(grep -c 'written into device memory' <<<"$output") == $(grep -c simulated <<<"$output") ]]
}

usage_of() { # COMMAND...
    local output status
    output=$("$@" 2>&1)
    status=$?
    echo "$output"
    [[ $status == 2 && $output == *usage:* ]]
}

# tcp by its name in this libfabric: 1.17's is layered, later ones' is not.
tcp_says() { # WORDS COMMAND...
    local words=$1 output
    shift
    output=$("$@" 2>&1) && echo "$output" &&
        [[ $output == "tcp: $words" || $output == "tcp;ofi_rxm: $words" ]]
}

# Each command of each README; rdma_readmes has those that begin in the guest.
check_shown() { # README
    local number name command program
    for ((number = 1; number <= $(shown_count "$1"); number++)); do
        command=$(shown_command "$1" "$number")
        name=readme__of_$(basename "${1%/*}")__command_$number
        program=$(grep -oE 'build/dev/examples/[0-9a-z-]+' <<<"$command" | head -n 1)
        if [[ $command == *'./run guest '* || $command == ./[0-9]* ]]; then
            continue # rdma_readmes and package_documents execute them
        elif [[ $command == *fakes/cuda* && " $VENDORS " != *" cuda "* ]]; then
            skip "$name" "the CUDA vendor is not built in"
        elif [[ $program && ! -e $work/$program ]]; then
            skip "$name" "this build is without ${program##*/}"
        else
            check "$name" prints_what_is_shown "$1" "$number"
        fi
    done
}

for readme in "$SOURCE_DIR"/examples/*/README.md; do
    check_shown "$readme"
done
check host__tcp__written tcp_says "written through the fabric" "$examples/1-host-over-libfabric"
check host__shm__written says "shm: written through the fabric" \
    "$examples/1-host-over-libfabric" shm
check host__no_such_fabric__fails fails "nosuch: No data available" \
    "$examples/1-host-over-libfabric" nosuch
if [[ $VENDORS ]]; then
    check device__simulated_ones__each_written device_memory
    check device__no_runtime__says_why says "no device here" \
        env HMREG_IFACES=system "$examples/2-device-memory"
else
    skip device__simulated_ones__each_written "no vendor is built in"
fi
check tokens__tcp__owner_finds_it tcp_says 'the owner finds "written by another process" in each of its buffers' \
    "$examples/3-token-exchange"
check tokens__shm__owner_finds_it says 'shm: the owner finds "written by another process" in each' \
    "$examples/3-token-exchange" shm
check tokens__no_such_fabric__fails fails "nosuch: No data available" \
    "$examples/3-token-exchange" nosuch
# A shm that grants FI_HMEM receives the memory's iface, and then does not ask the kernel for pages.
for vendor in $one; do
    check "gpudirect__${vendor}_over_shm__mapped" says "shm: the peer's bytes are in $vendor memory, path mapped" \
        "${simulated[@]}" "$examples/5-gpudirect-libfabric" "$vendor" shm
    check "gpudirect__${vendor}_over_tcp__mapped" tcp_says "the peer's bytes are in $vendor memory, path mapped" \
        "${simulated[@]}" "$examples/5-gpudirect-libfabric" "$vendor" tcp
done
# Each rail count, and a ring whose processes wait for each other on every rail.
for rails in $rail_counts; do
    check "allreduce__${rails}_rails_over_tcp__every_float_is_right" \
        tcp_says "3 processes, $rails rails, system memory, path system: every float is right; 13 of 15 gets were hits" \
        "$examples/6-allreduce" -n 3 -r "$rails"
done
check allreduce__4_rails_over_shm__every_float_is_right \
    says "shm: 4 processes, 4 rails, system memory, path system: every float is right" \
    "$examples/6-allreduce" -r 4 shm
for vendor in $one; do
    check "allreduce__${vendor}__every_float_is_right" \
        tcp_says "4 processes, 2 rails, $vendor memory (simulated), path mapped: every float is right; 19 of 21 gets were hits" \
        "${simulated[@]}" "$examples/6-allreduce" -i "$vendor"
done
. "$(dirname "$0")/mpi.sh"
mpi=("${mpiexec[@]}" -n 3 "$program" -a 127.0.0.1,127.0.0.2,127.0.0.3)
if has_mpi; then
    check allreduce__of_mpiexec__every_float_is_right \
        tcp_says "3 processes, 2 rails, system memory, path system: every float is right; 13 of 15 gets were hits" "${mpi[@]}"
    # mpiexec may end before it has passed on what the first rank that failed has said.
    check allreduce__of_mpiexec__no_such_fabric__fails fails "" "${mpi[@]}" nosuch
else
    skip allreduce__of_mpiexec__every_float_is_right "MPI is not installed"
fi
check allreduce__no_such_fabric__fails fails ": No data available" \
    "$examples/6-allreduce" nosuch
check allreduce__wrong_arguments__usage usage_of "$examples/6-allreduce" -r 3
check allreduce__no_such_option__usage usage_of "$examples/6-allreduce" -x
nccl=(env HMREG_NCCL_FABRIC=libfabric/tcp "$examples/7-nccl-net")
library=$examples/libnccl-net-hmreg.so
if [[ -x $examples/7-nccl-net ]]; then
    for vendor in $one; do
        check "nccl__${vendor}__every_byte_is_right" \
            says "1 NIC, $vendor memory by its address: every byte is right" \
            "${simulated[@]}" "${nccl[@]}" -i "$vendor" -s 9 "${version[@]}" "$library"
    done
    check nccl__peer_is_killed__reported says "system memory: the end of the peer was reported" "${nccl[@]}" -k "$library"
    check nccl__no_such_fabric__fails fails "No data available" \
        env HMREG_NCCL_FABRIC=libfabric/nosuch "$examples/7-nccl-net" "$library"
    check nccl__two_nics_over_libfabric__fails fails "fusing devices" "${nccl[@]}" -n 2 "$library"
    check nccl__wrong_arguments__usage usage_of "$examples/7-nccl-net" -n 5 "$library"
fi
if [[ -x $examples/4-gpudirect-verbs ]] && ! compgen -G '/sys/class/infiniband/*' >/dev/null; then
    check verbs__no_device__says_where_to_look fails 'see `rdma link`, or `hmreg doctor`' \
        "$examples/4-gpudirect-verbs" system
fi
finish
