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

/* The size of the caller's stack. libc's minimum on arm64 is 128 KiB, and ThreadSanitizer reports a
 * stack that has no room for the program's thread-local data too. */
#define THREAD_STACK_BYTES ((size_t)192 << 10)

/* A stack that the caller provides and keeps until it has joined the thread. */
struct thread_stack {
    void *base;
    size_t size;
};

/* Maps a stack with a guard page, for a thread that starts and ends repeatedly. libc reuses its own
 * stacks, so otherwise a thread of the program would get our size instead of the requested one.
 * -ENOMEM, recorded. Unmap after thread_join(). */
int thread_stack_map(struct thread_stack *out);
void thread_stack_unmap(const struct thread_stack *stack);

/* Starts a thread. stack: NULL: libc allocates one with a guard page, which makes two mappings. The
 * caller's stack is not used if it is too small for the program's thread-local data. -ENOMEM,
 * -EAGAIN, recorded; what: the end of the recorded text, as in "hmreg could not start a thread to
 * monitor host memory". */
int thread_start(pthread_t *out, const struct thread_stack *stack, void *(*run)(void *), void *arg,
                 const char *what);

/* Lock a mutex that is held while a thread starts or the dynamic linker is called, and await a
 * thread's begin; both only for a moment. libc starts a thread under the dynamic linker's locks,
 * which the caller may hold (a resolver of an IFUNC calls the library), and a beginning thread may
 * wait for a file system. -EAGAIN, recorded: the caller must do without the thread. wait: false:
 * only checks. */
int thread_lock_to_start(pthread_mutex_t *lock);
int thread_await_begin(sem_t *begun, bool wait);
/* Once true, the thread has begun, and the semaphore was taken. Records nothing. */
bool thread_has_begun(sem_t *begun);

/* The calling thread's task, as /proc/self/task names it. */
pid_t thread_task(void);
/* Joins a thread that ends, and waits until the kernel has no task of it. pthread_join(3) returns
 * earlier, while the process still counts as having two threads, and can make no user namespace.
 * task: where the thread has stored thread_task(). */
void thread_join(pthread_t thread, const pid_t *task);

/* Discards whole pages. A thread waits for this as the signal to end. If the program has locked its
 * memory (mlockall(2)), the pages are unlocked first; if a sandbox refuses madvise(2), new pages
 * replace them. */
void thread_discard(void *pages, size_t size);

/* Names the calling thread, in at most 15 characters. Not pthread_setname_np(3) of another thread,
 * which opens a file: see high_fd.h. */
void thread_name(const char *name);

/* Gives the calling thread its own table of descriptors with only these two, so that the program
 * cannot close them. other: -1: keep only fd. False, and nothing has changed: the kernel (before
 * Linux 5.9) or a sandbox refuses, or the program has a message queue open, since the kernel ends
 * mq_notify(3) at any close of the queue in the process. */
bool thread_keep_only(int fd, int other);

#endif
