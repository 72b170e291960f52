/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * life DIR: a process that lives.sh saves, and restores twice. It has a loopback domain with a
 * region that is registered, one that is cached, and, as a peer has, a remote of the first. It
 * writes what it sees of them to DIR/first and, once there is a file DIR/go, to DIR/again: in each
 * life, which finds another folder at DIR. In DIR/go is what comes first: "token" or "get".
 */
#include <errno.h>
#include <hmreg/loopback.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 10000

static char registered[BYTES], cached[BYTES];

static struct hmreg *lib;
static struct hmreg_domain *domain;
static struct hmreg_mr *mr;
static struct hmreg_remote *remote;

static char *file_in(const char *folder, const char *name)
{
    static char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int say_token(FILE *out)
{
    enum hmreg_remote_state state = HMREG_REMOTE_CURRENT;
    unsigned char token[512];
    size_t size = sizeof(token);
    int rc = hmreg_mr_pack(mr, token, &size);

    if (!rc && !remote)
        rc = hmreg_remote_open(domain, token, size, &remote);
    rc = rc ? rc : hmreg_remote_check(remote, token, size, &state);
    if (rc)
        return rc;
    fprintf(out, "state %d\ntoken ", (int)state);
    for (size_t i = 0; i < size; i++)
        fprintf(out, "%02x", token[i]);
    (void)fputc('\n', out);
    return 0;
}

/* Of a get: does a region serve that was registered before? */
static int say_get(FILE *out)
{
    struct hmreg_stats before = {.size = sizeof(before)}, after = before;
    struct hmreg_mr *held = NULL;
    int rc = hmreg_domain_stats(domain, &before);

    rc = rc ? rc : hmreg_mr_get(domain, cached, BYTES, HMREG_ACCESS_REMOTE, &held);
    rc = rc ? rc : hmreg_domain_stats(domain, &after);
    hmreg_mr_put(held);
    if (!rc)
        fprintf(out, "registered %" PRIu64 "\n", after.misses - before.misses);
    return rc;
}

/* As a whole: its reader finds it complete or not at all. */
static int report(const char *folder, const char *name, bool get_first)
{
    struct hmreg_monitor_info monitor = {.size = sizeof(monitor)};
    char *written = strdup(file_in(folder, "report.new"));
    FILE *out = written ? fopen(written, "we") : NULL;
    int rc = out ? 0 : -errno;

    if (!rc && get_first)
        rc = say_get(out);
    rc = rc ? rc : say_token(out);
    if (!rc && !get_first)
        rc = say_get(out);
    rc = rc ? rc : say_get(out);
    rc = rc ? rc : hmreg_monitor_query(lib, &monitor);
    if (out) {
        fprintf(out, "monitor %s\n%s\n", hmreg_monitor_name(monitor.active),
                rc ? hmreg_last_error()->text : "complete");
        (void)fclose(out);
        rename(written, file_in(folder, name));
    }
    free(written);
    return rc;
}

static bool await_order(const char *folder)
{
    char order[8] = "";
    FILE *in;

    while (!(in = fopen(file_in(folder, "go"), "re")))
        usleep(10000);
    (void)fscanf(in, "%7s", order);
    (void)fclose(in);
    return !strcmp(order, "get");
}

int main(int argc, char **argv)
{
    int rc = argc == 2 ? hmreg_open(NULL, &lib) : -EINVAL;

    rc = rc ? rc : hmreg_domain_open_loopback(lib, NULL, NULL, &domain);
    rc = rc ? rc
            : hmreg_mr_reg(domain, registered, BYTES, HMREG_ACCESS_REMOTE, 0, HMREG_KEY_ANY, 0, &mr,
                           NULL);
    rc = rc ? rc : report(argv[1], "first", false);
    rc = rc ? rc : report(argv[1], "again", await_order(argv[1]));
    return rc != 0;
}
