/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The processes of peer_child.c, seen from the one that has the connection: it starts one, moves
 * lines between it and the other node, takes its result, and ends it when its time is over. What
 * the NIC's port counted meanwhile goes to the other node with this process's end.
 */
#include "tools/doctor/peer.h"

#include "tools/child.h"
#include "tools/doctor/doctor.h"
#include "tools/verify/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST (1u << 20) /* bytes of a line that a process writes */

struct relay {
    struct peer_link *link; /* NULL: there is no other node */
    json_t *fabric;         /* or a pair, with this node's NIC and port */
    json_t *errors;         /* that the port had counted before */
    pid_t pid;
    int in, out; /* its standard input, -1: closed; and output, -1: it has ended */
    char *text;  /* its output that was not taken yet */
    size_t used;
    json_t *result;
    bool other_ended, lost;
    struct loop_why own, other; /* how each failed; "": it did not */
};

/* ---- this node's process ---------------------------------------------------------------- */

static int start(struct relay *relay, const char *part, const char *argument)
{
    char *argv[] = {(char[]){"hmreg"}, (char[]){"doctor"}, (char[]){PEER_PART},
                    strdup(part),      strdup(argument),   NULL};
    int ends[2] = {-1, -1}, error = argv[3] && argv[4] ? 0 : ENOMEM;

    if (!error && pipe2(ends, O_CLOEXEC))
        error = errno;
    if (!error)
        error = child_start(argv, ends[0], &relay->pid, &relay->out);
    if (ends[0] >= 0)
        close(ends[0]);
    free(argv[3]);
    free(argv[4]);
    relay->in = ends[1];
    if (!error) {
        fcntl(relay->in, F_SETFL, O_NONBLOCK);
        return 0;
    }
    relay->out = -1;
    relay->pid = 0;
    return loop_fail(&relay->own, "it could not start a process: %s", strerror(error));
}

static void close_in(struct relay *relay)
{
    if (relay->in >= 0)
        close(relay->in);
    relay->in = -1;
}

/* A process that has stopped reading is ended when its time is over. SIGPIPE is ignored. */
static void tell_own(struct relay *relay, const json_t *message)
{
    char *line = json_dumps(message, JSON_COMPACT | JSON_ENCODE_ANY);
    size_t size = line ? strlen(line) : 0;

    if (!line)
        doc_no_memory();
    line[size] = '\n';
    if (relay->in >= 0 && write(relay->in, line, size + 1) != (ssize_t)size + 1)
        close_in(relay);
    free(line);
}

/* SIGKILL does not end a process that is stuck in a driver; then gives up waiting. */
static bool wait_for(pid_t pid, int *status)
{
    const struct timespec moment = {.tv_nsec = 10000000};

    for (int i = 0; i < 200; i++) {
        if (waitpid(pid, status, WNOHANG))
            return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

static void end_own(struct relay *relay, bool hung, int patience)
{
    int status = 0;

    close_in(relay);
    if (relay->out >= 0)
        close(relay->out);
    relay->out = -1;
    if (!relay->pid)
        return;
    if (hung)
        kill(relay->pid, SIGKILL);
    if (!wait_for(relay->pid, &status)) {
        kill(relay->pid, SIGKILL);
        hung = true;
    }
    relay->pid = 0;
    if (hung)
        loop_fail_as(&relay->own, LOOP_TIMED_OUT, "its process hung, and hmreg ended it after %d s",
                     patience);
    else if (WIFSIGNALED(status))
        loop_fail(&relay->own, "its process crashed with signal %d (%s)", WTERMSIG(status),
                  strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        loop_fail(&relay->own, "its process ended with status %d", WEXITSTATUS(status));
}

/* ---- moving lines ----------------------------------------------------------------------- */

static void send(struct relay *relay, json_t *message)
{
    if (relay->link && !relay->lost)
        relay->lost = peer_link_send(relay->link, message) != 0;
    else
        json_decref(message);
}

/* The errors that this node's port has counted; null: it is no NIC's. */
static json_t *errors_counted(const struct relay *relay)
{
    const json_t *port = json_object_get(relay->fabric, "port");
    char number[24];

    if (!doc_has(port, "port"))
        return json_null();
    snprintf(number, sizeof(number), "%" PRIu64, doc_number(port, "port"));
    return port_errors(doc_words(relay->fabric, "nic"), number);
}

/* Tells the other node that this one's process has ended. */
static void send_end(struct relay *relay)
{
    json_t *now = errors_counted(relay), *risen = port_errors_risen(relay->errors, now);

    if (relay->fabric)
        doc_set(relay->fabric, "risen", json_incref(risen));
    send(relay, doc_pack("{s:o, s:o}", "end", doc_text(relay->own.text), "risen", risen));
    json_decref(now);
}

static void take_line(struct relay *relay, const char *text, size_t size)
{
    json_t *line = json_loadb(text, size, 0, NULL);

    if (json_object_get(line, "say")) {
        send(relay, json_incref(line));
    } else if (json_object_get(line, "result")) {
        json_decref(relay->result);
        relay->result = json_incref(json_object_get(line, "result"));
    }
    json_decref(line);
}

/* Reads more of what the process writes. Returns false at its end. */
static bool hear_own(struct relay *relay)
{
    ssize_t got =
        relay->used < MOST ? read(relay->out, relay->text + relay->used, MOST - relay->used) : 0;
    char *end;

    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0)
        return false;
    relay->used += (size_t)got;
    while ((end = memchr(relay->text, '\n', relay->used))) {
        size_t size = (size_t)(end - relay->text);

        take_line(relay, relay->text, size);
        relay->used -= size + 1;
        memmove(relay->text, end + 1, relay->used);
    }
    return true;
}

static void hear_other(struct relay *relay, int64_t deadline)
{
    json_t *message = peer_link_receive(relay->link, deadline);

    if (!message) {
        relay->lost = true;
        return;
    }
    if (json_object_get(message, "say")) {
        tell_own(relay, json_object_get(message, "say"));
    } else {
        relay->other_ended = true;
        close_in(relay);
        doc_set(relay->fabric, "peer_risen",
                doc_made(json_pack("O?", json_object_get(message, "risen"))));
        if (doc_words(message, "end")[0])
            loop_fail(&relay->other, "%s", doc_words(message, "end"));
    }
    json_decref(message);
}

/* Moves lines until both processes have ended. */
static void move_lines(struct relay *relay, int patience)
{
    int64_t deadline = verify_now() + patience * 1000LL;

    while (!relay->lost && (relay->out >= 0 || (relay->link && !relay->other_ended))) {
        struct pollfd ready[] = {
            {.fd = relay->out, .events = POLLIN},
            {.fd = relay->link && !relay->other_ended ? relay->link->fd : -1, .events = POLLIN}};
        int64_t left = deadline - verify_now();
        int rc = poll(ready, COUNT(ready), left > 0 ? (int)left : 0);

        if (!rc && relay->out < 0) {
            relay->lost = true;
            loop_fail_as(&relay->link->why, LOOP_TIMED_OUT,
                         "the other node did not finish the pair");
            return;
        }
        if (rc < 0 && errno == EINTR)
            continue;
        if (!rc || (ready[0].revents && !hear_own(relay))) {
            end_own(relay, !rc, patience);
            send_end(relay);
            /* The other node's process gets as much time as this one's had. */
            deadline = verify_now() + patience * 1000LL;
        }
        if (ready[1].revents)
            hear_other(relay, deadline);
    }
}

/* ---- running one ------------------------------------------------------------------------ */

static json_t *run(struct relay *relay, const char *part, const char *argument, int patience,
                   struct loop_why *why)
{
    relay->out = relay->in = -1;
    relay->text = malloc(MOST);
    if (!relay->text)
        doc_no_memory();
    signal(SIGPIPE, SIG_IGN);
    relay->errors = errors_counted(relay);
    if (start(relay, part, argument))
        send_end(relay);
    move_lines(relay, patience);
    end_own(relay, relay->lost, patience);
    free(relay->text);
    json_decref(relay->errors);
    if (relay->lost)
        *why = relay->link->why;
    else if (relay->own.text[0])
        *why = relay->own;
    else if (relay->other.text[0])
        loop_fail(why, "on the other node: %s", relay->other.text);
    else
        return relay->result;
    json_decref(relay->result);
    return NULL;
}

json_t *peer_part_run(const char *part, const char *argument, int patience, struct loop_why *why)
{
    struct relay relay = {.link = NULL};
    json_t *result = run(&relay, part, argument, patience, why);

    if (!result && !relay.own.text[0])
        loop_fail(why, "it found nothing");
    return result;
}

json_t *peer_relay(struct peer_link *link, const char *part, json_t *fabric, int patience,
                   struct loop_why *why, bool *lost)
{
    struct relay relay = {.link = link, .fabric = fabric};
    json_t *result = run(&relay, part, doc_words(fabric, "id"), patience, why);

    *lost = relay.lost;
    return result;
}
