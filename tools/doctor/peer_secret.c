/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The secret that two nodes share, and HMAC-SHA256 (nettle's) with it.
 */
#include "tools/doctor/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/version.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAST 16

static const char *judge(const struct stat *file)
{
    if (!S_ISREG(file->st_mode))
        return "it is not a regular file";
    if (file->st_uid != geteuid() && file->st_uid != 0)
        return "it belongs to another user";
    if (file->st_mode & 077)
        return "others may read or write it: chmod 600";
    return NULL;
}

const char *peer_secret_read(const char *file, struct peer_secret *out)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *wrong = NULL;
    struct stat found;
    ssize_t got = 1;

    out->size = 0;
    if (fd < 0)
        return strerror(errno);
    if (fstat(fd, &found))
        wrong = strerror(errno);
    wrong = wrong ? wrong : judge(&found);
    while (!wrong && got > 0 && out->size < sizeof(out->bytes)) {
        got = read(fd, out->bytes + out->size, sizeof(out->bytes) - out->size);
        if (got < 0)
            wrong = strerror(errno);
        else
            out->size += (size_t)got;
    }
    close(fd);
    if (!wrong && (out->size < LEAST || out->size == sizeof(out->bytes)))
        wrong = "a secret has from 16 to 4095 bytes";
    return wrong;
}

void peer_mac(const void *key, size_t key_size, const struct peer_part *parts,
              uint8_t out[PEER_MAC])
{
    struct hmac_sha256_ctx context;

    hmac_sha256_set_key(&context, key_size, key);
    for (; parts->bytes; parts++)
        hmac_sha256_update(&context, parts->size, parts->bytes);
#if NETTLE_VERSION_MAJOR < 4
    hmac_sha256_digest(&context, PEER_MAC, out);
#else
    hmac_sha256_digest(&context, out);
#endif
}

bool peer_mac_equals(const uint8_t one[PEER_MAC], const uint8_t other[PEER_MAC])
{
    return memeql_sec(one, other, PEER_MAC);
}
