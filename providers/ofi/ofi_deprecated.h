/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Our own definitions of names that libfabric 2 deprecates. Its macros contain a pragma that warns
 * at each use; no option disables it, and -Werror makes it an error. It is silent only in a system
 * header: hence the pragma below, and hence this file also holds the comparison with the installed
 * header, if that still has the names, and nothing else.
 */
#ifndef HMREG_PROVIDERS_OFI_OFI_DEPRECATED_H
#define HMREG_PROVIDERS_OFI_OFI_DEPRECATED_H

#pragma GCC system_header

#define OFI_LOCAL_MR (UINT64_C(1) << 55) /* fi_info's mode bit that goes with FI_MR_BASIC */

#ifdef FI_LOCAL_MR
_Static_assert(OFI_LOCAL_MR == FI_LOCAL_MR, "FI_LOCAL_MR");
#endif
#ifdef FI_REG_MR
_Static_assert(HMREG_BIND_REG_MR == FI_REG_MR, "FI_REG_MR");
#endif
#if defined(FI_MR_BASIC) || FI_MAJOR_VERSION == 1 /* an enum there */
_Static_assert(HMREG_MR_BASIC == FI_MR_BASIC && HMREG_MR_SCALABLE == FI_MR_SCALABLE, "old modes");
#endif

#endif
