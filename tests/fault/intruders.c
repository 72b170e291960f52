/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A loopback target and initiators that violate its protocol: their requests change only what the
 * protocol grants, and do not affect other initiators. They write to the socket directly. */
#include "providers/loopback/loopback.h"
#include "tests/fault/target.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC 0x686d6c31u

struct header {
    uint32_t magic;
    uint32_t write;
    uint64_t key, secret, addr, len;
    struct loopback_auth auth;
};

static const struct header granted = {.magic = MAGIC, .write = 1, .key = 9, .len = 100};

/* The address on which a token's domain listens: it follows the one segment. */
static socklen_t name_in(const struct target_page *page, struct sockaddr_un *out)
{
    struct loopback_address address;
    int len;

    memcpy(&address, page->token + 40 + 24, LOOPBACK_ADDRESS_BYTES);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    len = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "hmreg/%u/%016" PRIx64,
                   address.pid, address.nonce);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int intrude(const struct target_page *page)
{
    struct sockaddr_un name;
    socklen_t len = name_in(page, &name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&name, len)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void send_all(int fd, const void *what, size_t len)
{
    assert_int_equal(send(fd, what, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* The target closed the connection without an answer. */
static void assert_dropped(int fd)
{
    char byte;
    ssize_t got;

    do {
        got = recv(fd, &byte, 1, 0);
    } while (got < 0 && errno == EINTR);
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
    close(fd);
}

static int32_t receive_status(int fd)
{
    int32_t status = 77;

    assert_int_equal(recv(fd, &status, sizeof(status), MSG_WAITALL), sizeof(status));
    return status;
}

/* The target still serves a valid initiator, and nothing has changed. */
static void assert_unharmed(const struct target *target)
{
    struct initiator initiator;

    for (size_t i = 0; i < TARGET_BYTES; i++)
        if (target->bytes[i])
            fail_msg("byte %zu of the region was written", i);
    initiator_open(&initiator, target);
    assert_ok(initiator_write(&initiator, 5, "ok", 2));
    assert_memory_equal(target->bytes + 5, "ok", 2);
    memset(target->bytes + 5, 0, 2);
    initiator_close(&initiator);
}

static void intruder__header_that_is_none__is_dropped(void **state)
{
    struct header bad[4] = {granted, granted, granted, granted};
    struct target target;

    bad[0].magic = 0;
    bad[1].len = 0;
    bad[2].auth.size = LOOPBACK_AUTH_MAX + 1;
    bad[3].auth.size = UINT32_MAX;
    target_start(&target, NULL);
    for (int i = 0; i < 4; i++) {
        int fd = intrude(target.page);

        send_all(fd, &bad[i], sizeof(bad[i]));
        assert_dropped(fd);
        assert_unharmed(&target);
    }
    target_end(&target);
}

static void intruder__requests_beyond_its_rights__error_and_still_connected(void **state)
{
    static const struct {
        uint64_t key, addr, len;
        int32_t status;
    } cases[] = {
        {10, 0, 1, -EKEYREJECTED},         {UINT64_MAX, 0, 1, -EKEYREJECTED},
        {9, TARGET_BYTES, 1, -ERANGE},     {9, TARGET_BYTES - 1, 2, -ERANGE},
        {9, 0, TARGET_BYTES + 1, -ERANGE}, {9, 1, UINT64_MAX, -ERANGE},
        {9, UINT64_MAX, 1, -ERANGE},       {9, UINT64_MAX, UINT64_MAX, -ERANGE},
    };
    struct target target;
    int fd;

    target_start(&target, NULL);
    fd = intrude(target.page);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint32_t write = 0; write < 2; write++) {
            struct header header = {.magic = MAGIC,
                                    .write = write,
                                    .key = cases[i].key,
                                    .addr = cases[i].addr,
                                    .len = cases[i].len};

            send_all(fd, &header, sizeof(header));
            assert_int_equal(receive_status(fd), cases[i].status);
        }
    close(fd);
    assert_unharmed(&target);
    target_end(&target);
}

static void intruder__leaves_in_the_middle__others_are_served(void **state)
{
    char half[50] = {0};
    struct target target;

    target_start(&target, NULL);
    for (size_t sent = 0; sent <= sizeof(granted) + sizeof(half); sent += 11) {
        int fd = intrude(target.page);

        send_all(fd, &granted, sent < sizeof(granted) ? sent : sizeof(granted));
        if (sent >= sizeof(granted)) {
            assert_int_equal(receive_status(fd), 0);
            send_all(fd, half, sent - sizeof(granted));
        }
        close(fd);
        assert_unharmed(&target);
    }
    target_end(&target);
}

/* Requests more than a socket buffers and never reads. */
static void intruder__does_not_read_what_it_asked_for__others_are_served(void **state)
{
    struct header header = granted;
    struct target target;
    int fd;

    header.write = 0;
    header.len = TARGET_BYTES;
    target_start(&target, NULL);
    fd = intrude(target.page);
    send_all(fd, &header, sizeof(header));
    close(fd);
    assert_unharmed(&target);
    target_end(&target);
}

static void intruder__of_another_user__is_dropped(void **state)
{
    struct target target;
    pid_t child;
    int status;

    if (geteuid() != 0)
        test_skip("only root can become another user");
    target_start(&target, NULL);
    child = fork();
    if (child == 0) {
        char byte;
        int fd;

        if (setgid(65534) || setuid(65534))
            _exit(77);
        fd = intrude(target.page);
        send(fd, &granted, sizeof(granted), MSG_NOSIGNAL);
        _exit(fd < 0 || recv(fd, &byte, 1, 0) <= 0 ? 0 : 1);
    }
    status = status_of(child);
    if (status != 77)
        assert_int_equal(status, 0);
    assert_unharmed(&target);
    target_end(&target);
    if (status == 77)
        test_skip("becoming another user is not permitted here");
}

/* ---- a target that is closed meanwhile -------------------------------------------------- */

struct dripper {
    const struct target_page *page;
    atomic_int connected;
};

/* Sends a request one byte at a time until the target closes the connection. */
static void *drip(void *arg)
{
    struct dripper *dripper = arg;
    struct header header = granted;
    int fd = intrude(dripper->page);

    header.len = TARGET_BYTES;
    send_all(fd, &header, sizeof(header));
    assert_int_equal(receive_status(fd), 0);
    atomic_store(&dripper->connected, 1);
    while (send(fd, "", 1, MSG_NOSIGNAL) == 1)
        usleep(1000);
    close(fd);
    return NULL;
}

/* The domain and the slow initiator are in this process. */
static void target__closed_while_an_initiator_keeps_it_busy__does_not_wait(void **state)
{
    static char region[TARGET_BYTES];
    static struct target_page page;
    struct dripper dripper = {.page = &page};
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg *lib;
    pthread_t thread;

    page.token_size = sizeof(page.token);
    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_ok(
        hmreg_mr_reg(domain, region, sizeof(region), HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, NULL));
    assert_ok(hmreg_mr_pack(mr, page.token, &page.token_size));
    assert_int_equal(pthread_create(&thread, NULL, drip, &dripper), 0);
    while (!atomic_load(&dripper.connected))
        usleep(1000);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain)); /* a hang fails by the test's timeout */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(hmreg_close(lib));
}

TEST_MAIN(TEST(intruder__header_that_is_none__is_dropped),
          TEST(intruder__requests_beyond_its_rights__error_and_still_connected),
          TEST(intruder__leaves_in_the_middle__others_are_served),
          TEST(intruder__does_not_read_what_it_asked_for__others_are_served),
          TEST(intruder__of_another_user__is_dropped),
          TEST(target__closed_while_an_initiator_keeps_it_busy__does_not_wait))
