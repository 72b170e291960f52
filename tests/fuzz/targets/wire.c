/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Loopback between processes, both ends in this one: the real client and the real server speak, and
 * the bytes of the input change what one of them sends (built twice: WIRE_DAMAGES_CLIENT: what the
 * server receives; else what the client receives). So the target knows nothing of the protocol but
 * that it is spoken by send(2). Whatever one end sends, the other serves the next honest request,
 * and memory beside the region stays as it was.
 *
 * An end that waits for what will never come sees the end of the connection after a moment.
 */
#include "core/remote/token.h"
#include "providers/loopback/loopback.h"
#include "tests/fuzz/targets/target.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#ifdef WIRE_DAMAGES_CLIENT
#define DAMAGED_END client
#else
#define DAMAGED_END server
#endif

enum { MOMENT_MS = 4, REGION = 70000, BESIDE = 4096, REQUESTS = 3 };

static _Thread_local bool client; /* this thread is the client's */
#define server (!client)

static struct hmreg *lib;
static struct hmreg_domain *domain;
static struct hmreg_mr *mr;
static struct loopback_address address;
static char memory[REGION + 2 * BESIDE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of: */
static struct input damage;
static atomic_bool damaging;

ssize_t __real_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);

/* One message: as it is, changed, cut, longer, or none and the connection's end. */
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    static uint8_t copy[1 << 17]; /* only one end is damaged, and it sends one at a time */
    size_t size = len < sizeof(copy) - 256 ? len : sizeof(copy) - 256;
    uint8_t how;

    if (!damaging || !(DAMAGED_END))
        return __real_send(fd, bytes, len, flags);
    pthread_mutex_lock(&lock);
    memcpy(copy, bytes, size);
    how = input_byte(&damage);
    for (int i = how & 7; i > 0; i--)
        copy[input_number(&damage, size > 256 ? 2 : 1) % size] = input_byte(&damage);
    if (how & 8) /* an extreme number where numbers are */
        memset(copy + input_byte(&damage) % 16 * 4 % size, how & 16 ? 0xff : 0,
               size >= 8 && size < 256 ? 4 : 1);
    if (how & 32)
        size -= input_byte(&damage) % size;
    if (how & 64)
        size += input_byte(&damage);
    pthread_mutex_unlock(&lock);
    if (how & 128 || __real_send(fd, copy, size, flags) != (ssize_t)size)
        shutdown(fd, SHUT_RDWR);
    return (ssize_t)len;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags)
{
    struct pollfd coming = {.fd = fd, .events = POLLIN};

    if (damaging && poll(&coming, 1, MOMENT_MS) == 0)
        return 0;
    return __real_recv(fd, bytes, len, flags);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    uint8_t bytes[4096];
    size_t size = sizeof(bytes);
    struct token token;

    PROMISED(!hmreg_open(NULL, &lib));
    PROMISED(!hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    PROMISED(
        !hmreg_mr_reg(domain, memory + BESIDE, REGION, HMREG_ACCESS_REMOTE, 0, 7, 0, &mr, NULL));
    PROMISED(!hmreg_mr_pack(mr, bytes, &size) && !token_read(bytes, size, &token));
    memcpy(&address, token.address,
           token.address_size < sizeof(address) ? token.address_size : sizeof(address));
    return 0;
}

static void check_beside(void)
{
    for (size_t i = 0; i < BESIDE; i++)
        PROMISED(!memory[i] && !memory[BESIDE + REGION + i]);
}

static int request(struct wire_client *wire, bool write, uint64_t at, uint64_t len, char *local)
{
    static const struct loopback_auth none;
    const struct loopback_access access = {
        .write = write, .last = true, .key = 7, .addr = at, .len = len, .auth = &none};
    int rc = wire_client_access(wire, lib, &access, local);

    PROMISED(rc <= 0);
    return rc;
}

static void request_any(struct wire_client *wire, struct input *input)
{
    static char local[BESIDE + REGION + BESIDE];
    uint8_t how = input_byte(input);
    uint64_t len = how & 2 ? REGION : 1 + (uint64_t)input_byte(input);
    uint64_t at = how & 2 ? 0 : input_number(input, 2) % (REGION - len);

    request(wire, how & 1, at, len, local + BESIDE);
    for (size_t i = 0; i < BESIDE; i++)
        PROMISED(!local[i] && !local[BESIDE + REGION + i]);
}

static void request_honestly(void)
{
    struct wire_client *wire = wire_client_new(&address);
    char sent[16] = "honest", got[16] = "";

    PROMISED(wire);
    PROMISED(!request(wire, true, 60000, sizeof(sent), sent));
    PROMISED(!request(wire, false, 60000, sizeof(got), got));
    PROMISED(!memcmp(sent, got, sizeof(got)));
    wire_client_free(wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct wire_client *wire = wire_client_new(&address);
    uint8_t requests = (uint8_t)(1 + input_byte(&input) % REQUESTS);
    const uint8_t *forms;
    struct input form = {NULL, input_piece(&input, 12, &forms)};

    PROMISED(wire);
    form.at = forms;
    client = true;
    pthread_mutex_lock(&lock);
    damage = input;
    pthread_mutex_unlock(&lock);
    damaging = true;
    for (int i = 0; i < requests; i++)
        request_any(wire, &form);
    wire_client_free(wire);
    damaging = false;
    request_honestly();
    check_beside();
    return 0;
}
