/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 *     outside_plugin PROVIDER
 *
 * A libfabric plugin's registrations as aws-ofi-nccl makes them, by the public interface: two
 * endpoints on one fid_domain, each with a domain of hmreg; keys of two bytes, of which a pool is
 * the plugin's own; FI_THREAD_COMPLETION, with posts and registrations at once; remote offsets
 * instead of addresses; regions that one thread gets, a second posts and a third puts. Both
 * endpoints write to memory of the other's domain, and every byte is compared. Exits with 77 where
 * libfabric has no such provider.
 */
#include <hmreg/ofi.h>
#include <pthread.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES  200 /* of each endpoint */
#define UNDER_WAY 8   /* registered at a time, of each */
#define LONGEST   40000
#define POOL      64 /* keys below are the plugin's own */
#define KEY_SIZE  2
#define KEY_LAST  0x3fff /* hmreg's are from POOL to this one */

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, hmreg_last_error()->text); \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

struct message {
    char *from, *to; /* at odd addresses in their blocks */
    size_t len;
    struct hmreg_mr *from_mr, *to_mr;
};

/* Of messages, from one thread to another. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct message items[UNDER_WAY];
    unsigned count;
};

struct comm {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    fi_addr_t peer;
    struct hmreg_domain *domain, *peers;
    struct queue registered, written;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct hmreg *lib;
static struct comm comms[2];
static atomic_uint posting = 2; /* threads that still have messages to write */

/* ---- one call at a time, where the provider's registrations race ------------------------- */

static pthread_rwlock_t apart = PTHREAD_RWLOCK_INITIALIZER;
static bool serial;

/* docs/threading.md, "Providers whose registrations race all the same". */
static bool races(void)
{
    return !strcmp(info->fabric_attr->prov_name, "tcp") &&
           FI_VERSION_GE(fi_version(), FI_VERSION(2, 0));
}

static void begin_hmreg(void)
{
    if (serial)
        pthread_rwlock_rdlock(&apart);
}

static void begin_own(void)
{
    if (serial)
        pthread_rwlock_wrlock(&apart);
}

static void end(void)
{
    if (serial)
        pthread_rwlock_unlock(&apart);
}

/* ---- opening ----------------------------------------------------------------------------- */

static int find(const char *provider)
{
    struct fi_info *hints = fi_allocinfo();
    int rc;

    MUST(hints);
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_RMA;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    hints->domain_attr->threading = FI_THREAD_COMPLETION;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL; /* rxm grants the model only with it */
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED;
    rc = fi_getinfo(FI_VERSION(1, 17), strcmp(provider, "shm") ? "127.0.0.1" : NULL, NULL,
                    strcmp(provider, "shm") ? FI_SOURCE : 0, hints, &info);
    fi_freeinfo(hints);
    return rc;
}

static void open_comm(struct comm *comm)
{
    const struct hmreg_domain_config config = {.size = sizeof(config),
                                               .flags = HMREG_DOMAIN_SINGLE,
                                               .max_regions = HMREG_LIMIT_NONE,
                                               .policy = HMREG_POLICY_LAST_PUT,
                                               .key_size = KEY_SIZE,
                                               .key_first = POOL,
                                               .key_last = KEY_LAST};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};

    MUST(fi_av_open(domain, &av, &comm->av, NULL) == 0);
    MUST(fi_cq_open(domain, &cq, &comm->cq, NULL) == 0);
    MUST(fi_endpoint(domain, info, &comm->ep, NULL) == 0);
    MUST(fi_ep_bind(comm->ep, &comm->av->fid, 0) == 0);
    MUST(fi_ep_bind(comm->ep, &comm->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    MUST(fi_enable(comm->ep) == 0);
    MUST(hmreg_domain_open_ofi(lib, domain, info, &config, &comm->domain) == 0);
    for (int i = 0; i < 2; i++) {
        struct queue *queue = i ? &comm->written : &comm->registered;

        pthread_mutex_init(&queue->lock, NULL);
        pthread_cond_init(&queue->changed, NULL);
    }
}

static void connect_to(struct comm *comm, const struct comm *other)
{
    char address[256];
    size_t size = sizeof(address);

    MUST(fi_getname(&other->ep->fid, address, &size) == 0);
    MUST(fi_av_insert(comm->av, address, 1, &comm->peer, 0, NULL) == 1);
    comm->peers = other->domain;
}

static void close_comm(struct comm *comm)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    MUST(hmreg_domain_stats(comm->domain, &stats) == 0);
    MUST(stats.regions == 0 && stats.retired == 0);
    MUST(hmreg_domain_close(comm->domain) == 0);
    MUST(fi_close(&comm->ep->fid) == 0);
    MUST(fi_close(&comm->cq->fid) == 0);
    MUST(fi_close(&comm->av->fid) == 0);
}

/* ---- queues ------------------------------------------------------------------------------ */

static void push(struct queue *queue, const struct message *message)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == UNDER_WAY)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->items[queue->count++] = *message;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

/* The newest: regions are put in another order than they were got. False: none, and not waited. */
static bool pop(struct queue *queue, bool wait, struct message *out)
{
    bool any;

    pthread_mutex_lock(&queue->lock);
    while (wait && !queue->count)
        pthread_cond_wait(&queue->changed, &queue->lock);
    any = queue->count > 0;
    if (any)
        *out = queue->items[--queue->count];
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return any;
}

/* ---- the service thread: registrations ---------------------------------------------------- */

static struct hmreg_mr *get(struct hmreg_domain *on, void *addr, size_t len, uint64_t access)
{
    struct hmreg_mr *mr = NULL;

    begin_hmreg();
    MUST(hmreg_mr_get(on, addr, len, access, &mr) == 0);
    end();
    MUST(!(access & HMREG_REMOTE_WRITE) ||
         (hmreg_mr_head_of(mr)->keys->key >= POOL && hmreg_mr_head_of(mr)->keys->key <= KEY_LAST));
    return mr;
}

/* A registration of the plugin's own, with a key of its pool, beside those of hmreg. */
static void register_own(unsigned number)
{
    static char control[64];
    struct fid_mr *mr = NULL;

    begin_own();
    MUST(fi_mr_reg(domain, control, sizeof(control), FI_REMOTE_WRITE, 0, number % POOL, 0, &mr,
                   NULL) == 0);
    MUST(fi_mr_key(mr) == number % POOL);
    MUST(fi_close(&mr->fid) == 0);
    end();
}

static void *register_messages(void *arg)
{
    struct comm *comm = arg;

    for (unsigned i = 0; i < MESSAGES; i++) {
        size_t len = 1 + (size_t)i * 7919 % LONGEST;
        struct message message = {.len = len, .from = malloc(len + 1), .to = malloc(len + 2)};

        MUST(message.from && message.to);
        message.from += 1;
        message.to += 2;
        for (size_t at = 0; at < len; at++)
            message.from[at] = (char)(i + at * 31);
        memset(message.to, 0, len);
        message.from_mr = get(comm->domain, message.from, len, HMREG_WRITE);
        message.to_mr = get(comm->peers, message.to, len, HMREG_REMOTE_WRITE);
        /* The other thread that registers so has the odd keys, or the even ones. */
        register_own(2 * i + (comm == &comms[1]));
        push(&comm->registered, &message);
    }
    return NULL;
}

/* ---- the progress thread: posts and completions ------------------------------------------- */

/* One completion, or false. */
static bool progress(struct comm *comm)
{
    struct fi_cq_entry done;
    ssize_t count;

    begin_own();
    count = fi_cq_read(comm->cq, &done, 1);
    end();
    MUST(count == 1 || count == -FI_EAGAIN);
    sched_yield();
    return count == 1;
}

static void write_message(struct comm *comm, const struct message *message)
{
    const struct hmreg_mr_keys *local = hmreg_mr_head_of(message->from_mr)->keys;
    uint64_t from = hmreg_mr_local_addr(message->from_mr, 0, message->from);
    uint64_t to = hmreg_mr_remote_addr(message->to_mr, 0, message->to);
    ssize_t rc;

    MUST(to < LONGEST); /* an offset */
    do {
        begin_own();
        rc = fi_write(comm->ep, (void *)(uintptr_t)from, message->len, local->desc, comm->peer, to,
                      hmreg_mr_head_of(message->to_mr)->keys->key, NULL);
        end();
        MUST(rc == 0 || (rc == -FI_EAGAIN && !progress(comm)));
    } while (rc);
    while (!progress(comm))
        ;
    MUST(memcmp(message->from, message->to, message->len) == 0);
}

/* Drives its endpoint until the other one has written all, too. */
static void *post_messages(void *arg)
{
    struct comm *comm = arg;
    struct message message;

    for (unsigned left = MESSAGES; left;) {
        if (!pop(&comm->registered, false, &message)) {
            MUST(!progress(comm));
            continue;
        }
        write_message(comm, &message);
        push(&comm->written, &message);
        left--;
    }
    atomic_fetch_sub(&posting, 1);
    while (atomic_load(&posting))
        MUST(!progress(comm));
    return NULL;
}

/* ---- another thread: deregistrations ------------------------------------------------------ */

static void *put_messages(void *arg)
{
    struct comm *comm = arg;
    struct message message;

    for (unsigned i = 0; i < MESSAGES; i++) {
        MUST(pop(&comm->written, true, &message));
        begin_hmreg();
        hmreg_mr_put(message.to_mr);
        hmreg_mr_put(message.from_mr);
        end();
        free(message.from - 1);
        free(message.to - 2);
    }
    return NULL;
}

static void run(void)
{
    void *(*const work[])(void *) = {register_messages, post_messages, put_messages};
    pthread_t threads[6];

    for (int i = 0; i < 6; i++)
        MUST(pthread_create(&threads[i], NULL, work[i / 2], &comms[i % 2]) == 0);
    for (int i = 0; i < 6; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    int rc = argc == 2 ? find(argv[1]) : -FI_EINVAL;

    if (rc == -FI_ENODATA)
        return 77;
    MUST(rc == 0 && info->domain_attr->threading == FI_THREAD_COMPLETION);
    MUST(!(info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_PROV_KEY)));
    serial = races();
    MUST(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    MUST(fi_domain(fabric, info, &domain, NULL) == 0);
    MUST(hmreg_open(NULL, &lib) == 0);
    for (int i = 0; i < 2; i++)
        open_comm(&comms[i]);
    for (int i = 0; i < 2; i++)
        connect_to(&comms[i], &comms[!i]);
    run();
    for (int i = 0; i < 2; i++)
        close_comm(&comms[i]);
    MUST(hmreg_close(lib) == 0);
    MUST(fi_close(&domain->fid) == 0);
    MUST(fi_close(&fabric->fid) == 0);
    fi_freeinfo(info);
    printf("%d messages each way, every byte is right\n", MESSAGES);
    return 0;
}
