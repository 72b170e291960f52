/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A user's program on libhmreg alone: queries a buffer, and prints the version of header and
 * library.
 */
#include <hmreg/hmreg.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    char buffer[100];
    struct hmreg *lib;

    if (strcmp(hmreg_version(), HMREG_VERSION_STRING))
        return 1;
    if (hmreg_open(NULL, &lib) || hmreg_query(lib, buffer, sizeof(buffer), &info) ||
        hmreg_close(lib)) {
        fprintf(stderr, "%s\n", hmreg_last_error()->text);
        return 1;
    }
    puts(hmreg_version());
    return 0;
}
