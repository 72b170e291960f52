/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See confine.h. Docker's default profile is a list of permitted calls. Here are the calls that it
 * refuses without further capabilities, which is equivalent for what a library may try: EPERM, but
 * ENOSYS for clone3(2), whose flags a filter cannot see, and for the numbers added after it.
 */
#include "tests/outside/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define USER_NOBODY  65534

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define NAMESPACES                                                                                 \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)
#define USERFAULTFD_NEW 0xaa00 /* the ioctl of /dev/userfaultfd */
#define NEWEST          450    /* set_mempolicy_home_node: the last one in the profile */

/* ---- filters ---------------------------------------------------------------------------- */

static const unsigned refused[] = {
    SYS_acct,
    SYS_add_key,
    SYS_bpf,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_fanotify_init,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_get_mempolicy,
    SYS_init_module,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_kcmp,
    SYS_kexec_file_load,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_mbind,
    SYS_migrate_pages,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_move_pages,
    SYS_nfsservctl,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_personality,
    SYS_pidfd_getfd,
    SYS_pivot_root,
    SYS_process_madvise,
    SYS_quotactl,
    SYS_reboot,
    SYS_request_key,
    SYS_set_mempolicy,
    SYS_setdomainname,
    SYS_sethostname,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_umount2,
    SYS_unshare,
    SYS_userfaultfd,
    SYS_vhangup,
};

static const char *install(struct sock_filter *code, size_t count)
{
    struct sock_fprog program = {(unsigned short)count, code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return "the kernel takes no filter";
    return NULL;
}

#define LOAD(field)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, what)
/* The next statement is for this number only. */
#define IF(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1)

/* A container has no /dev/userfaultfd: its ioctl fails here. */
#define NO_DEVICE                                                                                  \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4), LOAD(args[1]), IF(USERFAULTFD_NEW),      \
        ANSWER(SECCOMP_RET_ERRNO | EPERM), ANSWER(SECCOMP_RET_ALLOW)

static const char *drop_capabilities(uint64_t kept)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data))
        return "capabilities cannot be asked for";
    for (int i = 0; i < 2; i++) {
        data[i].effective &= (uint32_t)(kept >> 32 * i);
        data[i].permitted &= (uint32_t)(kept >> 32 * i);
        data[i].inheritable = 0;
    }
    for (int cap = 0; cap < 64; cap++)
        if (!(kept >> cap & 1))
            prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    return syscall(SYS_capset, &header, data) ? "capabilities cannot be dropped" : NULL;
}

const char *confine_filter(void)
{
    static const uint64_t kept =
        1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER | 1ull << CAP_FSETID |
        1ull << CAP_KILL | 1ull << CAP_SETGID | 1ull << CAP_SETUID | 1ull << CAP_SETPCAP |
        1ull << CAP_NET_BIND_SERVICE | 1ull << CAP_NET_RAW | 1ull << CAP_SYS_CHROOT |
        1ull << CAP_MKNOD | 1ull << CAP_AUDIT_WRITE | 1ull << CAP_SETFCAP;
    const char *why = drop_capabilities(kept);
    struct sock_filter code[2 * COUNT(refused) + 32] = {
        LOAD(arch),
        IF(ARCHITECTURE),
        BPF_STMT(BPF_JMP | BPF_JA, 1),
        ANSWER(SECCOMP_RET_ERRNO | EPERM),
        LOAD(nr),
        IF(SYS_clone3),
        ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | EPERM),
    };
    const struct sock_filter end[] = {
        NO_DEVICE,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | EPERM),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    size_t at = 9;

    for (size_t i = 0; i < COUNT(refused); i++) {
        code[at++] = (struct sock_filter)IF(refused[i]);
        code[at++] = (struct sock_filter)ANSWER(SECCOMP_RET_ERRNO | EPERM);
    }
    for (size_t i = 0; i < COUNT(end); i++)
        code[at++] = end[i];
    return why ? why : install(code, at);
}

const char *confine_kill(void)
{
    struct sock_filter code[] = {LOAD(nr), IF(SYS_userfaultfd), ANSWER(SECCOMP_RET_KILL_PROCESS),
                                 NO_DEVICE, ANSWER(SECCOMP_RET_ALLOW)};

    return install(code, COUNT(code));
}

/* ---- files and users -------------------------------------------------------------------- */

const char *confine_read_only(void)
{
    struct mount_attr set = {.attr_set = MOUNT_ATTR_RDONLY},
                      clear = {.attr_clr = MOUNT_ATTR_RDONLY};

    if (unshare(CLONE_NEWNS))
        return "mount namespaces are not permitted";
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return "mounts cannot be made private";
    if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &set, sizeof(set)) ||
        mount_setattr(AT_FDCWD, "/proc", 0, &clear, sizeof(clear)))
        return "mounts cannot be made read-only";
    return open("/tmp/outside", O_CREAT | O_RDWR, 0600) < 0 ? NULL : "/tmp is still writable";
}

const char *confine_nobody(void)
{
    if (geteuid() != 0) {
        errno = EPERM;
        return "only root can become user nobody";
    }
    if (setgroups(0, NULL) || setresgid(USER_NOBODY, USER_NOBODY, USER_NOBODY) ||
        setresuid(USER_NOBODY, USER_NOBODY, USER_NOBODY))
        return "there is no user nobody here";
    return NULL;
}
