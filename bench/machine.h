/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The machine and date of a measurement.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

struct machine {
    char cpu[96];
    int cores;         /* usable by this program */
    char governor[40]; /* cpufreq governor, or why it is unknown */
    char kernel[200];
    char load[40];     /* load averages at the start */
    char date[40];     /* UTC */
    char revision[80]; /* of the sources, from ./run */
    int virtual;       /* 1: in a virtual machine */
};

void machine_read(struct machine *out, const char *revision);
/* "AMD EPYC, 2 cores, virtual machine, Linux 6.18, 2026-11-20": for a plot's title. */
void machine_words(const struct machine *machine, char *words, unsigned room);

#endif
