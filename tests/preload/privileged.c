/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The recorder in a set-user-id program, where its user would have files written with rights that
 * are not the user's, in a folder and by a mode of the user's choice. libfabric loads a hook into
 * any program whose environment asks for it.
 */
#include "preload/mode.h"
#include "preload/record.h"
#include "tests/support/set_user_id.h"
#include "tests/support/test.h"

#include <sys/auxv.h>
#include <sys/stat.h>

#define NONE 3 /* of what the environment asked for */

static int record_something(bool set_user_id)
{
    const struct preload_mode *mode = preload_mode();

    if (set_user_id && !getauxval(AT_SECURE))
        return 77;
    if (!mode->watch && !mode->gpu && !record_file())
        return NONE;
    return mode->watch && mode->gpu && record_file() ? 0 : 1;
}

/* A folder that the other user could write. */
TEST(record__in_a_set_user_id_program__no_file_and_no_mode)
{
    char folder[] = "/tmp/hmreg-test-XXXXXX", variable[64], command[64];
    const char *environment[] = {"HMREG_RUN_MODE=trace=watch,gpu", variable, NULL};
    int status;

    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 01777), 0);
    snprintf(variable, sizeof(variable), "HMREG_RUN_DIR=%s", folder);
    status = run_set_user_id("--set-user-id", environment);
    if (status == 77) {
        rmdir(folder);
        test_skip("set-user-id programs cannot be made here, or have no effect");
    }
    assert_int_equal(status, NONE);
    assert_int_equal(run_again("--plain", environment), 0); /* as any other program */
    snprintf(command, sizeof(command), "rm %s/*", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(int argc, char **argv)
{
    /* Not by exit(): the kernel keeps LeakSanitizer from looking into a set-user-id program. */
    if (argc == 2 && !strncmp(argv[1], "--", 2))
        _exit(record_something(!strcmp(argv[1], "--set-user-id")));
    return test_main(argc, argv);
}
