/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A loopback target and initiators that violate its protocol: their requests change only what the
 * protocol grants, and do not affect other initiators. They write to the socket directly. */
#include "core/base/crc32.h"
#include "tests/fault/wire.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

/* The clock of targets, here and in other processes: it stands still, so that no intruder and no
 * initiator is too slow for one, or runs and moves on by a second each time a target looks. */
static struct {
    atomic_bool runs;
    atomic_uint looks;
    atomic_long seconds;
} * targets_clock;

static void __attribute__((constructor)) share_clock(void)
{
    targets_clock = mmap(NULL, sizeof(*targets_clock), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (targets_clock == MAP_FAILED)
        abort();
}

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

/* A target serves on a thread that blocks all signals. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    sigset_t blocked;

    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (!sigismember(&blocked, SIGUSR1))
        return __real_clock_gettime(clock, out);
    atomic_fetch_add(&targets_clock->looks, 1);
    if (atomic_load(&targets_clock->runs))
        atomic_fetch_add(&targets_clock->seconds, 1);
    *out = (struct timespec){.tv_sec = 1 + atomic_load(&targets_clock->seconds)};
    return 0;
}

static const struct header granted = {.magic = HEADER_MAGIC, .write = 1, .key = 9, .len = 100};

/* Connects as a process that knows the socket's name only. */
static int connect_to(const struct target_page *page)
{
    struct loopback_address address = address_in(page);
    struct sockaddr_un name;
    socklen_t len = wire_name(&address, &name);
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

/* Connects as a process that has the token. */
static int intrude(const struct target_page *page)
{
    struct loopback_address address = address_in(page);
    int fd = connect_to(page);

    if (fd >= 0)
        prove_as_initiator(fd, &address); /* it may be dropped already */
    return fd;
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

TEST(intruder__header_that_is_none__is_dropped)
{
    struct header bad[5] = {granted, granted, granted, granted, granted};
    struct target target;

    bad[0].magic = 0;
    bad[1].len = 0;
    bad[2].auth.size = LOOPBACK_AUTH_MAX + 1;
    bad[3].auth.size = UINT32_MAX;
    bad[4].zero = 1;
    target_start(&target, NULL);
    for (int i = 0; i < 5; i++) {
        int fd = intrude(target.page);

        send_all(fd, &bad[i], sizeof(bad[i]));
        assert_dropped(fd);
        assert_unharmed(&target);
    }
    target_end(&target);
}

TEST(intruder__requests_beyond_its_rights__error_and_still_connected)
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
            struct header header = {.magic = HEADER_MAGIC,
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

TEST(intruder__leaves_in_the_middle__others_are_served)
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
TEST(intruder__does_not_read_what_it_asked_for__others_are_served)
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

TEST(intruder__of_another_user__is_dropped)
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

/* ---- without a token -------------------------------------------------------------------- */

/* Says hello with this magic number, and proves the secret wrongly. */
static void assert_not_proved(const struct target *target, uint32_t magic,
                              uint64_t (*prove)(int fd, const struct hello *, const struct reply *,
                                                const struct loopback_address *))
{
    struct loopback_address address = address_in(target->page);
    struct hello hello = {.magic = magic};
    int fd = connect_to(target->page);
    struct reply reply;
    uint64_t proof;

    send_all(fd, &hello, sizeof(hello));
    if (recv(fd, &reply, sizeof(reply), MSG_WAITALL) == sizeof(reply)) {
        assert_non_null(prove);
        proof = prove(fd, &hello, &reply, &address);
        send_all(fd, &proof, sizeof(proof));
        send(fd, &granted, sizeof(granted), MSG_NOSIGNAL); /* it may be gone already */
    }
    assert_dropped(fd);
    assert_unharmed(target);
}

static uint64_t reflect(int fd, const struct hello *hello, const struct reply *reply,
                        const struct loopback_address *address)
{
    return reply->proof;
}

static uint64_t prove_by_a_wrong_secret(int fd, const struct hello *hello,
                                        const struct reply *reply,
                                        const struct loopback_address *address)
{
    struct loopback_address wrong = *address;

    wrong.secret[LOOPBACK_SECRET_BYTES - 1] ^= 0x80;
    return wire_proof(wrong.secret, INITIATOR, fd, hello->nonce, reply->nonce);
}

static uint64_t prove_with_a_wrong_bit(int fd, const struct hello *hello, const struct reply *reply,
                                       const struct loopback_address *address)
{
    return wire_proof(address->secret, INITIATOR, fd, hello->nonce, reply->nonce) ^ 1ull << 63;
}

/* For a connection on which the target drew other numbers. */
static uint64_t prove_as_before(int fd, const struct hello *hello, const struct reply *reply,
                                const struct loopback_address *address)
{
    static const uint8_t before[NONCE_BYTES] = {1};

    return wire_proof(address->secret, INITIATOR, fd, hello->nonce, before);
}

/* The socket's name is in /proc/net/unix, and the key is easy to guess. */
TEST(intruder__without_the_secret__is_dropped)
{
    struct target target;

    target_start(&target, NULL);
    assert_not_proved(&target, HELLO_MAGIC, reflect);
    assert_not_proved(&target, HELLO_MAGIC, prove_by_a_wrong_secret);
    assert_not_proved(&target, HELLO_MAGIC, prove_with_a_wrong_bit);
    assert_not_proved(&target, HELLO_MAGIC, prove_as_before);
    assert_not_proved(&target, HEADER_MAGIC, NULL);
    target_end(&target);
}

/* A request as before there were secrets. */
TEST(intruder__request_without_a_hello__is_dropped)
{
    struct target target;
    int fd;

    target_start(&target, NULL);
    fd = connect_to(target.page);
    send_all(fd, &granted, sizeof(granted));
    assert_dropped(fd);
    assert_unharmed(&target);
    target_end(&target);
}

/* The secret in a token is changed: its domain is not reached, in this process as in another. */
TEST(token__with_another_secret__hostunreach)
{
    static char region[100];
    uint8_t token[512];
    size_t size = sizeof(token);
    struct hmreg_domain *domain;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    struct hmreg *lib;
    uint32_t crc;

    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_ok(hmreg_mr_reg(domain, region, 100, HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, NULL));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    token[size - 4 - 16 - 1] ^= 1; /* the end of its address, before the extension */
    crc = crc32_of(token, size - 4);
    memcpy(token + size - 4, &crc, 4);
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    assert_fails(hmreg_loopback_write(remote, "x", 1, NULL, 0, 9), -EHOSTUNREACH, "token");
    assert_int_equal(region[0], 0);
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

/* ---- users without a number ------------------------------------------------------------- */

static void become_overflow_user(void)
{
    char line[64];
    uid_t outside = geteuid();
    int fd;

    if (unshare(CLONE_NEWUSER))
        _exit(0);
    snprintf(line, sizeof(line), "65534 %u 1", (unsigned)outside);
    fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, line, strlen(line)) < 0 || geteuid() != 65534)
        _exit(0);
    close(fd);
}

/* In the target's user namespace every user without a number there looks like the target's own. */
TEST(intruder__user_id_that_is_not_mapped__is_dropped)
{
    struct target target;
    pid_t child;

    if (!target_try_start(&target, become_overflow_user))
        test_skip("new user namespaces are not permitted here");
    child = fork();
    if (child == 0) {
        char byte;
        int fd;

        if (geteuid() == 0 && setuid(1234))
            _exit(2);
        fd = intrude(target.page);
        send(fd, &granted, sizeof(granted), MSG_NOSIGNAL);
        _exit(fd < 0 || recv(fd, &byte, 1, 0) <= 0 ? 0 : 1);
    }
    assert_int_equal(status_of(child), 0);
    for (size_t i = 0; i < TARGET_BYTES; i++)
        assert_int_equal(target.bytes[i], 0);
    target_end(&target);
}

/* ---- slow ones -------------------------------------------------------------------------- */

struct dripper {
    int fd;
    const char *bytes; /* of a hello or a header; NULL: data, without end */
    atomic_int sent;
};

/* A second later the target looks whether the byte has come in time. */
static bool is_next_due(const struct dripper *dripper, unsigned looks)
{
    if (!dripper->bytes)
        return true;
    return atomic_load(&targets_clock->runs) && atomic_load(&targets_clock->looks) != looks;
}

/* Sends one byte at a time until the target closes the connection. */
static void *drip(void *arg)
{
    struct dripper *dripper = arg;
    struct pollfd closed = {.fd = dripper->fd, .events = POLLIN};
    unsigned looks;

    do {
        looks = atomic_load(&targets_clock->looks);
        if (send(dripper->fd, dripper->bytes ? dripper->bytes++ : "", 1, MSG_NOSIGNAL) != 1)
            break;
        atomic_fetch_add(&dripper->sent, 1);
        while (!poll(&closed, 1, 1) && !is_next_due(dripper, looks))
            ;
    } while (!closed.revents);
    return NULL;
}

/* Fills the connections of drippers: within a hello and a proof, a header, and the data of a
 * request. */
static void start_dripping(const struct target_page *page, struct dripper drippers[3],
                           pthread_t threads[3])
{
    static struct hello hello = {.magic = HELLO_MAGIC};
    static struct header header;

    header = granted;
    header.len = TARGET_BYTES;
    drippers[0] = (struct dripper){.fd = connect_to(page), .bytes = (char *)&hello};
    drippers[1] = (struct dripper){.fd = intrude(page), .bytes = (char *)&header};
    drippers[2] = (struct dripper){.fd = intrude(page)};
    send_all(drippers[2].fd, &header, sizeof(header));
    assert_int_equal(receive_status(drippers[2].fd), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, drip, &drippers[i]), 0);
        test_wait_until(atomic_load(&drippers[i].sent));
    }
}

/* While they send, others are served. At last each of them loses its connection, although it never
 * stopped to send. */
TEST(intruders__a_byte_at_a_time__delay_nobody_and_end)
{
    struct dripper drippers[3];
    struct initiator initiator;
    pthread_t threads[3];
    struct target target;
    char back[3];

    target_start(&target, NULL);
    start_dripping(target.page, drippers, threads);
    initiator_open(&initiator, &target);
    for (int i = 0; i < 20; i++) {
        assert_ok(initiator_write(&initiator, TARGET_BYTES - 3, "now", 3));
        assert_ok(initiator_read(&initiator, TARGET_BYTES - 3, back, 3));
        assert_memory_equal(back, "now", 3);
    }
    initiator_close(&initiator);
    atomic_store(&targets_clock->runs, true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_dropped(drippers[i].fd);
    }
    atomic_store(&targets_clock->runs, false);
    target_end(&target);
}

/* Connections without the secret take no place of those that have it. */
TEST(intruders__many_that_send_nothing__others_keep_their_connection)
{
    enum { STRANGERS = 400 };
    struct header header = granted;
    int strangers[STRANGERS], fd;
    struct target target;

    header.len = TARGET_BYTES + 1;
    target_start(&target, NULL);
    fd = intrude(target.page);
    send_all(fd, &header, sizeof(header));
    assert_int_equal(receive_status(fd), -ERANGE);
    for (int i = 0; i < STRANGERS; i++)
        strangers[i] = connect_to(target.page);
    assert_dropped(strangers[0]);
    assert_dropped(strangers[STRANGERS / 2]);
    send_all(fd, &header, sizeof(header));
    assert_int_equal(receive_status(fd), -ERANGE);
    close(fd);
    assert_unharmed(&target);
    for (int i = 1; i < STRANGERS; i++)
        if (i != STRANGERS / 2)
            close(strangers[i]);
    target_end(&target);
}

/* ---- descriptors ------------------------------------------------------------------------ */

#define FEW_FDS 64

/* Tells how many descriptors the target's program can open now, as 1000 and that number. */
static void count_free_descriptors(int signal)
{
    int fds[FEW_FDS], count = 0, before = errno;

    while (count < FEW_FDS && (fds[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        close(fds[i]);
    target_page->ready = 1000 + count;
    errno = before;
}

static void have_few_descriptors(void)
{
    struct rlimit few = {FEW_FDS, FEW_FDS};

    setrlimit(RLIMIT_NOFILE, &few);
    signal(SIGUSR1, count_free_descriptors);
}

static int free_descriptors(const struct target *target)
{
    target->page->ready = 1;
    kill(target->pid, SIGUSR1);
    while (target->page->ready == 1)
        sched_yield();
    return target->page->ready - 1000;
}

/* Peers that have the secret and keep their connections get a part of the target's descriptors, the
 * program the others; newcomers are answered in place of the peer that was served longest ago. */
TEST(intruders__more_than_descriptors__program_keeps_most_and_all_are_answered)
{
    enum { FIRST = FEW_FDS / 2, PEERS = 3 * FEW_FDS };
    struct header header = granted;
    struct target target;
    int peers[PEERS], unused;

    header.len = TARGET_BYTES + 1;
    target_start(&target, have_few_descriptors);
    unused = free_descriptors(&target);
    for (int i = 0; i < PEERS; i++) {
        peers[i] = intrude(target.page);
        send_all(peers[i], &header, sizeof(header));
        assert_int_equal(receive_status(peers[i]), -ERANGE);
        if (i == FIRST - 1)
            assert_true(free_descriptors(&target) >= unused - FEW_FDS / 4);
    }
    assert_true(free_descriptors(&target) >= unused - FEW_FDS / 4);
    assert_dropped(peers[0]);
    send_all(peers[PEERS - 1], &header, sizeof(header));
    assert_int_equal(receive_status(peers[PEERS - 1]), -ERANGE);
    assert_unharmed(&target);
    for (int i = 1; i < PEERS; i++)
        close(peers[i]);
    target_end(&target);
}

/* The peer is connected still. */
static bool answers(int fd)
{
    struct header header = granted;
    int32_t status;

    header.len = TARGET_BYTES + 1;
    return send(fd, &header, sizeof(header), MSG_NOSIGNAL) == sizeof(header) &&
           recv(fd, &status, sizeof(status), MSG_WAITALL) == sizeof(status) && status == -ERANGE;
}

/* They displace no connection that has the secret, even where no place is free. */
TEST(intruders__without_the_secret_and_no_place_free__displace_nobody)
{
    enum { PEERS = FEW_FDS / 4 };
    bool before[PEERS];
    struct target target;
    int peers[PEERS];

    target_start(&target, have_few_descriptors);
    for (int i = 0; i < PEERS; i++) {
        peers[i] = intrude(target.page);
        assert_true(answers(peers[i]));
    }
    for (int i = 0; i < PEERS; i++)
        before[i] = answers(peers[i]);
    for (int i = 0; i < PEERS; i++) {
        struct loopback_address guess = address_in(target.page);
        int fd = connect_to(target.page);

        memset(guess.secret, 0, sizeof(guess.secret));
        assert_true(prove_as_initiator(fd, &guess));
        assert_dropped(fd);
    }
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(answers(peers[i]), before[i]);
        close(peers[i]);
    }
    assert_true(before[PEERS - 1]);
    target_end(&target);
}

/* Peers that have the secret displace idle ones: a request in progress goes on. */
TEST(intruders__more_than_places__requests_in_progress_go_on)
{
    enum { PEERS = FEW_FDS };
    char data[100] = {0};
    struct target target;
    int busy, peers[PEERS];

    target_start(&target, have_few_descriptors);
    busy = intrude(target.page);
    send_all(busy, &granted, sizeof(granted));
    assert_int_equal(receive_status(busy), 0);
    for (int i = 0; i < PEERS; i++) {
        peers[i] = intrude(target.page);
        assert_true(answers(peers[i]));
    }
    assert_dropped(peers[0]);
    send_all(busy, data, sizeof(data));
    assert_int_equal(receive_status(busy), 0);
    close(busy);
    for (int i = 1; i < PEERS; i++)
        close(peers[i]);
    target_end(&target);
}

/* ---- a target that is closed meanwhile -------------------------------------------------- */

/* The domain and the slow initiator are in this process. */
TEST(target__closed_while_an_initiator_keeps_it_busy__does_not_wait)
{
    static char region[TARGET_BYTES];
    static struct target_page page;
    struct dripper drippers[3];
    pthread_t threads[3];
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg *lib;

    page.token_size = sizeof(page.token);
    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_ok(
        hmreg_mr_reg(domain, region, sizeof(region), HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, NULL));
    assert_ok(hmreg_mr_pack(mr, page.token, &page.token_size));
    start_dripping(&page, drippers, threads);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        close(drippers[i].fd);
    }
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
