#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# By two-nics.sh: example 7's plugin, called as NCCL calls it, over verbs with one NIC and with two, with host memory and
# with simulated device memory by dmabuf, and over libfabric's verbs.
. "$SOURCE_DIR/tests/package/cases.sh"
examples=$BUILD_DIR/examples
export LD_LIBRARY_PATH=$BUILD_DIR/simulated/cuda HMREG_NCCL_ADDRESS=127.0.0.1

driver() { # FABRIC [OPTION...]
    HMREG_NCCL_FABRIC=$1 "$examples/7-nccl-net" -s 9 -c "$CLEAN" "${@:2}" "$examples/libnccl-net-hmreg.so"
}

every_version() { # COUNT WORDS FABRIC [OPTION...]: as many lines with these words
    local output
    output=$(driver "${@:3}" 2>&1) && echo "$output" && [[ $(grep -c "$2: every byte is right" <<<"$output") == "$1" ]]
}

# The first tier has what only this test shows, a group of two NICs and the end of its peer: every version and host memory
# are in ofi_examples, over tcp, and one NIC is in rdma_readmes.
long='' newest=(-v 12) of_two=1
[[ ${HMREG_TEST_LONG-} != 1 ]] || long=1 newest=() of_two=3
if [[ " $VENDORS " == *" cuda "* ]]; then
    [[ ! $long ]] ||
        check verbs__device__every_byte_is_right every_version 3 "1 NIC, cuda memory by dmabuf" verbs -i cuda
    check verbs__device_two_nics__every_byte_is_right every_version $of_two "2 NICs, cuda memory by dmabuf" \
        verbs -i cuda -n 2 "${newest[@]}"
    check verbs__device_peer_of_two_nics_is_killed__reported says "the end of the peer was reported" \
        driver verbs -i cuda -n 2 -k
else
    long=1
    skip verbs__device_two_nics__every_byte_is_right "the CUDA vendor is not built in"
fi
if [[ $long ]]; then
    check verbs__host__every_byte_is_right every_version 1 "1 NIC, system memory" verbs -v 12
    check verbs__two_nics__every_byte_is_right every_version 1 "2 NICs, system memory" verbs -n 2 -v 12
    check verbs__peer_is_killed__reported says "the end of the peer was reported" driver verbs -k
    check verbs__after_a_round__the_command_decides fails "after a round" driver verbs -v 12 -s 1 -c false
    check libfabric_verbs__host__every_byte_is_right every_version 1 "1 NIC, system memory" libfabric/verbs -v 12
fi
finish
