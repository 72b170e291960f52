/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg-demo: runs owner and peer on each fabric, prints what they found, and judges. It succeeds
 * if host memory was reached on each fabric and each device's memory on at least one, and no byte
 * was wrong anywhere; a device that a fabric refuses, for a reason, is no failure.
 */
#include "demo.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ROWS 64

struct table {
    const char *provider;
    size_t count;
    struct row rows[MAX_ROWS];
};

static const char help[] =
    "usage: hmreg-demo [--devices]\n"
    "\n"
    "Two processes on each of libfabric's tcp and shm: one registers host memory and memory of\n"
    "every device, the other writes and reads it by RMA, and both verify the bytes.\n"
    "\n"
    "  --devices   print the devices that would take part, and stop\n"
    "\n"
    "register    the time the first registration took\n"
    "get again   the time to get the same region from the cache, and to put it back\n";

/* ---- one fabric ------------------------------------------------------------------------- */

/* Neither libfabric nor a GPU's runtime survives fork(): this process uses neither. */
static pid_t start(int sockets[2], int pipes[2], const char *provider, bool owner, bool corrupt)
{
    pid_t pid = fork();
    int status;

    if (pid)
        return pid;
    close(sockets[owner]);
    close(pipes[0]);
    if (owner) {
        status = owner_run(sockets[0], provider, pipes[1], corrupt);
    } else {
        close(pipes[1]);
        status = peer_run(sockets[1], provider);
    }
    fflush(NULL);
    exit(status != 0);
}

static void receive_rows(int pipe, struct table *table)
{
    while (table->count < MAX_ROWS &&
           read(pipe, &table->rows[table->count], sizeof(struct row)) == sizeof(struct row))
        table->count++;
}

static bool ended_well(pid_t pid, const char *who, const char *provider)
{
    int status = 1;

    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        printf("the %s on %s failed (status %#x)\n", who, provider, status);
        return false;
    }
    return true;
}

static bool run_fabric(struct table *table, bool corrupt)
{
    int sockets[2], pipes[2];
    pid_t owner, peer;
    bool well;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) || pipe(pipes)) {
        perror("hmreg-demo");
        return false;
    }
    owner = start(sockets, pipes, table->provider, true, corrupt);
    peer = start(sockets, pipes, table->provider, false, corrupt);
    close(sockets[0]);
    close(sockets[1]);
    close(pipes[1]);
    receive_rows(pipes[0], table);
    close(pipes[0]);
    well = ended_well(owner, "owner", table->provider);
    return ended_well(peer, "peer", table->provider) && well;
}

/* ---- judging ---------------------------------------------------------------------------- */

/* Prints what is wrong in a fabric's table. */
static int count_faults(const struct table *table)
{
    int faults = table->count == 0;

    for (size_t i = 0; i < table->count; i++)
        faults += table->rows[i].verdict == FAILED ||
                  (table->rows[i].device < 0 && table->rows[i].verdict != VERIFIED);
    return faults;
}

static bool is_verified(const struct table *table, const struct row *buffer)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].iface == buffer->iface && table->rows[i].device == buffer->device &&
            table->rows[i].verdict == VERIFIED)
            return true;
    return false;
}

/* Reports devices that no fabric reached; every fabric's table has all devices. */
static int count_unreached(const struct table *tables, size_t fabrics)
{
    int unreached = 0;

    for (size_t i = 0; i < tables[0].count; i++) {
        const struct row *row = &tables[0].rows[i];
        bool reached = false;

        for (size_t f = 0; f < fabrics; f++)
            reached |= is_verified(&tables[f], row);
        if (!reached)
            printf("%s (%s %d) was reached on no fabric\n", row->buffer,
                   hmreg_iface_name(row->iface), row->device);
        unreached += !reached;
    }
    return unreached;
}

static size_t count_rows(const struct table *table, enum verdict verdict)
{
    size_t count = 0;

    for (size_t i = 0; i < table->count; i++)
        count += table->rows[i].verdict == verdict;
    return count;
}

static int demonstrate(bool corrupt)
{
    static struct table tables[] = {{.provider = "tcp"}, {.provider = "shm"}};
    size_t fabrics = sizeof(tables) / sizeof(tables[0]), verified = 0, refused = 0;
    int faults = 0;

    for (size_t f = 0; f < fabrics; f++) {
        faults += !run_fabric(&tables[f], corrupt);
        table_print(tables[f].provider, tables[f].rows, tables[f].count);
        fflush(stdout);
    }
    putchar('\n');
    for (size_t f = 0; f < fabrics; f++) {
        faults += count_faults(&tables[f]);
        verified += count_rows(&tables[f], VERIFIED);
        refused += count_rows(&tables[f], REFUSED);
    }
    faults += count_unreached(tables, fabrics);
    printf("demo: %zu buffers verified, %zu refused with a reason: %s\n", verified, refused,
           faults ? "FAILED" : "all is well");
    return faults != 0;
}

/* ---- the command ------------------------------------------------------------------------ */

static int list_devices(void)
{
    struct hmreg *lib;
    int rc = hmreg_open(NULL, &lib);

    for (int n = HMREG_IFACE_CUDA; !rc && n < HMREG_IFACE_COUNT; n++) {
        enum hmreg_iface iface = (enum hmreg_iface)n;
        struct hmreg_device_info device = {.size = sizeof(device)};

        for (int i = 0; hmreg_device_query(lib, iface, i, &device) == 0; i++)
            printf("%s %d %s\n", hmreg_iface_name(iface), i, device.name);
    }
    if (rc)
        fprintf(stderr, "hmreg-demo: %s\n", hmreg_last_error()->text);
    else
        hmreg_close(lib);
    return rc != 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'},
        {"devices", no_argument, NULL, 'd'},
        {"corrupt", no_argument, NULL, 'c'}, /* for the demo's own test */
        {NULL, 0, NULL, 0},
    };
    bool corrupt = false;

    for (;;) {
        switch (getopt_long(argc, argv, "h", options, NULL)) {
        case 'h':
            fputs(help, stdout);
            return 0;
        case 'd':
            return list_devices();
        case 'c':
            corrupt = true;
            break;
        case -1:
            return demonstrate(corrupt);
        default:
            fputs(help, stderr);
            return 2;
        }
    }
}
