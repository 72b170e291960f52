/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One of two processes on the same machine that access each other's memory: its endpoint, library
 * and domain, and a socket for tokens and messages. On two machines the socket would be TCP, MPI or
 * a job launcher; nothing else would change. Calls return 0 or a negative error number;
 * failure_text() returns its text.
 */
#ifndef EXAMPLES_SIDE_H
#define EXAMPLES_SIDE_H

#include "endpoint.h"

#include <hmreg/ofi.h>

struct side {
    int socket; /* SOCK_SEQPACKET: a message is sent and received as a whole */
    struct endpoint endpoint;
    struct hmreg *lib;
    struct hmreg_domain *domain;
};

/* Opens everything and connects with the process at the other end of the socket, which calls this
 * too. caps: requested besides RMA if the provider grants it (FI_HMEM); 0: nothing. config: the
 * library's, NULL for defaults. After a failure, too, the caller must call side_close(). */
int side_open(int socket, const char *provider, uint64_t caps, const struct hmreg_config *config,
              struct side *out);
/* Regions and remotes must be closed. Closes the socket as well. */
int side_close(struct side *side);

/* Both processes: forks, opens a side in each, calls one in the parent and other in the child, and
 * closes. Neither libfabric nor a GPU's runtime survives fork(): call it before using them. Prints
 * a failure. Returns the program's exit status. */
int side_run(const char *provider, uint64_t caps, int (*one)(struct side *side),
             int (*other)(struct side *side));

/* Sends a message; receives one, of at most *size bytes, and drives the fabric's progress while it
 * waits: on many fabrics a peer's RMA needs that. -EPIPE: the other process has ended. */
int side_send(struct side *side, const void *message, size_t size);
int side_receive(struct side *side, void *message, size_t *size);

#endif
