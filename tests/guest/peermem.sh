#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# peermem.sh PROGRAM [ARGUMENT...]: in the guest, its cases over NVIDIA's nvidia-peermem in the place of the imitation.
built=$SOURCE_DIR/build/guest/$HMREG_GUEST/peermem
counters=/sys/module/softgpu_p2p/parameters
if [[ ! -e $built/softgpu_p2p.ko ]]; then
    echo "SKIPPED because: tests/guest/peermem/modules could not fetch the source of nvidia-peermem"
    echo '0 passed, 0 failed, 1 skipped'
    exit 77
fi

failed() {
    echo "FAILED: $*"
    echo '0 passed, 1 failed, 0 skipped'
    exit 1
}

! insmod "$built/plain/nvidia-peermem.ko" 2>/dev/null || failed "it was loaded by a kernel without peer memory"
insmod "$built/softgpu_p2p.ko" || failed "softgpu_p2p.ko"
insmod "$built/nvidia-peermem.ko" ${PEERDIRECT:+peerdirect_support=$PEERDIRECT} || failed "nvidia-peermem.ko"
"$@"
status=$?
mappings=$(<$counters/mappings) tables=$(<$counters/tables)
echo "nvidia-peermem $(</sys/module/nvidia_peermem/version): $mappings mappings, $(<$counters/callbacks) callbacks" >&2
rmmod nvidia_peermem softgpu_p2p || failed "it keeps something"
((mappings)) || failed "it was not used"
((!tables)) || failed "$tables page tables are left"
exit $status
