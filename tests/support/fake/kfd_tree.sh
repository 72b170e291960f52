#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# kfd_tree.sh FOLDER GPUS: what the kernel's module amdkfd shows in /sys/devices/virtual/kfd/kfd/topology of a processor
# and so many GPUs of 16 GiB, at 0000:23:00.0, 0000:24:00.0 and so on.
set -euo pipefail
rm -rf "$1"
mkdir -p "$1"
cd "$1"

properties() { # FILE NAME=VALUE...
    mkdir -p "${1%/*}"
    printf '%s\n' "${@:2}" | tr = ' ' >"$1"
}

echo 1 >generation_id
properties ./system_properties platform_oem=0 platform_id=0 platform_rev=0
for ((node = 0; node <= $2; node++)); do
    mkdir -p "nodes/$node/caches" "nodes/$node/p2p_links" "nodes/$node/perf"
    links=$((node ? 1 : $2))
    for ((link = 0; link < links; link++)); do
        properties "nodes/$node/io_links/$link/properties" type=2 version_major=0 version_minor=0 node_from=$node \
            node_to=$((node ? 0 : link + 1)) weight=20 flags=1
    done
    properties "nodes/$node/mem_banks/0/properties" heap_type=$((node > 0)) size_in_bytes=$((16 << 30)) flags=0 width=64 \
        mem_clk_max=1600
    common=(mem_banks_count=1 caches_count=0 io_links_count=$links p2p_links_count=0 cpu_core_id_base=0 gds_size_in_kb=0
        domain=0 hive_id=0)
    if ((!node)); then
        echo 0 >nodes/0/gpu_id
        echo >nodes/0/name
        properties nodes/0/properties cpu_cores_count=1 simd_count=0 "${common[@]}"
        continue
    fi
    echo $((4710 + node)) >"nodes/$node/gpu_id"
    echo aldebaran >"nodes/$node/name"
    properties "nodes/$node/properties" cpu_cores_count=0 simd_count=64 "${common[@]}" simd_id_base=2147487744 \
        max_waves_per_simd=8 lds_size_in_kb=64 num_gws=64 wave_front_size=64 array_count=1 simd_arrays_per_engine=1 \
        cu_per_simd_array=16 simd_per_cu=4 max_slots_scratch_cu=32 gfx_target_version=90010 vendor_id=4098 \
        device_id=29711 location_id=$(((0x22 + node) << 8)) drm_render_minor=$((127 + node)) num_sdma_engines=2 \
        num_sdma_queues_per_engine=8 num_cp_queues=24 max_engine_clk_fcompute=1700 local_mem_size=0 fw_version=68 \
        capability=2751489 sdma_fw_version=8 unique_id=$node num_xcc=1 max_engine_clk_ccompute=2000
done
