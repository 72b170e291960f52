/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The public calls, structs of every size included: the test fuzz_calls (tests/fuzz/fuzz.h) with
 * the input's bytes as its random numbers. All objects end with the input.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets/target.h"

#include <string.h>

static struct hmreg *lib;
static struct fuzz fuzz;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    fuzz_places_make(&fuzz);
    return hmreg_open(NULL, &lib);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *places[FUZZ_PLACES], *around = fuzz.around;

    memcpy(places, fuzz.places, sizeof(places));
    memset(&fuzz, 0, sizeof(fuzz));
    memcpy(fuzz.places, places, sizeof(places));
    fuzz.around = around;
    fuzz.lib = lib;
    fuzz.input = data;
    fuzz.input_left = size;
    while (fuzz.input_left)
        fuzz_call(&fuzz);
    fuzz_end(&fuzz);
    return 0;
}
