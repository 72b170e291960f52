/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Starts the library's own threads. They serve all threads of the process, so they do not inherit
 * the attributes of the thread that creates them: they may use all CPUs of the process, have the
 * normal scheduling class and at most the normal timer slack, and block all signals. A thread that
 * inherited the CPU and real-time priority of a polling thread would never run; one that inherited
 * a service's timer slack would wake up late.
 */
#ifndef HMREG_CORE_BASE_THREAD_H
#define HMREG_CORE_BASE_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The size of a stack that is the caller's: libc's minimum on arm64 is 128 KiB, and ThreadSanitizer
 * reports a stack that has no room for the program's thread-local data besides. */
#define THREAD_STACK_BYTES ((size_t)192 << 10)

/* A stack that the caller provides and keeps until it has joined the thread. */
struct thread_stack {
    void *base;
    size_t size;
};

/* Maps a stack with a guard page, for a thread that comes and goes: libc keeps its own stacks for
 * later threads, and a thread of the program's that gets one finds another size than it asked for.
 * -ENOMEM, recorded. unmap: after thread_join(). */
int thread_stack_map(struct thread_stack *out);
void thread_stack_unmap(const struct thread_stack *stack);

/* Starts a thread. stack: NULL: libc allocates one with a guard page, which makes two mappings. The
 * caller's stack is not used if it is too small for the program's thread-local data. -ENOMEM,
 * -EAGAIN, recorded; what: the end of the recorded text, as in "hmreg could not start a thread to
 * monitor host memory". */
int thread_start(pthread_t *out, const struct thread_stack *stack, void *(*run)(void *), void *arg,
                 const char *what);

/* Locks what is held while a thread is started, or the dynamic linker asked, and waits for a thread
 * to begin: for a moment only. libc starts a thread under the dynamic linker's locks, which the
 * caller may hold (a resolver of an IFUNC calls the library), and a thread that begins may wait for
 * a file system. -EAGAIN, recorded: the caller does without the thread. wait: false: only looks. */
int thread_lock_to_start(pthread_mutex_t *lock);
int thread_await_begin(sem_t *begun, bool wait);
/* Once true, the thread has begun, and the semaphore is taken. Records nothing. */
bool thread_has_begun(sem_t *begun);

/* The calling thread's task, as /proc/self/task names it. */
pid_t thread_task(void);
/* Joins a thread that ends, and waits until the kernel has no task of it: pthread_join(3) returns
 * before, while the process still counts as one of two threads, and can make no user namespace.
 * task: where the thread has stored thread_task(). */
void thread_join(pthread_t thread, const pid_t *task);

/* Discards whole pages, which a thread waits for: their end is its sign to end. Where the program
 * has locked its memory (mlockall(2)) they are unlocked for that; where a sandbox refuses
 * madvise(2), new pages take their place. */
void thread_discard(void *pages, size_t size);

/* Names the calling thread, in at most 15 characters. Not pthread_setname_np(3) of another thread,
 * which opens a file: see high_fd.h. */
void thread_name(const char *name);

/* Gives the calling thread a table of descriptors of its own, which holds only these two: what the
 * program closes stays open in it. other: -1: there is one. False, and nothing has changed: the
 * kernel (before Linux 5.9) or a sandbox refuses, or the program has a message queue open: the
 * kernel ends mq_notify(3) at any close of the queue in the process. */
bool thread_keep_only(int fd, int other);

#endif
