/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One call at a time on a fid_domain: the lock under which we call libfabric where its threading
 * model leaves that to the caller (FI_THREAD_DOMAIN). All domains of this process that are on one
 * fid_domain share it. The application's own calls on the fid_domain take no part.
 */
#ifndef HMREG_PROVIDERS_OFI_OFI_SERIAL_H
#define HMREG_PROVIDERS_OFI_OFI_SERIAL_H

#include <rdma/fi_domain.h>

struct ofi_serial;

/* The fid_domain's; each call has its ofi_serial_put(). NULL: no memory. */
struct ofi_serial *ofi_serial_get(const struct fid_domain *domain);

/* serial NULL, in these three: nothing is serialized. */
void ofi_serial_put(struct ofi_serial *serial);
void ofi_serial_enter(struct ofi_serial *serial);
void ofi_serial_leave(struct ofi_serial *serial);

#endif
