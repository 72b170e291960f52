/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A child whose first thread, the loading one, is stopped before and after each of its system calls
 * while it loads and unloads files; at such a stop another thread of the child does a deed. The
 * loading thread may have stopped with a lock that the deed needs: it goes on when the deed is done
 * or its thread sleeps. So every stop is come to, and no result depends on time.
 */
#ifndef TESTS_LINKER_STOPS_H
#define TESTS_LINKER_STOPS_H

#include "tests/support/test.h"

#include <stdatomic.h>

/* What the tracing process and the child share. */
struct linker_stops {
    atomic_bool loading;             /* set by the child: its system calls count as stops */
    atomic_uint asked, taken, ended; /* deeds */
    atomic_int thread;               /* that does them */
    atomic_uint held;                /* odd while the loading thread is stopped for a deed */
    int ask[2];                      /* a pipe */
    long only;                       /* the one stop with a deed, from 0; below 0: all have one */
    long count;                      /* stops so far */
    atomic_uint uncached;            /* the child counts */
    void (*deed)(void);
};

/* Forks; the child runs body() and exits with its result. Returns the exit status, 77 also if
 * children cannot be traced; at a signal 1. */
int linker_stops_run(struct linker_stops *stops, int (*body)(struct linker_stops *stops));

/* Memory that children share. */
struct linker_stops *linker_stops_new(void);
void linker_stops_free(struct linker_stops *stops);

/* For the child: begins, with the deed, and ends; returns when the last deed is done. False: the
 * child cannot be traced. */
bool linker_stops_begin(struct linker_stops *stops);
void linker_stops_end(struct linker_stops *stops);

/* For the child: starts the thread, which is not traced; has it do one more thing. */
void linker_stops_start_thread(struct linker_stops *stops, void (*deed)(void));
void linker_stops_do(struct linker_stops *stops, void (*deed)(void));

/* Is the dynamic linker loading or unloading a file, as its lists and the kernel's tell? It maps a
 * file before it enters it, and says so only then. Of mapped files it looks at those of loads.c,
 * and at /bin/true. */
bool linker_is_busy(void);

#endif
