/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The state of libfabric's subjects, for measurements that register on the same domain by both.
 */
#ifndef BENCH_SUBJECT_OFI_H
#define BENCH_SUBJECT_OFI_H

struct ofi_peer {
    struct fid_domain *domain;
    struct fi_info *info; /* the info that the domain was opened with */
};

#endif
