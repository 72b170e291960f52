#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What the kernel modules' Kbuild files make of kernels of each form. The headers are made by hand, after the lines of
# Linux 5.14, 6.1, 6.3 and of the distributions that have brought the later interface to an earlier version (RHEL 9.5);
# nothing is compiled here.
. "$(dirname "$0")/cases.sh"

command -v make >/dev/null || {
    skip modules "there is no make, which the kernel is built with"
    finish
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# kbuild FOLDER VARIABLE SETTING...: what a Kbuild file sets, for the headers in $work/linux.
kbuild() {
    local folder=$1 variable=$2
    shift 2
    make -s -f - "srctree=$work/linux" "$@" <<<"include $SOURCE_DIR/kernel/${folder}Kbuild
print:
	@echo \$(strip \$($variable))"
}

headers() { # FILE TEXT: alone
    local file=$work/linux/include/linux/$1
    rm -rf "$work/linux"
    mkdir -p "$(dirname "$file")"
    echo "$2" >"$file"
}

flags_are() { # EXPECTED [FOLDER]
    local flags
    flags=$(kbuild "${2-counter/}" ccflags-y)
    echo "$flags"
    [[ $flags == "$1" ]]
}

kfi_flags() { # EXPECTED FILE TEXT
    headers "$2" "$3"
    flags_are "$1" kfi/
}

of_headers() { # EXPECTED FILE TEXT
    headers "$2" "$3"
    flags_are "$1"
}

without_headers() {
    rm -rf "$work/linux"
    flags_are ''
}

builds() { # EXPECTED SETTING...
    local expected=$1 made
    shift
    made=$(kbuild '' obj-m "$@")
    echo "$made"
    [[ $made == "$expected" ]]
}

check modules__linux_5_14__flags_are_written of_headers '' mm.h \
    'static inline void vma_set_anonymous(struct vm_area_struct *vma)'
check modules__linux_6_3__flags_by_the_function of_headers -DHAVE_VM_FLAGS_MOD mm.h \
    'static inline void vm_flags_mod(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)'
check modules__function_in_another_header__found of_headers -DHAVE_VM_FLAGS_MOD mm_inline.h \
    'static inline void vm_flags_mod(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)'
check modules__function_of_a_longer_name__not_taken_for_it of_headers '' mm.h \
    'static inline void __vm_flags_mod(struct vm_area_struct *vma);'
check modules__linux_6_1__kfi_asks_about_the_iommu kfi_flags '' device.h 'bool dma_coherent:1;'
check modules__linux_6_10__kfi_trusts_dma_need_sync kfi_flags -DHAVE_DMA_SKIP_SYNC device.h 'bool dma_skip_sync:1;'
check modules__linux_5_19__kfi_has_the_capabilities_of_its_kernel kfi_flags -DHAVE_IBK_SG_GAPS_REG ../rdma/ib_verbs.h \
    'IBK_SG_GAPS_REG = 1 << 3,'
check modules__no_headers__flags_are_written without_headers
check modules__64_bits_with_rdma__both builds 'counter/ kfi/' CONFIG_64BIT=y CONFIG_INFINIBAND=m
check modules__64_bits_without_rdma__the_counter builds counter/ CONFIG_64BIT=y
check modules__32_bits__none builds '' CONFIG_INFINIBAND=m
finish
