/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The least that the first get under memhooks has to do, without this library's checks: read the
 * list of mappings once, search the functions that are hooked for their system calls, and write
 * jumps over these.
 */
#ifndef BENCH_OPENING_H
#define BENCH_OPENING_H

#define OPENING_PARTS 3 /* in this order */

void opening_floor(double us[OPENING_PARTS]);

#endif
