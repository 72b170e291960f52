/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An LD_AUDIT library, which brings a libc of its own into the process.
 */
#include <link.h>
#include <stdlib.h>

__attribute__((visibility("default"))) unsigned la_version(unsigned version);

unsigned la_version(unsigned version)
{
    free(malloc(1)); /* needs that libc */
    return version;
}
