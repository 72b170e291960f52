/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A set-user-id program: its user must not steer the library by the environment. */
#include "tests/support/set_user_id.h"
#include "tests/support/test.h"

#include <hmreg/hmreg.h>
#include <sys/auxv.h>

/* With this value hmreg_open() fails, if it reads it. */
static const char *const environment[] = {"HMREG_IFACES=nonsense", NULL};

static int open_library(void)
{
    struct hmreg *lib = NULL;

    return hmreg_open(NULL, &lib) || hmreg_close(lib) ? 1 : 0;
}

TEST(open__in_a_set_user_id_program__environment_is_not_read)
{
    int status = run_set_user_id("--open", environment);

    if (status == 77)
        test_skip("set-user-id programs cannot be made here, or have no effect");
    assert_int_equal(status, 0);
    assert_int_equal(run_again("--open", environment), 1); /* as for any other program */
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--open")) {
        bool privileged = getauxval(AT_SECURE);
        bool copied = strcmp(argv[0], "/proc/self/exe") != 0;

        /* Not by exit(): the kernel keeps LeakSanitizer from looking into a set-user-id program. */
        _exit(copied && !privileged ? 77 : open_library());
    }
    return test_main(argc, argv);
}
