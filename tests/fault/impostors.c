/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Loopback initiators whose target is not what the token says, or violates the protocol: they send
 * nothing to a process that does not prove the domain's secret, and believe no false answer. */
#include "tests/fault/wire.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

/* A thread in a hurry sees a minute pass at each look at the clock. */
static _Thread_local bool in_a_hurry;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    static _Thread_local time_t ahead;
    int rc = __real_clock_gettime(clock, out);

    if (in_a_hurry)
        out->tv_sec += ahead += 60;
    return rc;
}

/* ---- impostors without the secret ------------------------------------------------------- */

enum answer { NONE, END, STATUSES, ECHO, ANSWERS };

/* What the impostor received, shared with the test. */
struct record {
    volatile int step; /* 1: the domain has ended; 2: the impostor listens */
    volatile enum answer answer;
    atomic_size_t size;
    char bytes[1 << 16];
};

static struct record *share_record(void)
{
    struct record *record =
        mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(record, MAP_FAILED);
    return record;
}

/* Notes all that an initiator sends, until it or the answer ends the connection. */
static void converse(int fd, struct record *record)
{
    static const int32_t statuses[16] = {0};
    ssize_t got;

    do {
        char *at = record->bytes + record->size;

        if (record->answer == STATUSES)
            send(fd, statuses, sizeof(statuses), MSG_NOSIGNAL);
        got = recv(fd, at, sizeof(record->bytes) - record->size, 0);
        if (got > 0) {
            record->size += (size_t)got;
            for (int i = 0; record->answer == ECHO && i < 2; i++) /* as much as a reply */
                send(fd, at, (size_t)got, MSG_NOSIGNAL);
        }
    } while (got > 0 && record->answer != END);
    close(fd);
}

/* In a process of our user: it takes the name of a domain that has ended. In new namespaces where
 * that is permitted, so that the initiator sees no process of its pid. */
static void impersonate(const struct loopback_address *address, struct record *record)
{
    int listener;
    pid_t child;

    if (unshare(CLONE_NEWPID | CLONE_NEWNS))
        (void)unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS);
    child = fork();
    if (child) {
        status_of(child);
        _exit(0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!record->step)
        sched_yield();
    listener = listen_as(address);
    record->step = 2;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
            converse(fd, record);
    }
}

/* A target, its initiator and, once it has ended, an impostor at its name. The impostor's process
 * is made while this one has no other thread. */
static pid_t replace_target(struct target *target, struct initiator *initiator,
                            struct record *record)
{
    struct loopback_address address;
    pid_t impostor;

    target_start(target, NULL);
    address = address_in(target->page);
    impostor = test_fork();
    if (impostor == 0)
        impersonate(&address, record);
    initiator_open(initiator, target);
    assert_ok(initiator_write(initiator, 0, "before", 6));
    kill(target->pid, SIGKILL);
    assert_int_equal(status_of(target->pid), -1);
    target->pid = 0;
    record->step = 1;
    test_wait_until(record->step == 2);
    return impostor;
}

static void stop_impostor(pid_t impostor, struct record *record)
{
    kill(impostor, SIGKILL);
    assert_int_equal(status_of(impostor), -1);
    munmap(record, sizeof(*record));
}

/* The impostor accepts one connection after the other: when it has the bytes of this last one, it
 * has all that came before. */
static void await_conversations(const struct loopback_address *address, struct record *record)
{
    static const char last[] = "the last conversation";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un name;
    socklen_t len = wire_name(address, &name);

    assert_int_equal(connect(fd, (struct sockaddr *)&name, len), 0);
    assert_int_equal(send(fd, last, sizeof(last), MSG_NOSIGNAL), sizeof(last));
    test_wait_until(memmem(record->bytes, record->size, last, sizeof(last)));
    close(fd);
    record->size -= sizeof(last);
}

TEST(impostor__at_the_name_of_a_domain_that_ended__learns_nothing)
{
    static const char secret[] = "confidential";
    struct record *record = share_record();
    struct loopback_address address;
    struct initiator initiator;
    struct target target;
    pid_t impostor;
    char back[8];

    impostor = replace_target(&target, &initiator, record);
    address = address_in(target.page);
    for (record->answer = END; record->answer < ANSWERS; record->answer++) {
        record->size = 0;
        assert_fails(initiator_write(&initiator, 0, secret, sizeof(secret)), -EHOSTUNREACH,
                     "does not prove");
        assert_fails(initiator_read(&initiator, 0, back, sizeof(back)), -EHOSTUNREACH,
                     "does not prove");
        await_conversations(&address, record);
        assert_true(record->size > 0);
        assert_null(memmem(record->bytes, record->size, address.secret, sizeof(address.secret)));
        assert_null(memmem(record->bytes, record->size, secret, sizeof(secret)));
    }
    stop_impostor(impostor, record);
    initiator_close(&initiator);
    target_end(&target);
}

TEST(impostor__that_never_answers__hostunreach)
{
    struct record *record = share_record();
    struct initiator initiator;
    struct target target;
    pid_t impostor;

    impostor = replace_target(&target, &initiator, record);
    in_a_hurry = true;
    assert_fails(initiator_write(&initiator, 0, "x", 1), -EHOSTUNREACH, "does not prove");
    in_a_hurry = false;
    stop_impostor(impostor, record);
    initiator_close(&initiator);
    target_end(&target);
}

/* ---- a relay ---------------------------------------------------------------------------- */

struct relay {
    int listener, target;
};

static bool pass_on(int from, int to)
{
    char bytes[4096];
    ssize_t got = recv(from, bytes, sizeof(bytes), 0);

    return got > 0 && send(to, bytes, (size_t)got, MSG_NOSIGNAL) == got;
}

static void *relay_one(void *arg)
{
    struct relay *relay = arg;
    struct pollfd ends[2] = {{.fd = accept(relay->listener, NULL, NULL), .events = POLLIN},
                             {.fd = relay->target, .events = POLLIN}};

    while (poll(ends, 2, -1) > 0)
        for (int i = 0; i < 2; i++)
            if (ends[i].revents && !pass_on(ends[i].fd, ends[!i].fd)) {
                close(ends[0].fd);
                return NULL;
            }
    return NULL;
}

/* A network namespace of its own, with the same user. */
static bool enter_new_network(void)
{
    char line[64];
    int fd;

    if (!unshare(CLONE_NEWNET))
        return true;
    snprintf(line, sizeof(line), "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
        return false;
    fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (write(fd, line, strlen(line)) < 0) {
        close(fd);
        return false;
    }
    close(fd);
    return true;
}

/* 77: this needs a right or a kernel that is not here. */
static int write_by_a_relay(const struct target *target)
{
    struct loopback_address address = address_in(target->page);
    struct relay relay = {.target = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    socklen_t len, cookie_size = sizeof(uint64_t);
    struct initiator initiator;
    struct sockaddr_un name;
    pthread_t thread;
    uint64_t cookie;
    int rc;

    len = wire_name(&address, &name);
    if (connect(relay.target, (struct sockaddr *)&name, len))
        return 1;
    if (getsockopt(relay.target, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &cookie_size) ||
        !enter_new_network())
        return 77;
    relay.listener = listen_as(&address);
    if (pthread_create(&thread, NULL, relay_one, &relay))
        return 2;
    initiator_open(&initiator, target);
    rc = initiator_write(&initiator, 0, "relayed", 7);
    shutdown(relay.target, SHUT_RDWR);
    pthread_join(thread, NULL);
    return rc == -EHOSTUNREACH ? 0 : 3;
}

/* It has the name in another network namespace and a connection to the owner. */
TEST(relay__between_an_initiator_and_the_owner__hostunreach)
{
    struct target target;
    pid_t child;
    int status;

    target_start(&target, NULL);
    child = test_fork();
    if (child == 0)
        _exit(write_by_a_relay(&target));
    status = status_of(child);
    assert_int_equal(target.bytes[0], 0);
    target_end(&target);
    if (status == 77)
        test_skip("no new network namespace, or Linux before 5.14");
    assert_int_equal(status, 0);
}

/* ---- hostile targets that have the secret ----------------------------------------------- */

/* A thread that has the name and the secret of a domain that is closed. */
struct hostile {
    struct target_page page;
    struct loopback_address address;
    int listener;
    const void *answer;
    size_t answer_size;
    struct header seen;
};

static void *answer_as_it_says(void *arg)
{
    struct hostile *hostile = arg;
    int fd;

    while ((fd = accept(hostile->listener, NULL, NULL)) >= 0) {
        if (prove_as_target(fd, &hostile->address) &&
            recv(fd, &hostile->seen, sizeof(hostile->seen), MSG_WAITALL) > 0)
            send(fd, hostile->answer, hostile->answer_size, MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static void make_token(struct target_page *page)
{
    static char region[TARGET_BYTES];
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg *lib;

    page->token_size = sizeof(page->token);
    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_ok(
        hmreg_mr_reg(domain, region, sizeof(region), HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, NULL));
    assert_ok(hmreg_mr_pack(mr, page->token, &page->token_size));
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

static int write_to_hostile(struct hostile *hostile)
{
    struct target target = {.page = &hostile->page};
    struct initiator initiator;
    pthread_t thread;
    int rc;

    make_token(&hostile->page);
    initiator_open(&initiator, &target);
    hostile->address = address_in(&hostile->page);
    hostile->listener = listen_as(&hostile->address);
    assert_int_equal(pthread_create(&thread, NULL, answer_as_it_says, hostile), 0);
    rc = initiator_write(&initiator, 0, "x", 1);
    shutdown(hostile->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(hostile->listener);
    initiator_close(&initiator);
    return rc;
}

/* Its bytes and the error "no answer" add up to 0, or to more. */
TEST(target__sends_part_of_a_status__hostunreach)
{
    static const uint8_t parts[][3] = {
        {EHOSTUNREACH}, {EHOSTUNREACH + 5}, {0, 1}, {0xff, 0xff, 0xff}};
    static struct hostile hostile;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (size_t size = 1; size <= 3; size++) {
            hostile.answer = parts[i];
            hostile.answer_size = size;
            assert_int_equal(write_to_hostile(&hostile), -EHOSTUNREACH);
        }
}

TEST(target__sends_a_status_that_is_none__eio)
{
    static const int32_t statuses[] = {1, INT32_MAX, -4096, INT32_MIN};
    static struct hostile hostile;

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        hostile.answer = &statuses[i];
        hostile.answer_size = sizeof(statuses[i]);
        assert_int_equal(write_to_hostile(&hostile), -EIO);
    }
}

/* What the initiator's stack had before is in none of a request's bytes: the compiler fills it here
 * (CMakeLists.txt), so that a byte that nothing has set is not 0. */
TEST(initiator__asks_a_hostile_target__tells_nothing_else)
{
    const int32_t refusal = -EACCES;
    static struct hostile hostile;
    struct header expected = {.magic = HEADER_MAGIC, .write = 1, .key = 9, .len = 1};

    hostile.answer = &refusal;
    hostile.answer_size = sizeof(refusal);
    assert_int_equal(write_to_hostile(&hostile), -EACCES);
    expected.addr = hostile.seen.addr;
    assert_memory_equal(&hostile.seen, &expected, 2 * 4 + 4 * 8 + sizeof(struct loopback_auth));
    for (size_t i = 2 * 4 + 4 * 8 + sizeof(struct loopback_auth); i < sizeof(expected); i++)
        assert_int_equal(((uint8_t *)&hostile.seen)[i], 0);
}

TEST_MAIN()
