/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg doctor --serve and --peer with strangers, which have another secret, replay
 * messages, send an invalid message, or say nothing.
 */
#include "tests/tools/tool.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/peer.h"
#include "tools/verify/verify.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct peer_secret secret = {.bytes = "a secret of two nodes", .size = 21};
static const struct peer_secret other = {.bytes = "a secret of two others", .size = 22};
static char secret_file[64];

/* ---- the secret ------------------------------------------------------------------------- */

static const char *make_secret(const void *bytes, size_t size, mode_t mode)
{
    int fd;

    snprintf(secret_file, sizeof(secret_file), "/tmp/hmreg-peer-%d", (int)getpid());
    unlink(secret_file);
    fd = open(secret_file, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
    assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && !fchmod(fd, mode));
    close(fd);
    return secret_file;
}

TEST(secret__that_others_may_read__refused)
{
    static char much[5000];
    struct peer_secret read;

    assert_says(peer_secret_read(make_secret(secret.bytes, secret.size, 0640), &read),
                "others may read");
    assert_says(peer_secret_read(make_secret(secret.bytes, secret.size, 0602), &read),
                "others may read or write");
    assert_says(peer_secret_read(make_secret("short", 5, 0600), &read), "16 to 4095 bytes");
    assert_says(peer_secret_read(make_secret(much, sizeof(much), 0600), &read), "16 to 4095 bytes");
    assert_null(peer_secret_read(make_secret(secret.bytes, secret.size, 0600), &read));
    assert_int_equal(read.size, secret.size);
    unlink(secret_file);
    assert_says(peer_secret_read(secret_file, &read), "No such file");
    assert_says(peer_secret_read("/dev/zero", &read), "not a regular file");
}

TEST(mac__is_that_of_rfc_4231)
{
    static const uint8_t expected[PEER_MAC] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                               0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                                               0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                                               0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    uint8_t mac[PEER_MAC];

    peer_mac("Jefe", 4,
             (struct peer_part[]){{"what do ya want ", 16}, {"for nothing?", 12}, {NULL, 0}}, mac);
    assert_memory_equal(mac, expected, sizeof(mac));
}

/* ---- the wire --------------------------------------------------------------------------- */

struct meeting {
    struct wire server, asker;
    uint8_t greeting[WIRE_GREETING], answer[WIRE_ANSWER], proof[WIRE_PROOF];
};

static void meet(struct meeting *meeting)
{
    assert_true(wire_greet(&meeting->server, meeting->greeting));
    assert_true(wire_answer(&meeting->asker, &secret, meeting->greeting, meeting->answer));
    assert_true(wire_prove(&meeting->server, &secret, meeting->answer, meeting->proof));
    assert_true(wire_trust(&meeting->asker, &secret, meeting->proof));
}

TEST(wire__other_secret__neither_is_trusted)
{
    struct meeting meeting;

    assert_true(wire_greet(&meeting.server, meeting.greeting));
    assert_true(wire_answer(&meeting.asker, &other, meeting.greeting, meeting.answer));
    assert_false(wire_prove(&meeting.server, &secret, meeting.answer, meeting.proof));
    assert_true(wire_prove(&meeting.server, &other, meeting.answer, meeting.proof));
    assert_false(wire_trust(&meeting.asker, &secret, meeting.proof));
}

TEST(wire__replayed_answer_proof_or_frame__refused)
{
    struct meeting one, two;
    uint8_t frame[WIRE_FRAME], proof[WIRE_PROOF];
    size_t size;

    meet(&one);
    assert_true(wire_greet(&two.server, two.greeting));
    assert_false(wire_prove(&two.server, &secret, one.answer, proof));
    meet(&two);
    assert_true(wire_answer(&two.asker, &secret, two.greeting, two.answer));
    assert_false(wire_trust(&two.asker, &secret, one.proof));
    meet(&two);
    size = wire_seal(&one.asker, "{}", 2, frame);
    assert_false(wire_open(&two.server, frame, size)); /* of another conversation */
    assert_false(wire_open(&one.asker, frame, size));  /* sent back */
    assert_true(wire_open(&one.server, frame, size));
    assert_false(wire_open(&one.server, frame, size)); /* again */
}

TEST(wire__changed_bit__refused)
{
    struct meeting meeting;
    uint8_t frame[WIRE_HEADER + 2 + PEER_MAC];
    size_t size;

    meet(&meeting);
    size = wire_seal(&meeting.asker, "{}", 2, frame);
    assert_int_equal(size, sizeof(frame));
    for (size_t i = 0; i < 8 * size; i++) {
        frame[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_false(wire_open(&meeting.server, frame, size));
        frame[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    assert_false(wire_open(&meeting.server, frame, size - 1));
    assert_true(wire_open(&meeting.server, frame, size));
    assert_int_equal(wire_size((const uint8_t[]){0, 1, 0, 1}), 0);
}

/* ---- a server --------------------------------------------------------------------------- */

static struct server {
    pid_t pid;
    int out;
    char port[16];
    char text[1 << 16];
    size_t used;
} server;

/* Waits until the server has written these words. */
static char *wait_for_words(const char *words)
{
    char *found;
    ssize_t got;

    while (!(found = strstr(server.text, words))) {
        got = read(server.out, server.text + server.used, sizeof(server.text) - server.used - 1);
        if (got <= 0)
            fail_msg("\"%s\" is missing in:\n%s", words, server.text);
        server.used += (size_t)got;
        server.text[server.used] = '\0';
    }
    return found;
}

/* ... which another call does not find again. */
static void server_says(const char *words)
{
    char *rest = wait_for_words(words) + strlen(words);

    server.used = strlen(rest);
    memmove(server.text, rest, server.used + 1);
}

static void begin(void)
{
    const char *file = make_secret(secret.bytes, secret.size, 0600);
    int ends[2];

    memset(&server, 0, sizeof(server));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    server.out = ends[0];
    server.pid = test_fork();
    if (!server.pid) {
        dup2(ends[1], STDOUT_FILENO);
        execl(getenv("HMREG_TOOL"), "hmreg", "doctor", "--serve=127.0.0.1:0", "--secret", file,
              NULL);
        _exit(127);
    }
    close(ends[1]);
    wait_for_words("Ctrl-C");
    assert_int_equal(sscanf(strstr(server.text, " port "), " port %15[0-9]", server.port), 1);
}

static void end(void)
{
    kill(server.pid, SIGTERM);
    waitpid(server.pid, NULL, 0);
    close(server.out);
    unlink(secret_file);
}

static int stranger(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(server.port)),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Waits until the server has closed the connection. */
static void is_closed(int fd)
{
    char bytes[4096];
    ssize_t got;

    do {
        got = recv(fd, bytes, sizeof(bytes), 0);
    } while (got > 0);
    close(fd);
}

static struct peer_link *linked(struct peer_link *link)
{
    if (peer_link_open(link, "127.0.0.1", server.port, &secret))
        fail_msg("%s", link->why.text);
    return link;
}

static json_t *received(struct peer_link *link)
{
    return tool_keep(peer_link_receive(link, verify_now() + 280000));
}

/* It serves all the same. */
static void serves(void)
{
    static struct peer_link link;

    assert_int_equal(peer_link_send(linked(&link), json_pack("{s:s}", "do", "list")), 0);
    list_at(received(&link), "list");
    peer_link_close(&link);
    server_says("proved 0 pairs");
}

TEST(serve__wrong_secret__turned_away)
{
    static struct peer_link link;

    begin();
    assert_int_equal(peer_link_open(&link, "127.0.0.1", server.port, &other), -1);
    assert_string_equal(link.why.text, "the other node refused this secret");
    server_says("refused: it does not know the secret (1 so far)");
    serves();
    end();
}

TEST(serve__garbage__turned_away)
{
    char garbage[4096];
    int fd;

    begin();
    memset(garbage, 0xa5, sizeof(garbage));
    for (int i = 0; i < 20; i++) {
        fd = stranger();
        (void)!send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
        is_closed(fd);
    }
    server_says("(16 so far)");
    serves();
    end();
}

static unsigned descriptors(pid_t pid)
{
    unsigned count = 0;
    char path[64];
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

TEST(serve__strangers_that_say_nothing__bounded_and_a_peer_is_served)
{
    int fds[100];

    begin();
    for (size_t i = 0; i < COUNT(fds); i++)
        fds[i] = stranger();
    serves();
    assert_true(descriptors(server.pid) < 24);
    is_closed(fds[0]);
    is_closed(fds[50]);
    for (size_t i = 0; i < COUNT(fds); i++)
        if (i && i != 50)
            close(fds[i]);
    serves();
    end();
}

TEST(serve__stranger_that_says_nothing__has_seconds)
{
    begin();
    is_closed(stranger());
    server_says("refused: it did not prove the secret in time");
    end();
}

TEST(serve__two_peers_at_once__the_second_is_told)
{
    static struct peer_link one, two;
    const json_t *message;

    begin();
    linked(&one);
    server_says("begins");
    linked(&two);
    message = received(&two);
    assert_true(json_is_true(at(message, "busy")));
    is_closed(two.fd);
    assert_int_equal(peer_link_send(&one, json_pack("{s:s}", "do", "list")), 0);
    list_at(received(&one), "list");
    peer_link_close(&one);
    server_says("proved 0 pairs");
    serves();
    end();
}

static void frame_is_refused(struct peer_link *link, const uint8_t *frame, size_t size)
{
    assert_int_equal(send(link->fd, frame, size, MSG_NOSIGNAL), size);
    assert_null(received(link));
    peer_link_close(link);
    server_says("proved 0 pairs");
}

TEST(serve__replayed_frame__ends_the_conversation)
{
    static struct peer_link link;
    static const uint8_t longest[WIRE_HEADER] = {0xff, 0xff, 0xff, 0xff};
    uint8_t frame[256];
    size_t size;

    begin();
    size = wire_seal(&linked(&link)->wire, "{\"do\":\"none\"}", 13, frame);
    assert_int_equal(send(link.fd, frame, size, MSG_NOSIGNAL), size);
    frame_is_refused(&link, frame, size);
    frame_is_refused(linked(&link), frame, size);
    frame_is_refused(linked(&link), longest, sizeof(longest));
    serves();
    end();
}

TEST(serve__fabric_that_is_not_listed__reaches_no_process)
{
    static struct peer_link link;

    begin();
    linked(&link);
    peer_link_send(&link, json_pack("{s:s, s:s}", "do", "pair", "fabric", "ofi tcp lo ::1"));
    assert_string_equal(words_at(received(&link), "end"), "it refused this pair");
    peer_link_close(&link);
    end();
}

/* A driver that crashes costs its pairs; another node's memory is not this NIC's. */
TEST(pair__whose_process_crashes__has_a_finding_and_others_are_tried)
{
    const json_t *pair, *document;
    char peer[64];

    test_setenv("HMREG_FAKE_NICS", "mlx5_0:crash,mlx5_1");
    tool_preload_nic(true);
    begin();
    snprintf(peer, sizeof(peer), "--peer=127.0.0.1:%s", server.port);
    document = tool_document(2, "doctor", "--json", peer, "--secret", secret_file);
    tool_preload_nic(false);
    assert_int_equal(json_array_size(list_at(document, "facts/pairs")), 4);
    doc_each(pair, list_at(document, "facts/pairs")) {
        assert_says(words_at(pair, "proof/text"), !strcmp(words_at(pair, "nic"), "mlx5_0")
                                                      ? "its process crashed with signal 9"
                                                      : "remote access error");
        assert_true(json_is_object(at(pair, "risen")) && json_is_object(at(pair, "peer_risen")));
    }
    assert_non_null(find(list_at(document, "findings"), "code", "peer-failed"));
    end();
}

/* ---- findings --------------------------------------------------------------------------- */

#define PEER(fields) "{'peer': {'host': 'b', 'port': '1'" fields "}, 'pairs': "
#define PAIR(fields, result)                                                                       \
    PEER("")                                                                                       \
    "[{'provider': 'verbs', 'cpu': false, 'nic': 'm0', 'peer_nic': 'm1'" fields                    \
    ", 'proof': {'result': " result "}, 'memories': []}]}"
#define MEMORY(result)                                                                             \
    PEER("")                                                                                       \
    "[{'provider': 'ofi', 'fabric': 'tcp', 'nic': 'm0', 'peer_nic': 'm1', 'proof': {'result': "    \
    "'failed'}, 'memories': [{'memory': 'cuda-0/device', 'peer_memory': 'system/host', "           \
    "'text': 'why', 'result': " result "}]}]}"

static const struct {
    const char *code, *facts, *words;
} states[] = {
    {"peer-unreachable", PEER(", 'error': 'no', 'fault': 'no-route'") "[]}",
     "b, port 1: no: no host"},
    {"peer-unreachable", PEER(", 'error': 'no', 'fault': 'refused'") "[]}", "no process listens"},
    {"peer-no-pair", PEER("") "[]}", "No fabric here has a counterpart of the same kind on b."},
    {"peer-port-down", PAIR("", "'failed', 'fault': 'port-down', 'text': 'why'"),
     "m0 with b's m1: why."},
    {"peer-no-route", MEMORY("'failed', 'fault': 'no-route'"),
     "m0 with b's m1 (libfabric's tcp), cuda-0/device with system/host: why."},
    {"peer-refused", MEMORY("'failed', 'fault': 'refused'"), ": why."},
    {"peer-timeout", MEMORY("'failed', 'fault': 'timeout'"), ": why."},
    {"peer-mtu", MEMORY("'failed', 'fault': 'mtu'"), ": why."},
    {"peer-failed", MEMORY("'failed', 'fault': 'other'"), ": why."},
    {"peer-wrong-bytes", MEMORY("'wrong-bytes', 'fault': 'other'"), ": why."},
    {"peer-untried", PAIR("", "'untried', 'text': 'why'"), ": why."},
    {"peer-mtu-differs", PAIR(", 'port': {'mtu': 9000}, 'peer_port': {'mtu': 1500}", "'proven'"),
     "the MTU is 9000 here and 1500 there."},
    {"peer-errors", PAIR(", 'risen': {'symbol_error': 3}", "'proven'"),
     "m0 with b's m1: the port here counted errors: symbol_error by 3."},
    {"peer-errors", PAIR(", 'peer_risen': {'link_downed': 1}", "'proven'"),
     "the port on the other node counted errors: link_downed by 1."},
    {"peer-slow",
     PEER("") "[{'provider': 'verbs', 'cpu': false, 'nic': 'm0', 'peer_nic': 'm1', 'port': "
              "{'rated_mbps': 100000}, 'peer_port': {'rated_mbps': 200000}, 'proof': {'result': "
              "'proven'}, 'memories': [{'result': 'proven', 'write_mbps': 49999}]}]}",
     "less than half of the rated 100.0 Gb/s."},
};

/* Double quotes in the place of single ones, but for that of "b's". */
static json_t *facts_of(const char *text)
{
    char *copy = strdup(text);
    json_t *facts;

    for (char *at = strchr(copy, '\''); at; at = strchr(at + 1, '\''))
        *at = '"';
    facts = tool_keep(json_loads(copy, 0, NULL));
    free(copy);
    assert_non_null(facts);
    return facts;
}

static json_t *judged(const json_t *facts)
{
    json_t *found = tool_keep(json_array());

    peer_judge(facts, found);
    return tool_keep(causes_arrange(found, facts));
}

TEST(each_state__has_its_finding_alone)
{
    for (size_t i = 0; i < COUNT(states); i++) {
        const json_t *findings = judged(facts_of(states[i].facts));

        assert_int_equal(json_array_size(findings), 1);
        assert_string_equal(words_at(at(findings, "0"), "code"), states[i].code);
        assert_says(words_at(at(findings, "0"), "text"), states[i].words);
    }
}

TEST(each_code_of_peers__has_a_state)
{
    for (const struct finding *finding = all_findings; strcmp(finding->code, FIRST_REASON) != 0;
         finding++) {
        size_t i = 0;

        while (i < COUNT(states) && strcmp(states[i].code, finding->code) != 0)
            i++;
        if (i == COUNT(states) && !strncmp(finding->code, "peer-", 5))
            fail_msg("no state of this test has %s", finding->code);
    }
}

/* One of many: 99 pairs of the same fault have one finding. */
TEST(pairs__of_one_fault__one_finding)
{
    json_t *facts = facts_of(states[3].facts), *pairs = list_at(facts, "pairs");

    for (int i = 0; i < 98; i++)
        json_array_append(pairs, json_array_get(pairs, 0));
    assert_int_equal(json_array_size(judged(facts)), 1);
}

/* A pair has the same library, fabric and kind of link on both nodes; of the CPU's one is enough.
 */
TEST(pairs__of_two_lists__each_nic_with_each)
{
    static const char list[] =
        "[{'provider': 'verbs', 'fabric': 'a', 'nic': 'a', 'cpu': false, 'port': {'link': 'E'}}, "
        "{'provider': 'verbs', 'fabric': 'b', 'nic': 'b', 'cpu': false, 'port': {'link': 'E'}}, "
        "{'provider': 'verbs', 'fabric': 'c', 'nic': 'c', 'cpu': false, 'port': {'link': 'I'}}, "
        "{'provider': 'ofi', 'fabric': 'verbs', 'nic': 'a', 'cpu': false, 'port': {'link': 'E'}}, "
        "{'provider': 'ofi', 'fabric': 'tcp', 'nic': 'e', 'cpu': true, 'port': {'link': 'E'}}, "
        "{'provider': 'ofi', 'fabric': 'tcp;x', 'nic': 'e', 'cpu': true, 'port': {'link': 'E'}}]";

    json_t *one = facts_of(list);

    assert_int_equal(json_array_size(tool_keep(peer_pairs(one, one))), 4 + 1 + 1 + 1);
}

/* ---- a false server ------------------------------------------------------------------- */

/* Listens, and sends these bytes to the first that connects. */
static pid_t false_server(const void *bytes, size_t size, char port[16])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char answer[WIRE_ANSWER];
    pid_t pid;

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(port, 16, "%d", ntohs(address.sin_port));
    pid = test_fork();
    if (!pid) {
        int peer = accept(fd, NULL, NULL);

        (void)!send(peer, bytes, size, MSG_NOSIGNAL);
        (void)!recv(peer, answer, sizeof(answer), MSG_WAITALL);
        (void)!send(peer, answer + WIRE_ANSWER - WIRE_PROOF, WIRE_PROOF, MSG_NOSIGNAL);
        (void)!recv(peer, answer, sizeof(answer), 0);
        _exit(0);
    }
    close(fd);
    return pid;
}

static void asks(const void *bytes, size_t size, const char *words)
{
    char port[16], peer[64];
    pid_t pid = false_server(bytes, size, port);
    struct tool tool;

    snprintf(peer, sizeof(peer), "--peer=127.0.0.1:%s", port);
    tool = tool_run("doctor", peer, "--secret", make_secret(secret.bytes, secret.size, 0600));
    assert_says(tool.err, words);
    assert_int_equal(tool.status, 3);
    assert_string_equal(tool.out, "");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    unlink(secret_file);
}

TEST(peer__that_does_not_know_the_secret__not_trusted)
{
    uint8_t greeting[WIRE_GREETING] = WIRE_MAGIC;

    asks("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n", 45, "no hmreg doctor --serve");
    asks(greeting, sizeof(greeting), "the other node has another secret");
}

TEST(options__that_do_not_go_together__refused)
{
    struct tool tool = tool_run("doctor", "--serve");

    assert_int_equal(tool.status, 3);
    assert_says(tool.err, "needs --secret");
    tool = tool_run("doctor", "--peer", "a", "--serve", "--secret", "b");
    assert_int_equal(tool.status, 3);
    tool = tool_run("doctor", "--peer", "a:b", "--secret",
                    make_secret(secret.bytes, secret.size, 0600));
    assert_says(tool.err, "HOST or HOST:PORT is accepted");
    tool =
        tool_run("doctor", "--peer", "a", "--secret", make_secret(secret.bytes, secret.size, 0644));
    assert_says(tool.err, "chmod 600");
    unlink(secret_file);
}

TEST_MAIN()
