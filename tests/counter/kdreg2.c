/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The monitor kdreg2, on a stand-in for HPE's module (kmod/kdreg2.c), where hmreg_counter is not
 * loaded.
 */
#include "tests/support/cache_fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MANY 3000u

static enum hmreg_monitor active(void)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    return info.active;
}

/* ---- changes ----------------------------------------------------------------------------- */

static bool map_anew(char *memory)
{
    return munmap(memory, fixture_page()) == 0 && fixture_map_at(memory, 1) == memory;
}

static bool map_over(char *memory)
{
    return mmap(memory, fixture_page(), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory;
}

static bool move_there(char *memory)
{
    char *other = fixture_map(1);

    return mremap(other, fixture_page(), fixture_page(), MREMAP_MAYMOVE | MREMAP_FIXED, memory) ==
           memory;
}

static bool drop(char *memory)
{
    return madvise(memory, fixture_page(), MADV_DONTNEED) == 0;
}

static bool unmap_by_itself(char *memory)
{
    return syscall(SYS_munmap, memory, fixture_page()) == 0 && fixture_map_at(memory, 1) == memory;
}

TEST(kdreg2_change__by_the_process_itself__no_hit_is_stale)
{
    static bool (*const changes[])(char *) = {map_anew, map_over, move_there, drop,
                                              unmap_by_itself};
    char *memory = fixture_map(1);

    fixture_open(HMREG_MONITOR_KDREG2, NULL);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        uint64_t key = fixture_key(memory, 10);

        assert_int_equal(fixture_key(memory, 10), key);
        assert_true(changes[i](memory));
        assert_int_not_equal(fixture_key(memory, 10), key);
    }
}

/* More changes than the module keeps events of, some of ranges that are not watched any more. */
TEST(kdreg2_changes__more_than_events__no_hit_is_stale)
{
    char *memory = fixture_map(MANY);
    uint64_t keys[MANY];

    fixture_open(HMREG_MONITOR_KDREG2, NULL);
    for (unsigned round = 0; round < 25; round++) {
        for (unsigned i = 0; i < MANY; i++)
            keys[i] = fixture_key(memory + i * fixture_page(), 10);
        assert_int_equal(madvise(memory, MANY * fixture_page(), MADV_DONTNEED), 0);
        for (unsigned i = 0; i < MANY; i += 100)
            assert_int_not_equal(fixture_key(memory + i * fixture_page(), 10), keys[i]);
    }
}

TEST(kdreg2_memory__of_a_file__not_cached)
{
    int file = memfd_create("kdreg2", MFD_CLOEXEC);
    char *memory;

    assert_int_equal(ftruncate(file, (off_t)fixture_page()), 0);
    memory = mmap(NULL, fixture_page(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    fixture_open(HMREG_MONITOR_KDREG2, NULL);
    assert_int_not_equal(fixture_key(memory, 10), fixture_key(memory, 10));
    fixture_close();
    close(file);
}

/* ---- the descriptor ---------------------------------------------------------------------- */

static int close_all(void)
{
    char *memory = fixture_map(2);
    uint64_t key;

    fixture_open(HMREG_MONITOR_KDREG2, NULL);
    key = fixture_key(memory, 10);
    closefrom(3);
    if (fixture_key(memory, 10) != key) /* the page of counts is still there */
        return 2;
    munmap(memory, fixture_page());
    if (fixture_map_at(memory, 1) != memory || fixture_key(memory, 10) == key)
        return 3;
    if (active() != HMREG_MONITOR_DISABLED)
        return 4;
    fixture_close();
    return 0;
}

TEST(kdreg2_descriptor__closed_by_the_program__told_and_nothing_stale)
{
    int status;
    pid_t child = test_fork();

    if (!child)
        _exit(close_all());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(kdreg2_open__again_and_again__no_mapping_is_left)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_KDREG2};
    unsigned before = 0;

    for (unsigned i = 0; i < 10; i++) {
        unsigned lines = 0;
        char line[512];
        FILE *maps;

        assert_ok(hmreg_open(&config, &fixture.lib));
        assert_ok(hmreg_close(fixture.lib));
        maps = fopen("/proc/self/maps", "re");
        while (fgets(line, sizeof(line), maps))
            lines++;
        fclose(maps);
        if (i > 1)
            assert_int_equal(lines, before);
        before = lines;
    }
}

/* ---- which serves ------------------------------------------------------------------------ */

static bool load(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool loaded = syscall(SYS_finit_module, file, "", 0) == 0 || errno == EEXIST;

    close(file);
    return loaded;
}

static bool unload_counter(void)
{
    return syscall(SYS_delete_module, "hmreg_counter", O_NONBLOCK) == 0 || errno == ENOENT;
}

static enum hmreg_monitor asked_by_environment(void)
{
    char *memory = fixture_map(1);
    enum hmreg_monitor found;

    setenv("FI_MR_CACHE_MONITOR", "kdreg2", 1);
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    unsetenv("FI_MR_CACHE_MONITOR");
    fixture_key(memory, 10);
    found = active();
    munmap(memory, fixture_page());
    fixture_close();
    return found;
}

TEST(kdreg2_environment__hmreg_counter_is_there_too__counter)
{
    assert_int_equal(asked_by_environment(), HMREG_MONITOR_KDREG2);
    assert_true(load("/run/hmreg_counter.ko"));
    assert_int_equal(asked_by_environment(), HMREG_MONITOR_COUNTER);
    assert_true(unload_counter());
}

int main(int argc, char **argv)
{
    char path[4096];
    int status;

    snprintf(path, sizeof(path), GUEST_STORE "/%s/kdreg2/kdreg2.ko", getenv("HMREG_GUEST"));
    if (!load(path) || !unload_counter()) {
        perror(path);
        return 1;
    }
    status = test_main(argc, argv);
    load("/run/hmreg_counter.ko");
    return status;
}
