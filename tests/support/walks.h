/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How often the library walks the process's mappings. For one file of a program that is linked with
 * -Wl,--wrap=maps_begin.
 */
#ifndef TESTS_WALKS_H
#define TESTS_WALKS_H

struct maps;
struct owned_fd;

static unsigned walks;

void __real_maps_begin(struct maps *maps, const struct owned_fd *kept);
void __wrap_maps_begin(struct maps *maps, const struct owned_fd *kept);

void __wrap_maps_begin(struct maps *maps, const struct owned_fd *kept)
{
    walks++;
    __real_maps_begin(maps, kept);
}

#endif
