/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 7's driver: loads the plugin as NCCL does, in two processes, and calls it in every
 * version: communicators in both directions, each with a thread of its own; buffers that several
 * register at once; memory that is freed and allocated anew between transfers; refused
 * registrations; communicators that are closed with requests in flight; with -k a peer that is
 * killed. Every byte is compared, and after each round no descriptor and no device memory is held.
 *
 *     7-nccl-net [-i IFACE] [-n NICS] [-v VERSION] [-s STEPS] [-c COMMAND] [-t BUFFERS] [-k]
 *                PLUGIN
 */
#include "call.h"

#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <hmreg/hmreg.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHANNELS 4     /* even ones go from rank 0 to rank 1, odd ones back */
#define GROUP    8     /* most receives of a request */
#define WINDOW   3     /* requests in flight */
#define ROOM     20480 /* bytes of a receive buffer */
#define STEP     (GROUP * ROOM)
#define SLICE    (WINDOW * STEP) /* of a channel */
#define POOL     (CHANNELS * SLICE)
#define AGAIN    2000 /* registrations while held that are timed */

static enum hmreg_iface iface = HMREG_IFACE_SYSTEM;
static int nics = 1, steps = 24, only = 0, timed = 0;
static bool kills;
static const char *command; /* runs after each round, and fails where something is held */

struct channel {
    struct rank *rank;
    int number;
    bool sends;
    int socket; /* to the same channel of the other rank: NCCL's bootstrap */
    void *listener, *comm;
    char handle[NCCL_HANDLE_BYTES];
    void *mhandle; /* of the slice */
    char *slice;   /* in the pool */
    char *staging; /* STEP bytes of host memory, to fill and to compare */
    int phase, failed;
    pthread_t thread;
};

struct rank {
    int number;
    struct hmreg *lib;
    struct plugin plugin;
    char *pool;
    int descriptors;  /* after the first round */
    size_t available; /* of the device, likewise */
    struct channel channel[CHANNELS];
};

/* ---- messages: what channel, phase, step and place determine --------------------------------- */

static int count_of(int step)
{
    return 1 + step % GROUP;
}

static size_t size_of(int step, int i)
{
    static const size_t sizes[] = {1, 4096, 0, 5001, 16385, ROOM, 128, 17000};

    return sizes[(step * 3 + i) % 8];
}

static char byte_of(const struct channel *channel, int step, int i, size_t at)
{
    return (char)(at * 7 + (at >> 8) +
                  (size_t)(channel->number * 5 + channel->phase * 3 + step + i * 11));
}

static char *place(const struct channel *channel, int step, int i)
{
    return channel->slice + step % WINDOW * STEP + i * ROOM;
}

/* Ends the process: the peer must not wait for what this side does not send any more. */
static int report(const struct channel *channel, const char *what, int rc)
{
    fprintf(stderr, "rank %d, version %d, channel %d, phase %d: %s: %d\n", channel->rank->number,
            channel->rank->plugin.version, channel->number, channel->phase, what, rc);
    _exit(EXIT_FAILURE);
}

static int fill(struct channel *channel, int step)
{
    for (int i = 0; i < count_of(step); i++)
        for (size_t at = 0; at < size_of(step, i); at++)
            channel->staging[(size_t)i * ROOM + at] = byte_of(channel, step, i, at);
    return hmreg_copy(channel->rank->lib, place(channel, step, 0), channel->staging,
                      (size_t)count_of(step) * ROOM);
}

static int blank(struct channel *channel, int step)
{
    memset(channel->staging, 0x77, STEP);
    return hmreg_copy(channel->rank->lib, place(channel, step, 0), channel->staging, STEP);
}

/* Each message is whole, and what follows it is as it was. */
static int compare(struct channel *channel, int step, const int *sizes)
{
    int rc = hmreg_copy(channel->rank->lib, channel->staging, place(channel, step, 0), STEP);

    for (int i = 0; i < GROUP && !rc; i++) {
        size_t size = i < count_of(step) ? size_of(step, i) : 0;

        if (i < count_of(step) && sizes[i] != (int)size)
            return report(channel, "a size is wrong", sizes[i]);
        for (size_t at = 0; at < ROOM; at++)
            if (channel->staging[(size_t)i * ROOM + at] !=
                (at < size ? byte_of(channel, step, i, at) : 0x77))
                return report(channel, "a byte is wrong", (int)at);
    }
    return rc ? report(channel, "copy", rc) : 0;
}

/* ---- registration ---------------------------------------------------------------------------- */

/* As NCCL: by a dmabuf where the device takes one, closed at once. */
static int reg(struct channel *channel, char *data, size_t size, void **mhandle)
{
    struct plugin *plugin = &channel->rank->plugin;
    int type = iface == HMREG_IFACE_SYSTEM ? NCCL_PTR_HOST : NCCL_PTR_CUDA, rc;
    struct hmreg_dmabuf dmabuf;

    if (type == NCCL_PTR_HOST || !(plugin->pointers & NCCL_PTR_DMABUF) ||
        hmreg_export_dmabuf(channel->rank->lib, data, size, 0, &dmabuf))
        return plugin->memory->reg(channel->comm, data, size, type, mhandle);
    rc = plugin->memory->reg_dmabuf(channel->comm, data, size, type, dmabuf.offset, dmabuf.fd,
                                    mhandle);
    close(dmabuf.fd);
    return rc;
}

static int dereg(struct channel *channel, void *mhandle)
{
    return channel->rank->plugin.memory->dereg(channel->comm, mhandle);
}

/* More than the device's memory has, or than there are addresses, is refused; the communicator goes
 * on. */
static int refuse(struct channel *channel)
{
    char *end = iface == HMREG_IFACE_SYSTEM ? (char *)-ROOM : channel->rank->pool + POOL - ROOM;
    void *mhandle = NULL;
    int rc = channel->rank->plugin.memory->reg(channel->comm, end, POOL, NCCL_PTR_CUDA, &mhandle);

    return rc && !mhandle ? NCCL_OK : report(channel, "memory that is not there", rc);
}

/* ---- transfers, each channel on its thread -----------------------------------------------------
 */

struct flight {                           /* a request of a step, or the sends of one */
    void *request[GROUP], *mhandle, *own; /* own: NULL, or the mhandle is the step's */
    int sizes[GROUP];
    bool done[GROUP];
};

static int await(struct channel *channel, void *request, int *sizes)
{
    int done = 0, rc = 0;

    while (!done && !rc) {
        rc = channel->rank->plugin.end->test(request, &done, sizes);
        if (!done)
            sched_yield();
    }
    return rc;
}

/* Every third step uses a registration of its own, of a part of the slice, as NCCL does for buffers
 * that it knows already. */
static int own_registration(struct channel *channel, int step, struct flight *flight)
{
    int rc = step % 3 ? 0 : reg(channel, place(channel, step, 0), STEP, &flight->own);

    flight->mhandle = flight->own ? flight->own : channel->mhandle;
    return rc;
}

static int end_registration(struct channel *channel, struct flight *flight)
{
    void *own = flight->own;

    flight->own = NULL;
    return own ? dereg(channel, own) : 0;
}

/* The sends of a step in another order than that of the receives. */
static int start_sends(struct channel *channel, int step, struct flight *flight)
{
    int count = count_of(step), rc = fill(channel, step);

    rc = rc ? rc : own_registration(channel, step, flight);
    for (int k = 0; k < count && !rc; k++) {
        int i = step % 2 ? count - 1 - k : (k + step) % count;

        flight->request[i] = NULL;
        while (!flight->request[i] && !rc) {
            rc = plugin_send(&channel->rank->plugin, channel->comm, place(channel, step, i),
                             size_of(step, i), 100 + i, flight->mhandle, &flight->request[i]);
            if (!flight->request[i])
                sched_yield();
        }
    }
    return rc;
}

static int end_sends(struct channel *channel, int step, struct flight *flight)
{
    int rc = 0;

    for (int i = 0; i < count_of(step) && !rc; i++) {
        rc = await(channel, flight->request[i], flight->sizes);
        if (!rc && flight->sizes[0] != (int)size_of(step, i))
            rc = report(channel, "a send has another size", flight->sizes[0]);
    }
    return rc ? rc : end_registration(channel, flight);
}

static int start_recv(struct channel *channel, int step, struct flight *flight)
{
    void *data[GROUP], *mhandles[GROUP];
    size_t sizes[GROUP];
    int tags[GROUP], rc = blank(channel, step);

    rc = rc ? rc : own_registration(channel, step, flight);
    for (int i = 0; i < count_of(step); i++) {
        data[i] = place(channel, step, i);
        sizes[i] = ROOM;
        tags[i] = 100 + i;
        mhandles[i] = flight->mhandle;
    }
    flight->request[0] = NULL;
    while (!flight->request[0] && !rc)
        rc = plugin_recv(&channel->rank->plugin, channel->comm, count_of(step), data, sizes, tags,
                         mhandles, &flight->request[0]);
    return rc;
}

static int end_recv(struct channel *channel, int step, struct flight *flight)
{
    void *data[GROUP], *mhandles[GROUP], *request = NULL;
    int rc = await(channel, flight->request[0], flight->sizes);

    for (int i = 0; i < count_of(step); i++) {
        data[i] = place(channel, step, i);
        mhandles[i] = flight->mhandle;
    }
    rc = rc ? rc
            : channel->rank->plugin.end->flush(channel->comm, count_of(step), data, flight->sizes,
                                               mhandles, &request);
    if (!rc && request)
        rc = await(channel, request, NULL);
    rc = rc ? rc : compare(channel, step, flight->sizes);
    return rc ? rc : end_registration(channel, flight);
}

static void *transfer(void *argument)
{
    struct channel *channel = (struct channel *)argument;
    struct flight flights[WINDOW] = {};
    int last = kills ? INT32_MAX - WINDOW : steps, rc = 0;

    for (int step = 0; step < last + WINDOW - 1 && !rc; step++) {
        struct flight *started = &flights[step % WINDOW];
        int ended = step - (WINDOW - 1);

        if (step < last)
            rc = channel->sends ? start_sends(channel, step, started)
                                : start_recv(channel, step, started);
        if (ended >= 0 && !rc)
            rc = channel->sends ? end_sends(channel, ended, &flights[ended % WINDOW])
                                : end_recv(channel, ended, &flights[ended % WINDOW]);
        if (kills && channel->rank->number == 1 && step == steps)
            raise(SIGKILL);
    }
    for (int i = 0; i < WINDOW; i++) /* after a failure, some are under way */
        (void)end_registration(channel, &flights[i]);
    channel->failed = rc;
    return NULL;
}

/* ---- communicators ------------------------------------------------------------------------------
 */

/* Another process that finds the listening socket, whose address this plugin's handle begins with:
 * it connects first, and knows nothing of the rest of the handle. */
static int connect_stranger(const char *handle)
{
    struct sockaddr_in at;
    static const char bytes[1024] = {};
    int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

    memcpy(&at, handle, sizeof(at));
    rc = connect(stranger, (struct sockaddr *)(void *)&at, sizeof(at)) ||
         send(stranger, bytes, sizeof(bytes), MSG_NOSIGNAL) != sizeof(bytes);
    close(stranger);
    return rc ? NCCL_SYSTEM_ERROR : NCCL_OK;
}

/* Both ends at once, none of which may wait for the other. */
static int connect_all(struct rank *rank)
{
    int left = CHANNELS, rc = 0;

    for (int i = 0; i < CHANNELS && !rc; i++) {
        struct channel *channel = &rank->channel[i];

        if (!channel->sends)
            rc = plugin_listen(&rank->plugin, channel->handle, &channel->listener);
        if (!channel->sends && !rc &&
            write(channel->socket, channel->handle, NCCL_HANDLE_BYTES) != NCCL_HANDLE_BYTES)
            rc = NCCL_SYSTEM_ERROR;
    }
    for (int i = 0; i < CHANNELS && !rc; i++)
        if (rank->channel[i].sends && read(rank->channel[i].socket, rank->channel[i].handle,
                                           NCCL_HANDLE_BYTES) != NCCL_HANDLE_BYTES)
            rc = NCCL_SYSTEM_ERROR;
    for (int i = 0; i < CHANNELS && !rc; i++)
        rc = rank->channel[i].sends ? connect_stranger(rank->channel[i].handle) : NCCL_OK;
    for (int i = 0; left && !rc; i = (i + 1) % CHANNELS) {
        struct channel *channel = &rank->channel[i];

        if (channel->comm)
            continue;
        rc = channel->sends ? plugin_connect(&rank->plugin, channel->handle, &channel->comm)
                            : plugin_accept(&rank->plugin, channel->listener, &channel->comm);
        left -= channel->comm != NULL;
        sched_yield();
    }
    return rc;
}

static int close_all(struct rank *rank)
{
    int rc = 0;

    for (int i = 0; i < CHANNELS; i++) {
        struct channel *channel = &rank->channel[i];
        const struct nccl_end *end = rank->plugin.end;

        if (channel->comm && (channel->sends ? end->close_send : end->close_recv)(channel->comm))
            rc = NCCL_INTERNAL_ERROR;
        if (channel->listener && end->close_listen(channel->listener))
            rc = NCCL_INTERNAL_ERROR;
        channel->comm = channel->listener = NULL;
    }
    return rc;
}

/* Waits for the other rank. */
static int meet(struct rank *rank)
{
    char byte = 0;

    return write(rank->channel[0].socket, &byte, 1) == 1 &&
                   read(rank->channel[0].socket, &byte, 1) == 1
               ? 0
               : NCCL_SYSTEM_ERROR;
}

/* ---- a round
 * -------------------------------------------------------------------------------------- */

static int start_pool(struct rank *rank)
{
    enum hmreg_mem_kind kind = iface == HMREG_IFACE_SYSTEM ? HMREG_MEM_HOST : HMREG_MEM_DEVICE;
    void *memory = NULL;
    int rc = hmreg_mem_alloc(rank->lib, iface, 0, kind, POOL, &memory);

    rank->pool = (char *)memory;
    if (rc)
        fprintf(stderr, "%s\n", hmreg_last_error()->text);
    for (int i = 0; i < CHANNELS && !rc; i++)
        rank->channel[i].slice = rank->pool + (size_t)i * SLICE;
    return rc;
}

/* NCCL's service thread, while a communicator's own transfers. */
static int register_meanwhile(struct channel *channel)
{
    void *mhandle;
    int rc = reg(channel, channel->rank->pool, POOL, &mhandle);

    return rc ? rc : dereg(channel, mhandle);
}

/* Memory is new in each phase, at the same address if the allocator will; all channels register all
 * of it, and each transfers in its own slice. */
static int run_phase(struct rank *rank, int phase)
{
    int rc = start_pool(rank), again = 0;

    for (int i = 0; i < CHANNELS && !rc; i++) {
        rank->channel[i].phase = phase;
        rc = reg(&rank->channel[i], rank->pool, POOL, &rank->channel[i].mhandle);
        rc = rc ? rc : refuse(&rank->channel[i]);
    }
    for (int i = 0; i < CHANNELS && !rc; i++)
        rc = pthread_create(&rank->channel[i].thread, NULL, transfer, &rank->channel[i]);
    for (int i = 0; i < 5 * CHANNELS && !rc && !again; i++)
        again = register_meanwhile(&rank->channel[i % CHANNELS]);
    for (int i = 0; i < CHANNELS && !rc; i++)
        pthread_join(rank->channel[i].thread, NULL);
    rc = rc ? rc : again;
    for (int i = 0; i < CHANNELS && !rc && !kills; i++)
        rc = rank->channel[i].failed;
    for (int i = 0; i < CHANNELS && !rc; i++)
        rc = dereg(&rank->channel[i], rank->channel[i].mhandle);
    hmreg_mem_free(rank->lib, rank->pool);
    rank->pool = NULL;
    return rc;
}

/* Receives that no message will reach, then the end. */
static int abort_all(struct rank *rank)
{
    int rc = start_pool(rank);

    for (int i = 0; i < CHANNELS && !rc; i++) {
        struct channel *channel = &rank->channel[i];
        struct flight flight = {};

        rc = reg(channel, rank->pool, POOL, &channel->mhandle);
        if (!rc && !channel->sends)
            rc = start_recv(channel, 1, &flight);
        rc = rc ? rc : dereg(channel, channel->mhandle);
    }
    return rc;
}

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* Bytes of the CUDA device that are free; 0: another vendor's. */
static size_t free_device_memory(void)
{
    void *cuda = iface == HMREG_IFACE_CUDA ? dlopen("libcuda.so.1", RTLD_NOW) : NULL, *context;
    size_t available = 0, total;

    if (!cuda)
        return 0;
    if (!((int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0) &&
        !((int (*)(void *))dlsym(cuda, "cuCtxPushCurrent_v2"))(context) &&
        !((int (*)(size_t *, size_t *))dlsym(cuda, "cuMemGetInfo_v2"))(&available, &total))
        ((int (*)(void **))dlsym(cuda, "cuCtxPopCurrent_v2"))(&context);
    ((int (*)(int))dlsym(cuda, "cuDevicePrimaryCtxRelease_v2"))(0);
    dlclose(cuda);
    return available;
}

/* ---- the time of a registration -------------------------------------------------------------- */

#define PAGE_BYTES ((size_t)sysconf(_SC_PAGESIZE))

/* Of this thread alone, whatever else the machine does. */
static double microseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Registers buffer i of a page, each between two others that are not registered. */
static int reg_page(struct channel *channel, char *memory, int i, void **mhandle)
{
    return channel->rank->plugin.memory->reg(channel->comm, memory + (size_t)i * 2 * PAGE_BYTES,
                                             PAGE_BYTES, NCCL_PTR_HOST, mhandle);
}

/* Registers so many buffers for the first time, then random ones of them again while they are held,
 * then all anew after their deregistration. */
static int time_registrations(struct channel *channel, int count, bool print)
{
    size_t bytes = (size_t)count * 2 * PAGE_BYTES;
    void **mhandles = (void **)calloc((size_t)count, sizeof(*mhandles)), *again;
    char *memory = (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    double times[4];
    int rc = !mhandles || memory == MAP_FAILED;

    times[0] = microseconds();
    for (int i = 0; i < count && !rc; i++)
        rc = reg_page(channel, memory, i, &mhandles[i]);
    times[1] = microseconds();
    for (int i = 0; i < AGAIN && !rc; i++) {
        rc = reg_page(channel, memory, (int)((unsigned)i * 2654435761u % (unsigned)count), &again);
        rc = rc ? rc : dereg(channel, again);
    }
    times[2] = microseconds();
    for (int i = 0; i < count && !rc; i++)
        rc = dereg(channel, mhandles[i]);
    times[3] = microseconds();
    for (int i = 0; i < count && !rc; i++)
        rc = reg_page(channel, memory, i, &mhandles[i]);
    if (!rc && print)
        printf("%d buffers: first %.2f us, again while held %.2f, again after %.2f\n", count,
               (times[1] - times[0]) / count, (times[2] - times[1]) / AGAIN,
               (microseconds() - times[3]) / count);
    for (int i = 0; i < count && !rc; i++)
        rc = dereg(channel, mhandles[i]);
    free(mhandles);
    return munmap(memory, bytes) || rc;
}

static int run_round(struct rank *rank, const char *path, int version)
{
    int rc = plugin_load(path, version, nics, &rank->plugin);

    rc = rc ? rc : connect_all(rank);
    for (int count = 1; count <= timed && rank->number == 0 && !rc; count *= 100) {
        rc = time_registrations(&rank->channel[0], count, false); /* warms up */
        rc = rc ? rc : time_registrations(&rank->channel[0], count, true);
    }
    for (int phase = 0; phase < 2 && !rc && !kills; phase++) {
        rc = run_phase(rank, phase);
        rc = rc ? rc : meet(rank);
    }
    if (kills && !rc)
        rc = run_phase(rank, 0);
    if (!kills && !rc)
        rc = abort_all(rank);
    rc = close_all(rank) ? NCCL_INTERNAL_ERROR : rc;
    hmreg_mem_free(rank->lib, rank->pool);
    plugin_unload(&rank->plugin);
    if (!rc && rank->number == 0)
        printf("version %d, %s, %d NIC%s, %s memory%s: %s\n", version, rank->plugin.name, nics,
               nics > 1 ? "s" : "", hmreg_iface_name(iface),
               iface == HMREG_IFACE_SYSTEM               ? ""
               : rank->plugin.pointers & NCCL_PTR_DMABUF ? " by dmabuf"
                                                         : " by its address",
               kills ? "the end of the peer was reported" : "every byte is right");
    return rc;
}

/* What the first round loads stays; the others leave no more descriptors and no fewer bytes free.
 * Waits for threads of libraries that have a file open for a moment. */
static int leaves_nothing(struct rank *rank)
{
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = 10000000};
    int now = count_descriptors();
    size_t available = free_device_memory();

    for (int i = 0; i < 6000 && rank->descriptors; i++) {
        if (now <= rank->descriptors && available >= rank->available)
            break;
        nanosleep(&pause, NULL);
        now = count_descriptors();
        available = free_device_memory();
    }
    if (!rank->descriptors || (now <= rank->descriptors && available >= rank->available)) {
        rank->descriptors = now;
        rank->available = available;
        return 0;
    }
    fprintf(stderr, "rank %d: %d descriptors were open, %d are; %zu bytes were free, %zu are\n",
            rank->number, rank->descriptors, now, rank->available, available);
    return NCCL_INTERNAL_ERROR;
}

/* Between two rounds, when neither rank has memory of the device. */
static int run_command(struct rank *rank)
{
    int rc = kills ? 0 : meet(rank);

    /* NOLINTNEXTLINE(cert-env33-c): a shell's command, of the driver's user */
    if (!rc && command && rank->number == 0 && system(command)) {
        fprintf(stderr, "after a round, this failed: %s\n", command);
        rc = NCCL_INTERNAL_ERROR;
    }
    return rc || kills ? rc : meet(rank);
}

static int run_rank(struct rank *rank, const char *path)
{
    int rc = hmreg_open(NULL, &rank->lib);

    for (int version = OLDEST; version <= NEWEST && !rc; version++) {
        if (only && version != only)
            continue;
        rc = run_round(rank, path, version);
        rc = rc ? rc : leaves_nothing(rank);
        rc = rc ? rc : run_command(rank);
        fflush(stdout);
    }
    if (rc)
        fprintf(stderr, "rank %d: failed: %d; the last message: %s\n", rank->number, rc,
                plugin_log);
    return hmreg_close(rank->lib) || rc;
}

/* Neither libfabric nor a GPU's runtime survives fork(): it comes before both. */
static int start_rank(int number, int sockets[CHANNELS][2], const char *path)
{
    struct rank *rank = (struct rank *)calloc(1, sizeof(*rank));
    int rc;

    if (!rank)
        return 1;
    rank->number = number;
    for (int i = 0; i < CHANNELS; i++) {
        struct channel *channel = &rank->channel[i];

        close(sockets[i][!number]);
        channel->rank = rank;
        channel->number = i;
        channel->sends = i % 2 == number;
        channel->socket = sockets[i][number];
        channel->staging = (char *)malloc(STEP);
    }
    rc = run_rank(rank, path);
    for (int i = 0; i < CHANNELS; i++)
        free(rank->channel[i].staging);
    free(rank);
    return rc != 0;
}

/* HMREG_IFACE_COUNT: there is none of this name. */
static enum hmreg_iface iface_named(const char *name)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        if (!strcmp(name, hmreg_iface_name((enum hmreg_iface)i)))
            return (enum hmreg_iface)i;
    return (enum hmreg_iface)HMREG_IFACE_COUNT;
}

static const char *parse(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "i:n:v:s:c:t:k")) != -1) {
        if (option == 'i')
            iface = iface_named(optarg);
        else if (option == 'n')
            nics = atoi(optarg);
        else if (option == 'v')
            only = atoi(optarg);
        else if (option == 's')
            steps = atoi(optarg);
        else if (option == 'c')
            command = optarg;
        else if (option == 't')
            timed = atoi(optarg);
        else if (option == 'k')
            kills = true;
        else
            return NULL; /* getopt() has said which */
    }
    if (kills && !only)
        only = NEWEST;
    return iface == HMREG_IFACE_COUNT || nics < 1 || nics > 4 || steps < 1 ? NULL : argv[optind];
}

int main(int argc, char **argv)
{
    const char *path = parse(argc, argv);
    int sockets[CHANNELS][2], status[2];
    pid_t child[2];

    if (!path) {
        fprintf(stderr, "usage: 7-nccl-net [-i system|cuda|rocr|ze] [-n NICS] [-v VERSION] "
                        "[-s STEPS] [-c COMMAND] [-t BUFFERS] [-k] PLUGIN\n");
        return 2;
    }
    for (int i = 0; i < CHANNELS; i++)
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets[i]))
            return 1;
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] < 0)
            return 1;
        if (child[i] == 0)
            return start_rank(i, sockets, path);
    }
    for (int i = 0; i < CHANNELS; i++)
        close(sockets[i][0]), close(sockets[i][1]);
    for (int i = 0; i < 2; i++)
        if (waitpid(child[i], &status[i], 0) != child[i])
            return 1;
    if (kills)
        return status[0] || !WIFSIGNALED(status[1]) || WTERMSIG(status[1]) != SIGKILL;
    return status[0] || status[1];
}
