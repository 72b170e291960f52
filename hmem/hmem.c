/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The table of vendors, generated from the list in CMakeLists.txt. A vendor's file defines
 * `const struct hmem_ops hmem_<vendor>_ops`.
 */
#include "hmem/vendor.h"

extern const struct hmem_ops hmem_system_ops;
#define HMEM_VENDOR(vendor) extern const struct hmem_ops hmem_##vendor##_ops;
#include "hmem/vendors.h"
#undef HMEM_VENDOR

static const struct hmem_ops *const vendors[] = {
    &hmem_system_ops,
#define HMEM_VENDOR(vendor) &hmem_##vendor##_ops,
#include "hmem/vendors.h"
#undef HMEM_VENDOR
    NULL,
};

const struct hmem_table hmem_table = {vendors, hmem_listen, loader_count};
