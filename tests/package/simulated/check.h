/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the three programs share: they end with a line on stderr where something is not as their
 * vendor's documentation promises.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE (1u << 20)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define SUCCEEDS(call)                                                                             \
    do {                                                                                           \
        long result_ = (long)(call);                                                               \
                                                                                                   \
        if (result_) {                                                                             \
            fprintf(stderr, "%s:%d: %s: error %ld\n", __FILE__, __LINE__, #call, result_);         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline void fill(unsigned char *bytes)
{
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
}

/* A dmabuf has the bytes, from this offset on. */
static inline void dmabuf_has(int fd, size_t offset, const unsigned char *bytes)
{
    unsigned char *seen = mmap(NULL, offset + SIZE, PROT_READ, MAP_SHARED, fd, 0);
    struct stat status;

    CHECK(!fstat(fd, &status) && status.st_size >= (off_t)(offset + SIZE));
    CHECK(seen != MAP_FAILED);
    if (getenv("SEEKABLE")) /* as of a dmabuf of the kernel */
        CHECK(lseek(fd, 0, SEEK_END) == status.st_size);
    CHECK(!memcmp(seen + offset, bytes, SIZE));
    munmap(seen, offset + SIZE);
    close(fd);
}
