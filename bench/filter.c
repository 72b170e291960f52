/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See filter.h. The tests use Docker's whole list. Its cost per system call is a run of the filter,
 * which these few entries cause as well.
 */
#include "bench/filter.h"

#include "bench/actor.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define REFUSE(name)                                                                               \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                         \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

void filter_begin(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(userfaultfd),
        REFUSE(bpf),
        REFUSE(perf_event_open),
        REFUSE(io_uring_setup),
        REFUSE(keyctl),
        REFUSE(open_by_handle_at),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        leave("this kernel has no filters of system calls");
}
