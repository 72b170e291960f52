/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Either end of the loopback provider's protocol, spoken by a test.
 */
#ifndef TESTS_FAULT_WIRE_H
#define TESTS_FAULT_WIRE_H

#include "providers/loopback/loopback_wire.h"
#include "tests/fault/target.h"

/* The address in a token of one segment. */
struct loopback_address address_in(const struct target_page *page);
/* A socket that listens at the address. */
int listen_as(const struct loopback_address *address);
/* Each end's part until both have proved the secret. False: the other end has closed the
 * connection. */
bool prove_as_initiator(int fd, const struct loopback_address *address);
bool prove_as_target(int fd, const struct loopback_address *address);

#endif
