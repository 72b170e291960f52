// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The types and values of hmreg_kfi.h are kfabric's, on 64-bit machines. Compiled after kfabric's
 * own <kfi_domain.h> and <kfi_errno.h> (-DKFABRIC), the same numbers hold for those.
 */
#ifdef KFABRIC
#include <kfi_domain.h>
#include <kfi_errno.h>
#endif
#include "hmreg_kfi.h"

#define IS(name, value)            static_assert((unsigned long long)(name) == (value))
#define AT(type, member, position) IS(offsetof(struct type, member), position)

IS(sizeof(struct kfi_ops), 40);
AT(kfi_ops, close, 8);
AT(kfi_ops, bind, 16);
AT(kfi_ops, control, 24);
AT(kfid, context, 8);
AT(kfid, ops, 16);
IS(sizeof(struct kfid_mr), sizeof(struct kfid) + 24);
AT(kfid_mr, mem_desc, sizeof(struct kfid));
AT(kfid_mr, key, sizeof(struct kfid) + 8);
AT(kfid_mr, iova, sizeof(struct kfid) + 16);
IS(sizeof(struct kfid_domain), sizeof(struct kfid) + 16);
AT(kfid_domain, mr, sizeof(struct kfid) + 8);
IS(sizeof(struct kfid_eq), sizeof(struct kfid) + 16);
AT(kfid_eq, ops, sizeof(struct kfid));
AT(kfid_eq, event_handler, sizeof(struct kfid) + 8);
IS(sizeof(struct kfi_mr_attr), 72);
AT(kfi_mr_attr, mr_iov, 8);
AT(kfi_mr_attr, iov_count, 16);
AT(kfi_mr_attr, access, 24);
AT(kfi_mr_attr, offset, 32);
AT(kfi_mr_attr, requested_key, 40);
AT(kfi_mr_attr, context, 48);
AT(kfi_mr_attr, auth_key_size, 56);
AT(kfi_mr_attr, auth_key, 64);
IS(sizeof(struct kfi_ops_mr), 48);
AT(kfi_ops_mr, reg, 8);
AT(kfi_ops_mr, regv, 16);
AT(kfi_ops_mr, regbv, 24);
AT(kfi_ops_mr, regattr, 32);
AT(kfi_ops_mr, regsgl, 40);
IS(sizeof(struct kfi_ops_eq), 48);
AT(kfi_ops_eq, read, 8);
AT(kfi_ops_eq, readerr, 16);
AT(kfi_ops_eq, sread, 32);
AT(kfi_ops_eq, strerror, 40);
IS(sizeof(struct kfi_eq_entry), 24);
IS(sizeof(struct kfi_eq_err_entry), 48);
AT(kfi_eq_err_entry, err, 24);
AT(kfi_eq_err_entry, prov_errno, 28);
AT(kfi_eq_err_entry, err_data, 32);

IS(KFI_READ, 1 << 8);
IS(KFI_WRITE, 1 << 9);
IS(KFI_RECV, 1 << 10);
IS(KFI_SEND, 1 << 11);
IS(KFI_REMOTE_READ, 1 << 12);
IS(KFI_REMOTE_WRITE, 1 << 13);
IS(KFI_LOCAL_MR, 1ull << 55);
IS(KFI_REG_MR, 1ull << 59);
IS(KFI_MR_PROV_KEY, 1 << 4);
IS(KFI_KEY_NOTAVAIL, ~0ull);
IS(KFI_CLASS_DOMAIN, 2);
IS(KFI_CLASS_EP, 3);
IS(KFI_CLASS_RX_CTX, 5);
IS(KFI_CLASS_MR, 12);
IS(KFI_CLASS_EQ, 13);
IS(KFI_CLASS_CNTR, 15);
IS(KFI_MR_COMPLETE, 4);
IS(KFI_ENABLE, 6);
IS(KFI_KVEC, 1);
IS(KFI_BVEC, 2);
IS(KFI_SGL, 3);
IS(KFI_EBUSY, 16);
IS(KFI_EINVAL, 22);
IS(KFI_ENOSYS, 38);
IS(KFI_EKEYREJECTED, 129);
IS(KFI_ETOOSMALL, 257);
IS(KFI_EAVAIL, 259);
IS(KFI_EBADFLAGS, 260);
IS(KFI_ENOKEY, 266);
