/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_state.h.
 */
#include "core/monitor/memhooks/hook_state.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"
#include "core/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* Through a pipe: process_vm_readv(2) pins the page, and with the first pin of a process the kernel
 * begins to look at each page in each fork(2), which takes a tenth longer. */
bool hook_read(uintptr_t from, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)from, size};
    int ends[2];
    bool done;

    if (high_fd_pair(pipe2(ends, O_CLOEXEC), ends))
        return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
    done = write(ends[1], (const void *)from, size) == (ssize_t)size &&
           read(ends[0], to, size) == (ssize_t)size;
    close(ends[0]);
    close(ends[1]);
    return done;
}

static bool read_header(const uint8_t *stub, struct hook_stub_header *out)
{
    return hook_read((uintptr_t)stub - sizeof(*out), out, sizeof(*out)) &&
           out->magic == HOOK_STUB_MAGIC;
}

bool hook_stub_number(const uint8_t *stub, long *number)
{
    struct hook_stub_header header;

    if (!read_header(stub, &header))
        return false;
    *number = (int32_t)header.number;
    return true;
}

const uint8_t *hook_stub_next(const uint8_t *stub)
{
    struct hook_stub_header header;

    return read_header(stub, &header) && header.next ? stub + header.next : NULL;
}

struct hook_state *hook_state_get(void)
{
    static struct hook_state *state;

    if (!state)
        state = process_wiped(sizeof(*state));
    if (!state && errno == ENOMEM)
        hmreg_fail_os(errno, "hmreg has no memory for memhooks");
    else if (!state)
        hmreg_fail(-EOPNOTSUPP, "memhooks: this kernel does not wipe memory at fork "
                                "(MADV_WIPEONFORK); use userfaultfd or import");
    return state;
}

void hook_state_name(struct hook_state *state, uint64_t epoch)
{
    uint64_t name = epoch << (HOOK_COUNT_BITS + 1) >> 1;

    name = name ? name : UINT64_C(1) << HOOK_COUNT_BITS;
    if (atomic_load(&state->begun) >> HOOK_COUNT_BITS == name >> HOOK_COUNT_BITS)
        return;
    atomic_fetch_add(&state->begun, name); /* threads of the child may be in calls */
    atomic_fetch_add(&state->ended, name);
}
