/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Several copies of the library in one process, each loaded late, as plugins load theirs: the
 * dynamic linker has little room for static thread-local data, and each copy takes some.
 */
#include "tests/support/test.h"

#include <dlfcn.h>
#include <hmreg/hmreg.h>

#define COPIES 5

static char folder[] = "/tmp/hmreg-copies-XXXXXX";

static void copy_file(const char *to)
{
    char buffer[65536];
    FILE *in = fopen(TEST_LIBRARY, "rbe"), *out = fopen(to, "wbe");
    size_t count;

    assert_non_null(in);
    assert_non_null(out);
    while ((count = fread(buffer, 1, sizeof(buffer), in)) > 0)
        assert_int_equal(fwrite(buffer, 1, count, out), count);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static void *load_copy(unsigned number)
{
    char path[64];
    void *library;

    snprintf(path, sizeof(path), "%s/%u.so", folder, number);
    copy_file(path);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("copy %u: %s", number, dlerror());
    unlink(path);
    return library;
}

static void fail_in(void *library)
{
    int (*close_lib)(struct hmreg *) = (int (*)(struct hmreg *))dlsym(library, "hmreg_close");
    int (*open_lib)(const struct hmreg_config *, struct hmreg **) =
        (int (*)(const struct hmreg_config *, struct hmreg **))dlsym(library, "hmreg_open");
    const struct hmreg_error *(*last)(void) =
        (const struct hmreg_error *(*)(void))dlsym(library, "hmreg_last_error");
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg *lib = NULL;

    assert_int_equal(last()->code, 0);
    assert_int_equal(open_lib(&config, &lib), 0);
    assert_int_equal(open_lib(&config, NULL), -EINVAL);
    assert_int_equal(last()->code, -EINVAL);
    assert_int_equal(close_lib(lib), 0);
}

TEST(load__five_copies__each_works)
{
    void *copies[COPIES];

    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < COPIES; i++)
        copies[i] = load_copy(i);
    assert_int_equal(rmdir(folder), 0);
    for (unsigned i = 0; i < COPIES; i++)
        fail_in(copies[i]);
}

TEST_MAIN()
