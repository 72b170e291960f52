/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The processes that call vendors and fabrics for peer.h: one lists what is on this node, one asks
 * and one serves in the proof of a pair of NICs. The last two talk, a line of JSON each:
 *
 *     server  {"memories": ["system/host", ...]}
 *     asker   {"try": MEMORY, "address": HEX}         an endpoint, which the server connects with
 *     server  {"address": HEX, "token": HEX}
 *     asker   {"look": SEED}, {"fill": SEED}          at, or into, the beginning of the memory
 *     server  {}
 *
 * or the server says {"fault": FAULT, "text": WHY}. The asker moves the bytes: to the server's
 * memory and from it, to its own memory and from it.
 */
#include "tools/command.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/peer.h"
#include "tools/fabrics.h"
#include "tools/foreign.h"
#include "tools/root.h"
#include "tools/signals.h"
#include "tools/verify/verify.h"

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TOKEN   1024
#define MOVES   1000      /* most of a measurement, */
#define MEASURE 200000000 /* which takes as many nanoseconds */

struct child {
    struct fabric_list list; /* first: its callbacks get it */
    const char *argument;
    json_t *result;
};

/* ---- names ------------------------------------------------------------------------------ */

/* A fabric's ID, unique on this node. */
static void name_fabric(const struct fabric *fabric, char name[PEER_FABRIC])
{
    snprintf(name, PEER_FABRIC, "%s %.160s %.160s %.64s", fabric->provider, fabric->name,
             fabric->domain, fabric->address ? fabric->address : "");
}

static bool has_name(struct fabric_list *list, const struct fabric *fabric)
{
    const struct child *child = (const struct child *)list;
    char name[PEER_FABRIC];

    name_fabric(fabric, name);
    return fabric->loop && !strcmp(name, child->argument);
}

/* ---- the list --------------------------------------------------------------------------- */

/* Lists each NIC's fabric, and tcp at the address by which the nodes talk. Skips link-local
 * addresses: every link has that network, so they reach no other link. */
static bool is_listed(struct fabric_list *list, const struct fabric *fabric)
{
    const struct child *child = (const struct child *)list;

    if (!fabric->loop || !strcmp(fabric->provider, "loopback"))
        return false;
    if (fabric->nic)
        return !fabric->address || strncmp(fabric->address, "fe80:", 5) != 0;
    return fabric->address && !strcmp(fabric->address, child->argument) &&
           (!strcmp(fabric->name, "tcp") || !strcmp(fabric->name, "tcp;ofi_rxm"));
}

/* Not from /sys, which may show another network namespace. */
static json_t *mtu_of(const char *interface)
{
    struct ifreq request = {.ifr_mtu = 0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = -1;

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", interface);
    if (fd >= 0) {
        rc = ioctl(fd, SIOCGIFMTU, &request);
        close(fd);
    }
    return rc ? json_null() : doc_made(json_integer(request.ifr_mtu));
}

/* A NIC's active port, or else its first; for Ethernet with its interface's MTU. */
static json_t *port_of_nic(const json_t *nics, const char *nic)
{
    const json_t *ports = json_object_get(doc_find(nics, "name", nic), "ports");
    const json_t *port = doc_find(ports, "state", "ACTIVE");
    char interface[64] = "";

    port = port ? port : json_array_get(ports, 0);
    root_read(interface, sizeof(interface), "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/0",
              nic, (int)doc_number(port, "port"));
    return doc_pack("{s:I, s:s, s:s, s:I, s:o}", "port", (json_int_t)doc_number(port, "port"),
                    "state", doc_words(port, "state"), "link", doc_words(port, "link"),
                    "rated_mbps", (json_int_t)(strtod(doc_words(port, "rate"), NULL) * 1000), "mtu",
                    mtu_of(interface));
}

static json_t *port_of_interface(const char *interface)
{
    json_t *speed = root_number_fact("/sys/class/net/%s/speed", interface);
    json_int_t mbps = json_integer_value(speed);

    json_decref(speed);
    return doc_pack("{s:s, s:s, s:I, s:o}", "state", "ACTIVE", "link", "Ethernet", "rated_mbps",
                    mbps > 0 ? mbps : 0, "mtu", mtu_of(interface));
}

/* On each node hmreg doctor reports why a NIC cannot register a memory. */
static bool has_path(const json_t *memory)
{
    return !doc_equals(memory, "best", "none");
}

static json_t *memory_names(const json_t *described)
{
    json_t *names = doc_array();
    const json_t *memory;
    char name[VERIFY_NAME];

    doc_each(memory, json_object_get(described, "memory"))
        if (has_path(memory))
            doc_add(names, doc_text(verify_memory_name(memory, name)));
    return names;
}

/* False for fabrics that need a connection manager (iWARP, libfabric's FI_EP_MSG). */
static bool connects(const struct fabric *fabric, struct hmreg_domain *domain)
{
    struct loop *loop = NULL;
    struct loop_why why;

    if (signals_after(fabric->loop->open(fabric, domain, &loop, &why)))
        return why.fault == LOOP_PORT_DOWN;
    fabric->loop->close(loop);
    return true;
}

static void list_fabric(struct fabric_list *list, const struct fabric *fabric,
                        struct hmreg_domain *domain, json_t *described)
{
    struct child *child = (struct child *)list;
    json_t *nics;
    char name[PEER_FABRIC];

    if (!connects(fabric, domain))
        return;
    nics = fabric->nic ? nics_facts() : NULL;
    name_fabric(fabric, name);
    doc_add(
        child->result,
        doc_pack("{s:o, s:s, s:o, s:o, s:b, s:o}", "id", doc_text(name), "provider",
                 fabric->provider, "fabric", doc_text(fabric->name), "nic",
                 doc_text(fabric->nic ? fabric->nic : fabric->domain), "cpu", !fabric->nic, "port",
                 fabric->nic ? port_of_nic(nics, fabric->nic) : port_of_interface(fabric->domain)));
    json_decref(nics);
}

/* ---- talking ---------------------------------------------------------------------------- */

static void say(json_t *message)
{
    json_t *line = doc_pack("{s:o}", "say", message);

    json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

/* Reads more of the other side's messages, and meanwhile lets its operations on this side's memory
 * progress. */
static ssize_t read_more(const struct side *side, char *to, size_t room)
{
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    const struct loop_ops *ops = side->fabric->loop;
    bool serves = side->loop && ops->serve;
    int rc;

    do {
        rc = poll(&ready, 1, serves ? 0 : -1);
        if (serves)
            ops->serve(side->loop);
    } while (!rc || (rc < 0 && errno == EINTR));
    return rc < 0 ? rc : read(STDIN_FILENO, to, room);
}

/* NULL: the other side has ended. */
static json_t *hear(const struct side *side)
{
    static char text[WIRE_MOST + 2];
    static size_t used;
    char *end;
    json_t *message;

    while (!(end = memchr(text, '\n', used))) {
        ssize_t got = used < sizeof(text) ? read_more(side, text + used, sizeof(text) - used) : 0;

        if (got <= 0)
            return NULL;
        used += (size_t)got;
    }
    message = json_loadb(text, (size_t)(end - text), 0, NULL);
    used -= (size_t)(end + 1 - text);
    memmove(text, end + 1, used);
    return message;
}

static json_t *hex(const void *bytes, size_t size)
{
    char text[2 * TOKEN + 1] = "";

    for (size_t i = 0; i < size && i < TOKEN; i++)
        sprintf(text + 2 * i, "%02x", ((const uint8_t *)bytes)[i]);
    return doc_text(text);
}

/* How many bytes they are; 0: none, or more than there is room for. */
static size_t from_hex(const char *text, void *bytes, size_t room)
{
    size_t size = strlen(text) / 2;
    unsigned byte;

    if (size > room || strspn(text, "0123456789abcdef") != 2 * size)
        return 0;
    for (size_t i = 0; i < size; i++) {
        sscanf(text + 2 * i, "%2x", &byte);
        ((uint8_t *)bytes)[i] = (uint8_t)byte;
    }
    return size;
}

static const json_t *memory_of(const json_t *described, const char *wanted)
{
    char name[VERIFY_NAME];
    const json_t *memory;

    doc_each(memory, json_object_get(described, "memory"))
        if (!strcmp(verify_memory_name(memory, name), wanted))
            return memory;
    return NULL;
}

/* ---- serving ---------------------------------------------------------------------------- */

static int connect_with(struct side *side, const json_t *message, struct loop_why *why)
{
    struct loop_address address;

    address.size = from_hex(doc_words(message, "address"), address.bytes, sizeof(address.bytes));
    return side->fabric->loop->connect(side->loop, &address, why);
}

/* The answer to "try". */
static json_t *offer(struct side *side, const json_t *described, const json_t *message,
                     struct loop_why *why)
{
    const json_t *memory = memory_of(described, doc_words(message, "try"));
    struct loop_address address;
    char token[TOKEN];
    size_t size = sizeof(token);

    side_close(side);
    if (!memory) {
        loop_fail(why, "there is no such memory");
        return NULL;
    }
    if (side_open(side, memory, why) || side->fabric->loop->address(side->loop, &address, why) ||
        connect_with(side, message, why))
        return NULL;
    if (hmreg_mr_pack(side->mr, token, &size)) {
        loop_fail(why, "its region has no token: %s", hmreg_last_error()->text);
        return NULL;
    }
    return doc_pack("{s:o, s:o}", "address", hex(address.bytes, address.size), "token",
                    hex(token, size));
}

static json_t *answer(struct side *side, const json_t *described, const json_t *message)
{
    struct loop_why why = {.fault = LOOP_OTHER};
    unsigned fill = (unsigned)doc_number(message, "fill");
    unsigned look = (unsigned)doc_number(message, "look");
    json_t *made = NULL;

    if (doc_has(message, "try"))
        made = offer(side, described, message, &why);
    else if (!side->mr)
        loop_fail(&why, "no memory is registered");
    else if (doc_has(message, "fill")
                 ? !side_fill(side, SIDE_LARGE, fill, &why)
                 : !side_compare(side, SIDE_LARGE, look, "after the other node's RMA write", &why))
        made = doc_object();
    return made ? made
                : doc_pack("{s:s, s:o}", "fault", loop_fault_name(why.fault), "text",
                           doc_text(why.text));
}

static void serve(struct fabric_list *list, const struct fabric *fabric,
                  struct hmreg_domain *domain, json_t *described)
{
    struct side side = {.lib = list->lib, .fabric = fabric, .domain = domain};
    json_t *message;

    say(doc_pack("{s:o}", "memories", memory_names(described)));
    while ((message = hear(&side))) {
        say(answer(&side, described, message));
        json_decref(message);
    }
    side_close(&side);
}

/* ---- asking ----------------------------------------------------------------------------- */

/* The proof of a memory here with one there. */
struct trial {
    struct side side; /* first */
    struct hmreg_remote *remote;
    uint64_t addr, key;
    json_t *entry;
    struct loop_why why;
    const char *fault; /* NULL: why's */
    const char *result;
    bool ended; /* the other side has */
};

static json_t *request(struct trial *trial, json_t *message)
{
    json_t *reply;

    say(message);
    reply = hear(&trial->side);
    if (!json_is_object(reply)) {
        json_decref(reply);
        trial->ended = true;
        loop_fail(&trial->why, "the other node's process has ended");
        return NULL;
    }
    if (!doc_has(reply, "text"))
        return reply;
    loop_fail(&trial->why, "on the other node: %s", doc_words(reply, "text"));
    trial->why.fault = loop_fault_named(doc_words(reply, "fault"));
    json_decref(reply);
    return NULL;
}

static int open_remote(struct trial *trial, const json_t *reply)
{
    char token[TOKEN];
    size_t size = from_hex(doc_words(reply, "token"), token, sizeof(token));

    if (hmreg_remote_open(trial->side.domain, token, size, &trial->remote) ||
        hmreg_remote_addr(trial->remote, 0, SIDE_BYTES, &trial->addr, &trial->key))
        return loop_fail(&trial->why, "the other node's token did not open: %s",
                         hmreg_last_error()->text);
    return 0;
}

static int prepare(struct trial *trial, const json_t *mine, const char *theirs)
{
    struct loop_address address;
    json_t *reply;
    int rc = side_open(&trial->side, mine, &trial->why);

    rc = rc ? rc : trial->side.fabric->loop->address(trial->side.loop, &address, &trial->why);
    if (rc)
        return rc;
    reply = request(
        trial, doc_pack("{s:s, s:o}", "try", theirs, "address", hex(address.bytes, address.size)));
    rc = reply ? connect_with(&trial->side, reply, &trial->why) : -1;
    rc = rc ? rc : open_remote(trial, reply);
    json_decref(reply);
    return rc;
}

static int move(struct trial *trial, bool write, size_t len)
{
    struct loop_move move = {
        .write = write,
        .local = trial->side.memory,
        .mr = trial->side.mr,
        .len = len,
        .remote = trial->remote,
        .addr = trial->addr,
        .key = trial->key,
    };

    return trial->side.fabric->loop->move(trial->side.loop, &move, &trial->why);
}

static int wrong_bytes(struct trial *trial)
{
    trial->result = "wrong-bytes";
    return -1;
}

/* A read after the write pushes the bytes to where the device's own copies see them. */
static int prove_write(struct trial *trial)
{
    json_t *reply;
    int rc = side_fill(&trial->side, SIDE_LARGE, 1, &trial->why);

    rc = rc ? rc : move(trial, true, SIDE_SMALL);
    if (rc)
        return rc;
    rc = move(trial, true, SIDE_LARGE);
    rc = rc ? rc : move(trial, false, SIDE_LARGE);
    if (rc && trial->why.fault == LOOP_TIMED_OUT)
        trial->fault = "mtu";
    if (rc)
        return rc;
    reply = request(trial, doc_pack("{s:i}", "look", 1));
    json_decref(reply);
    return reply ? 0 : wrong_bytes(trial);
}

static int prove_read(struct trial *trial)
{
    json_t *reply = request(trial, doc_pack("{s:i}", "fill", 2));

    json_decref(reply);
    if (!reply || move(trial, false, SIDE_LARGE))
        return -1;
    return side_compare(&trial->side, SIDE_LARGE, 2, "after the RMA read", &trial->why)
               ? wrong_bytes(trial)
               : 0;
}

/* ---- measuring -------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int rate(struct trial *trial, bool write, const char *key)
{
    double began = now(), took = 0;
    int moves = 0;

    for (; moves < MOVES && took < MEASURE; moves++, took = now() - began)
        if (move(trial, write, SIDE_BYTES))
            return -1;
    doc_set(trial->entry, key,
            doc_made(json_integer((json_int_t)(moves * 8e3 * SIDE_BYTES / took))));
    return 0;
}

static int compare_times(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

/* The median of a write's time, from its posting to its completion. */
static int latency(struct trial *trial)
{
    static double times[MOVES];
    double began = now(), before = began;
    int moves = 0;

    for (; moves < MOVES && before - began < MEASURE; moves++) {
        if (move(trial, true, 8))
            return -1;
        times[moves] = now() - before;
        before += times[moves];
    }
    qsort(times, (size_t)moves, sizeof(times[0]), compare_times);
    doc_set(trial->entry, "latency_ns", doc_made(json_integer((json_int_t)times[moves / 2])));
    return 0;
}

static int measure(struct trial *trial)
{
    int rc = rate(trial, true, "write_mbps");

    rc = rc ? rc : rate(trial, false, "read_mbps");
    return rc ? rc : latency(trial);
}

/* ---- a pair ----------------------------------------------------------------------------- */

static void conclude(struct trial *trial, int rc)
{
    if (!rc) {
        trial->result = PEER_PROVEN;
        snprintf(trial->why.text, sizeof(trial->why.text),
                 "%u bytes written, read back and compared", SIDE_LARGE);
    }
    doc_set(trial->entry, "result", doc_text(trial->result));
    doc_set(trial->entry, "fault",
            rc ? doc_text(trial->fault ? trial->fault : loop_fault_name(trial->why.fault))
               : json_null());
    doc_set(trial->entry, "text", doc_text(trial->why.text));
}

/* Returns whether there may be another one. */
static bool try(const struct side *with, const json_t *mine, const char *theirs, json_t *entries)
{
    struct trial trial = {.side = *with, .result = "failed"};
    char name[VERIFY_NAME];
    int rc;

    trial.entry =
        doc_pack("{s:s, s:s}", "memory", verify_memory_name(mine, name), "peer_memory", theirs);
    rc = prepare(&trial, mine, theirs);
    rc = rc ? rc : prove_write(&trial);
    rc = rc ? rc : prove_read(&trial);
    rc = rc ? rc : measure(&trial);
    conclude(&trial, rc);
    hmreg_remote_close(trial.remote);
    side_close(&trial.side);
    doc_add(entries, trial.entry);
    return !trial.ended;
}

/* First host memory with host memory: if that fails, nothing else is tried. Then each device here
 * with the host there, and the host here with each device there. */
static void ask(struct fabric_list *list, const struct fabric *fabric, struct hmreg_domain *domain,
                json_t *described)
{
    struct child *child = (struct child *)list;
    struct side side = {.lib = list->lib, .fabric = fabric, .domain = domain};
    json_t *memories = json_object_get(described, "memory"), *theirs = hear(&side);
    const json_t *host = json_array_get(memories, 0), *memory, *name;
    const char *their_host;
    bool goes_on;

    name = json_array_get(json_object_get(theirs, "memories"), 0);
    their_host = json_string_value(name) ? json_string_value(name) : "";
    goes_on = try(&side, host, their_host, child->result) &&
              doc_equals(json_array_get(child->result, 0), "result", PEER_PROVEN);
    doc_each(memory, memories)
        if (memory_i && goes_on && has_path(memory))
            goes_on = try(&side, memory, their_host, child->result);
    doc_each(name, json_object_get(theirs, "memories"))
        if (name_i && goes_on && json_is_string(name))
            goes_on = try(&side, host, json_string_value(name), child->result);
    json_decref(theirs);
}

/* ---- the process ------------------------------------------------------------------------ */

static const struct part {
    const char *name;
    bool (*wants)(struct fabric_list *list, const struct fabric *fabric);
    void (*visit)(struct fabric_list *list, const struct fabric *fabric,
                  struct hmreg_domain *domain, json_t *described);
} parts[] = {
    {"list", is_listed, list_fabric},
    {"ask", has_name, ask},
    {"serve", has_name, serve},
};

static void write_result(json_t *result)
{
    json_t *line = doc_pack("{s:O}", "result", result);

    json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

int peer_child(const char *part, const char *argument)
{
    const struct part *of = parts;
    struct child child = {.argument = argument, .result = doc_array()};
    json_t *document = doc_object();

    while (of < parts + COUNT(parts) && strcmp(of->name, part) != 0)
        of++;
    if (of == parts + COUNT(parts) || signals_after(hmreg_open(NULL, &child.list.lib))) {
        print_error("hmreg doctor: %s", hmreg_last_error()->text);
        return EXIT_ERROR;
    }
    child.list.wants = of->wants;
    child.list.visit = of->visit;
    fabrics_visit(&child.list, document);
    write_result(child.result);
    hmreg_close(child.list.lib);
    json_decref(document);
    json_decref(child.result);
    return EXIT_GOOD;
}
