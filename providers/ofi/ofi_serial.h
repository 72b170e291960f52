/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Serializes calls on a fid_domain: we call libfabric under this lock if its threading model
 * requires the caller to serialize (FI_THREAD_DOMAIN). All domains of this process on one
 * fid_domain share it. The application's own calls on the fid_domain do not take it.
 */
#ifndef HMREG_PROVIDERS_OFI_OFI_SERIAL_H
#define HMREG_PROVIDERS_OFI_OFI_SERIAL_H

#include <rdma/fi_domain.h>

struct ofi_serial;

/* The lock of the fid_domain; pair each call with ofi_serial_put(). NULL: no memory. */
struct ofi_serial *ofi_serial_get(const struct fid_domain *domain);

/* In these three, serial may be NULL: then nothing is serialized. */
void ofi_serial_put(struct ofi_serial *serial);
void ofi_serial_enter(struct ofi_serial *serial);
void ofi_serial_leave(struct ofi_serial *serial);

#endif
