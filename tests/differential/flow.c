/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Acts in another flow of control: in a child, on another thread, in a handler, on the main
 * thread's stack.
 */
#include "tests/differential/acts.h"

#include "tests/differential/beside.h"
#include "tests/differential/space.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- a child ---------------------------------------------------------------------------- */

/* The child checks its parent's memory, then changes its own copy. */
static void live(const struct step *step, struct outcome *out)
{
    uint64_t before = space_digest(space_at(AREA_SMALL, 0), SPACE_SMALL, 1);

    beside_in_child(step);
    act_inner(step, out);
    out->value = space_mix(out->value, before);
    out->value = space_mix(out->value, space_digest(space_at(AREA_SMALL, 0), SPACE_SMALL, 3));
}

void act_fork(const struct step *step, struct outcome *out)
{
    int status = 0;
    pid_t child = test_fork();

    if (child == 0) {
        live(step, out);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        *out = (struct outcome){.rc = -1, .error = child < 0 ? errno : 0, .more = (unsigned)status};
}

/* ---- stacks ----------------------------------------------------------------------------- */

/* The limits that libc reports for the thread's stack. */
static void note_stack(struct outcome *out)
{
    pthread_attr_t attr;
    size_t size = 0, guard = 0;
    void *start;
    int rc = pthread_getattr_np(pthread_self(), &attr);

    if (rc) {
        *out = (struct outcome){.rc = -1, .error = rc};
        return;
    }
    pthread_attr_getstack(&attr, &start, &size);
    pthread_attr_getguardsize(&attr, &guard);
    pthread_attr_destroy(&attr);
    out->more = (uint64_t)size << 24 | guard;
}

__attribute__((noinline)) static void use_stack(const struct step *step)
{
    char buffer[32 << 10];
    size_t len = 1 + step->r % (sizeof(buffer) / 2);

    memset(buffer, (int)step->r, sizeof(buffer));
    beside_use(buffer + (step->r >> 8) % (sizeof(buffer) / 2), len);
}

void act_stack(const struct step *step, struct outcome *out)
{
    use_stack(step);
    note_stack(out);
}

struct work {
    const struct step *step;
    struct outcome *out;
};

static void *run_thread(void *arg)
{
    struct work *work = arg;

    use_stack(work->step);
    act_inner(work->step, work->out);
    use_stack(work->step);
    note_stack(work->out);
    return NULL;
}

void act_thread(const struct step *step, struct outcome *out)
{
    struct work work = {step, out};
    size_t size = (size_t)(256 + step->form % 16 * 64) << 10;
    pthread_attr_t attr;
    pthread_t thread;
    int rc;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, size);
    rc = pthread_create(&thread, &attr, run_thread, &work);
    pthread_attr_destroy(&attr);
    if (rc)
        *out = (struct outcome){.rc = -1, .error = rc};
    else
        pthread_join(thread, NULL);
}

/* ---- a handler -------------------------------------------------------------------------- */

static struct work handled;
static volatile sig_atomic_t done;

static void on_signal(int number)
{
    int before = errno;

    act_inner(handled.step, handled.out);
    errno = before;
    done = 1;
}

/* A signal that the program's thread blocks stays pending: every other thread blocks it too. */
static void signal_blocked(struct outcome *out)
{
    sigset_t set, before, pending;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    kill(getpid(), SIGUSR1);
    sigpending(&pending);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    out->more = space_mix(out->more, (uint64_t)sigismember(&pending, SIGUSR1));
}

void act_signal(const struct step *step, struct outcome *out)
{
    struct sigaction action = {.sa_handler = on_signal}, before;

    sigaction(SIGUSR1, &action, &before);
    handled = (struct work){step, out};
    done = 0;
    if (step->form % 8 == 0)
        signal_blocked(out);
    else
        beside_interrupt(step, &done);
    if (!done)
        raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
}
