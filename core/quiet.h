/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Locks that are taken where memory is being unmapped: by the thread that reads the kernel's events
 * while another sleeps in munmap(2), and by hooks on munmap itself, which run inside malloc,
 * inside the dynamic linker, and in signals' handlers. Under such a lock nothing is allocated,
 * freed or unmapped.
 *
 * A handler may have interrupted its thread with a quiet lock held, or half taken. So a thread
 * counts itself in before it locks, and out after: a hook that finds it counted takes no lock.
 */
#ifndef HMREG_CORE_QUIET_H
#define HMREG_CORE_QUIET_H

#include <pthread.h>
#include <stdatomic.h>

/* Quiet locks that this thread holds, or is about to take. Found without a call: the dynamic
 * linker's own locks may be held. */
extern _Thread_local volatile unsigned quiet_depth __attribute__((tls_model("initial-exec")));

static inline void quiet_enter(void)
{
    quiet_depth++;
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void quiet_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    quiet_depth--;
}

static inline void quiet_lock(pthread_mutex_t *lock)
{
    quiet_enter();
    pthread_mutex_lock(lock);
}

static inline void quiet_unlock(pthread_mutex_t *lock)
{
    pthread_mutex_unlock(lock);
    quiet_leave();
}

static inline void quiet_rdlock(pthread_rwlock_t *lock)
{
    quiet_enter();
    pthread_rwlock_rdlock(lock);
}

static inline void quiet_wrlock(pthread_rwlock_t *lock)
{
    quiet_enter();
    pthread_rwlock_wrlock(lock);
}

static inline void quiet_rwunlock(pthread_rwlock_t *lock)
{
    pthread_rwlock_unlock(lock);
    quiet_leave();
}

#endif
