/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Several who watch: two libraries in one process, a parent and its child, one library after the
 * other. Each is told of the changes of its own memory, and none outlives its library.
 */
#include "tests/support/cache_bed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void open_bed(struct bed *bed)
{
    bed_open(bed, HMREG_MONITOR_USERFAULTFD, NULL);
}

static void two_libraries__same_memory__both_cache_and_both_notice(void **state)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_USERFAULTFD};
    char *memory = bed_map(1);
    struct bed bed, other;

    open_bed(&bed);
    assert_ok(hmreg_open(&config, &other.lib));
    other.domain = counter_open_more(other.lib, NULL);
    assert_int_equal(bed_key(&bed, memory, 10), 1);
    assert_int_equal(bed_key(&other, memory, 10), 2);
    assert_int_equal(bed_key(&bed, memory, 10), 1);
    assert_int_equal(bed_key(&other, memory, 10), 2);
    munmap(memory, bed_page());
    assert_ptr_equal(bed_map_at(memory, 1), memory);
    assert_int_equal(bed_key(&other, memory, 10), 3);
    assert_ok(hmreg_domain_close(other.domain));
    assert_ok(hmreg_close(other.lib));
    assert_int_equal(bed_key(&bed, memory, 10), 4);
    munmap(memory, bed_page());
    assert_int_equal(bed_stats(&bed).invalidations, 2);
    bed_close(&bed);
}

static bool has_userfaultfd(void)
{
    for (int fd = 0; fd < 256; fd++) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "userfaultfd"))
            return true;
    }
    return false;
}

static int childs_part(char *memory)
{
    struct bed bed;

    if (has_userfaultfd())
        return 1;
    munmap(memory, bed_page()); /* its own copy: nothing to the parent */
    open_bed(&bed);
    memory = bed_map(1);
    if (bed_key(&bed, memory, 10) != 1 || bed_key(&bed, memory, 10) != 1)
        return 2;
    munmap(memory, bed_page());
    if (bed_stats(&bed).invalidations != 1)
        return 3;
    bed_close(&bed);
    return 0;
}

static void fork__child_lives_on__parent_is_told_and_child_has_its_own(void **state)
{
    char *memory = bed_map(1);
    struct bed bed;
    int status;
    pid_t child;

    if (TEST_TSAN)
        test_skip("ThreadSanitizer forbids threads in a forked child");
    open_bed(&bed);
    assert_true(has_userfaultfd());
    bed_key(&bed, memory, 10);
    child = fork();
    if (child == 0)
        _exit(childs_part(memory));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(bed_key(&bed, memory, 10), 1);
    munmap(memory, bed_page());
    assert_int_equal(bed_stats(&bed).invalidations, 1);
    bed_close(&bed);
}

static void close__nothing_is_watched_and_no_thread_is_left(void **state)
{
    char *memory = bed_map(1);
    struct bed bed;

    for (int i = 0; i < 20; i++) {
        open_bed(&bed);
        bed_key(&bed, memory, 10);
        bed_close(&bed);
        assert_false(has_userfaultfd());
    }
    munmap(memory, bed_page()); /* would sleep for ever if someone still watched */
}

TEST_MAIN(TEST(two_libraries__same_memory__both_cache_and_both_notice),
          TEST(fork__child_lives_on__parent_is_told_and_child_has_its_own),
          TEST(close__nothing_is_watched_and_no_thread_is_left))
