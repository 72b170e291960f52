/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See target.h.
 */
#include "tests/fault/target.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct target_page *target_page;

static void *share(size_t len)
{
    void *made = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(made, MAP_FAILED);
    return made;
}

static int make_region(struct target *target)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg *lib;

    target->page->token_size = sizeof(target->page->token);
    if (hmreg_open(NULL, &lib) || hmreg_domain_open_loopback(lib, NULL, NULL, &domain) ||
        hmreg_mr_reg(domain, target->bytes, TARGET_BYTES, HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, NULL))
        return -1;
    return hmreg_mr_pack(mr, target->page->token, &target->page->token_size) ? -1 : 1;
}

bool target_try_start(struct target *target, void (*before)(void))
{
    target->page = share(sizeof(*target->page));
    target->bytes = share(TARGET_BYTES);
    target->pid = test_fork();
    if (target->pid == 0) {
        target_page = target->page;
        if (before)
            before();
        target->page->ready = make_region(target);
        for (;;)
            pause();
    }
    while (!target->page->ready && waitpid(target->pid, NULL, WNOHANG) == 0)
        sched_yield();
    if (target->page->ready == 1)
        return true;
    if (!target->page->ready)
        target->pid = 0; /* it ended */
    target_end(target);
    return false;
}

void target_start(struct target *target, void (*before)(void))
{
    assert_true(target_try_start(target, before));
}

int status_of(pid_t pid)
{
    int status = -1;

    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

void target_end(struct target *target)
{
    if (target->pid > 0) {
        kill(target->pid, SIGKILL);
        status_of(target->pid);
    }
    munmap(target->page, sizeof(*target->page));
    munmap(target->bytes, TARGET_BYTES);
}

void initiator_open(struct initiator *initiator, const struct target *target)
{
    assert_ok(hmreg_open(NULL, &initiator->lib));
    assert_ok(hmreg_domain_open_loopback(initiator->lib, NULL, NULL, &initiator->domain));
    assert_ok(hmreg_remote_open(initiator->domain, target->page->token, target->page->token_size,
                                &initiator->remote));
}

void initiator_close(struct initiator *initiator)
{
    hmreg_remote_close(initiator->remote);
    assert_ok(hmreg_domain_close(initiator->domain));
    assert_ok(hmreg_close(initiator->lib));
}

int initiator_write(struct initiator *initiator, uint64_t offset, const void *bytes, size_t len)
{
    uint64_t addr, key;
    int rc = hmreg_remote_addr(initiator->remote, offset, len, &addr, &key);

    return rc ? rc : hmreg_loopback_write(initiator->remote, bytes, len, NULL, addr, key);
}

int initiator_read(struct initiator *initiator, uint64_t offset, void *bytes, size_t len)
{
    uint64_t addr, key;
    int rc = hmreg_remote_addr(initiator->remote, offset, len, &addr, &key);

    return rc ? rc : hmreg_loopback_read(initiator->remote, bytes, len, NULL, addr, key);
}
