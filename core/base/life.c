/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See life.h. life_number() compares two values. `place` is the inode of /proc/self. An unchanged
 * inode proves that the process is the same; a new one proves nothing, since the kernel also makes
 * a new one after memory was short. `birth` is the pid, the start time and the boot of the process:
 * a restored process starts later than its image, or in another boot. Both lie beside the number in
 * a page that is wiped in a forked child.
 */
#include "core/base/life.h"

#include "core/base/high_fd.h"
#include "core/base/out_of_line.h"
#include "core/base/process.h"
#include "core/base/uncancelled.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The bits of a number that differ between lives of one process. */
#define OWN_BITS ((UINT64_C(1) << 40) - 1)

#define STAT    "/proc/self/stat"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* All zero: the lock is free, and the process has not drawn a number. */
struct life {
    _Atomic uint64_t number;
    _Atomic uint64_t tick; /* tick of the last question to the kernel */
    pthread_mutex_t lock;  /* guards the fields below, and writes of the two above */
    uint64_t place, birth; /* 0: not known */
};

static _Atomic(void *) life_page;

/* ---- what the kernel says --------------------------------------------------------------- */

/* FNV-1a, never 0. */
static uint64_t hash_more(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash ? hash : 1;
}

static uint64_t hash(const void *bytes, size_t size)
{
    return hash_more(UINT64_C(0xcbf29ce484222325), bytes, size);
}

static uint64_t find_place(void)
{
    struct stat found;
    uint64_t words[4];

    if (stat("/proc/self", &found))
        return 0;
    words[0] = found.st_dev;
    words[1] = found.st_ino;
    words[2] = (uint64_t)found.st_ctim.tv_sec;
    words[3] = (uint64_t)found.st_ctim.tv_nsec;
    return hash(words, sizeof(words));
}

/* A text that fits, as a string. */
static bool read_text(const char *path, char *out, size_t size)
{
    int fd = high_fd(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t got;

    if (fd < 0)
        return false;
    got = read(fd, out, size - 1);
    high_fd_close(fd);
    if (got <= 0)
        return false;
    out[got] = '\0';
    return true;
}

/* Field 22 of proc_pid_stat(5). Field 2, a name in parentheses, may have spaces. */
static const char *start_time(const char *stat_text)
{
    const char *at = strrchr(stat_text, ')');

    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at;
}

static uint64_t find_birth(void)
{
    char text[1024], boot[64];
    const char *start;

    if (!read_text(STAT, text, sizeof(text)) || !read_text(BOOT_ID, boot, sizeof(boot)))
        return 0;
    start = start_time(text);
    if (!start)
        return 0;
    return hash_more(hash_more(hash(text, strcspn(text, " ")), start, strcspn(start + 1, " ") + 1),
                     boot, strlen(boot));
}

/* Never 0. */
static uint64_t now_tick(void)
{
    struct timespec now = {.tv_sec = 0};

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + 1;
}

/* ---- the number ------------------------------------------------------------------------- */

static uint64_t random_word(void)
{
    struct timespec now;
    uint64_t word = 0;

    /* Not libc's getrandom(), which maps pages since glibc 2.41. */
    if (syscall(SYS_getrandom, &word, sizeof(word), GRND_NONBLOCK) != sizeof(word)) {
        clock_gettime(CLOCK_REALTIME, &now);
        word = hash(&now, sizeof(now)) ^ (uint64_t)getpid() << 40;
    }
    return word;
}

/* was: the number of the previous life; 0: none. */
static uint64_t draw(uint64_t was)
{
    uint64_t number;

    do {
        number = random_word();
        if (was)
            number = (was & ~OWN_BITS) | (number & OWN_BITS);
    } while (!number || number == was);
    return number;
}

static void compare(struct life *life)
{
    uint64_t number = atomic_load(&life->number), place = find_place(), birth = 0;

    if (number && place && place == life->place)
        return;
    birth = find_birth();
    if (!number || (birth && life->birth && birth != life->birth)) {
        process_wipe_again();
        atomic_store(&life->number, draw(number));
    }
    if (birth) {
        life->birth = birth;
        life->place = place;
    }
}

static OUT_OF_LINE uint64_t ask(struct life *life, uint64_t tick)
{
    int error = errno;
    uint64_t number;
    UNCANCELLED;

    pthread_mutex_lock(&life->lock);
    if (atomic_load(&life->tick) != tick)
        compare(life);
    atomic_store(&life->tick, tick);
    number = atomic_load(&life->number);
    pthread_mutex_unlock(&life->lock);
    errno = error;
    return number;
}

uint64_t life_number(void)
{
    struct life *life = atomic_load(&life_page);
    uint64_t tick = now_tick();

    if (life && atomic_load(&life->tick) == tick)
        return atomic_load(&life->number);
    life = process_page_at(&life_page);
    return life ? ask(life, tick) : 0;
}

uint64_t life_renew(void)
{
    struct life *life = life_number() ? process_page_at(&life_page) : NULL;
    uint64_t number = 0;
    UNCANCELLED;

    if (!life)
        return 0;
    pthread_mutex_lock(&life->lock);
    number = draw(atomic_load(&life->number));
    atomic_store(&life->number, number);
    pthread_mutex_unlock(&life->lock);
    return number;
}
