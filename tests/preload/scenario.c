/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What test programs do with libibverbs: a program of its own that links it, and a module that a
 * program without libibverbs loads. Nothing here knows hmreg.
 */
#include "tests/preload/scenario.h"
#include "tests/support/fake/ibverbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE    4096
#define RIGHTS  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define THREADS 4
#define ROUNDS  500

static struct ibv_pd *pd;
static char memory[1 << 20] __attribute__((aligned(PAGE)));

static void require(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "scenario: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static void open_pd(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;

    require(context != NULL, "no device");
    pd = ibv_alloc_pd(context);
    require(pd != NULL, "no protection domain");
    ibv_free_device_list(list);
}

static struct ibv_mr *reg(size_t offset, size_t length)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, memory + offset, length, RIGHTS);

    require(mr && mr->addr == memory + offset && mr->length == length, "ibv_reg_mr");
    return mr;
}

static void dereg(struct ibv_mr *mr)
{
    require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static int wait_status(pid_t child)
{
    int status = 0;

    require(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
    return status;
}

/* ---- scenarios --------------------------------------------------------------------------- */

/* Two regions end, one stays. */
static int plain(char **argv)
{
    dereg(reg(0, PAGE));
    dereg(reg(PAGE, 2 * PAGE));
    reg(0, sizeof(memory));
    puts("hello");
    return 3;
}

static int again(char **argv)
{
    for (int i = 0; i < 10; i++)
        dereg(reg(0, PAGE));
    return 0;
}

/* Regions that the NIC reads, those that it may write, and those of peers. */
/* The second registration of each memory repeats the first; the third is of other memory. */
static int renewed(char **argv)
{
    size_t length = 4 * PAGE;
    char *at = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    require(at != MAP_FAILED, "mmap");
    for (int i = 0; i < 8; i++) {
        struct ibv_mr *mr;

        if (i % 2 == 0) {
            require(!munmap(at, length), "munmap");
            require(mmap(at, length, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at,
                    "mmap at the same address");
        }
        at[0] = (char)i;
        mr = ibv_reg_mr(pd, at, length, RIGHTS);
        require(mr != NULL, "ibv_reg_mr");
        dereg(mr);
    }
    return 0;
}

static int kinds(char **argv)
{
    static const struct {
        int rights, times;
    } rows[] = {{0, 4}, {IBV_ACCESS_LOCAL_WRITE, 6}, {RIGHTS, 10}};

    for (int i = 0; i < 3; i++)
        for (int j = 0; j < rows[i].times; j++) {
            struct ibv_mr *mr = ibv_reg_mr(pd, memory + i * PAGE, PAGE, rows[i].rights);

            require(mr != NULL, "ibv_reg_mr");
            dereg(mr);
        }
    return 0;
}

/* A receive is posted, its buffer deregistered and freed; then the message comes. */
static int late(char **argv)
{
    struct fake_ibverbs *nic = dlsym(RTLD_DEFAULT, FAKE_IBVERBS_SYMBOL);
    char *page = aligned_alloc(PAGE, PAGE), *to;
    struct ibv_mr *mr = ibv_reg_mr(pd, page, PAGE, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge posted;

    require(nic && mr, "ibv_reg_mr");
    posted = (struct ibv_sge){(uintptr_t)page, PAGE, mr->lkey};
    dereg(mr);
    to = nic->reach(posted.lkey, posted.addr, posted.length, IBV_ACCESS_LOCAL_WRITE);
    puts(!to ? "local operation error" : to == page ? "overwritten" : "elsewhere");
    free(page);
    return 0;
}

static int freed(char **argv)
{
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr;

    require(page != MAP_FAILED, "mmap");
    mr = ibv_reg_mr(pd, page, PAGE, RIGHTS);
    require(mr != NULL, "ibv_reg_mr");
    munmap(page, PAGE);
    dereg(mr);
    return 0;
}

/* libibverbs, which is linked, need not have it where this is built. */
static reg_buf_mr_call *find_reg_buf_mr(void)
{
    void *found = dlsym(RTLD_DEFAULT, "ibv_reg_buf_mr");
    reg_buf_mr_call *call;

    require(found != NULL, "ibv_reg_buf_mr");
    memcpy(&call, &found, sizeof(call));
    return call;
}

/* An address without a mapping; and libibverbs' calls one by one. */
static int calls(char **argv)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, (void *)(uintptr_t)PAGE, PAGE, RIGHTS);

    require(!mr && errno == EFAULT, "a failure");
    mr = ibv_reg_mr_iova(pd, memory, PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE);
    require(mr != NULL, "ibv_reg_mr_iova");
    require(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + PAGE, 2 * PAGE, 0),
            "ibv_rereg_mr");
    require(mr->addr == memory + PAGE && mr->length == 2 * PAGE, "its result");
    require(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0) != 0,
            "a failing ibv_rereg_mr");
    dereg(mr);
    mr = ibv_reg_mr_iova2(pd, memory, PAGE, 0, IBV_ACCESS_RELAXED_ORDERING);
    require(mr != NULL, "ibv_reg_mr_iova2");
    dereg(mr);
    for (int i = 0; i < 2; i++) {
        mr = find_reg_buf_mr()(pd, NULL, memory, PAGE, RIGHTS);
        require(mr != NULL, "ibv_reg_buf_mr");
        dereg(mr);
    }
    require(!ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, -1, 0) && errno == EBADF, "a probe");
    return 0;
}

/* The child has a region of its own, and the grandchild, which no fork handler saw. */
static int forks(char **argv)
{
    pid_t child;

    reg(0, PAGE);
    child = fork();
    if (child == 0) {
        pid_t grandchild;

        reg(0, 2 * PAGE);
        grandchild = _Fork();
        if (grandchild == 0) {
            reg(0, 4 * PAGE);
            _exit(0);
        }
        _exit(wait_status(grandchild));
    }
    return wait_status(child);
}

/* A child that registers nothing, and one that ends its parent's region. */
static int heir(char **argv)
{
    struct ibv_mr *mr = reg(0, PAGE);
    pid_t child = fork();

    if (child == 0) {
        dereg(mr);
        _exit(0);
    }
    wait_status(child);
    dereg(mr);
    return 0;
}

static int executes(char **argv)
{
    char *const words[] = {argv[0], "plain", NULL};

    reg(0, PAGE);
    execv("/proc/self/exe", words);
    return 98;
}

/* Another user, of this id, truncates a file while the program runs. */
static int robbed(char **argv)
{
    pid_t child = fork();

    if (child == 0)
        _exit(setgid((gid_t)atoi(argv[2])) || setuid((uid_t)atoi(argv[2])) || truncate(argv[3], 0));
    require(!wait_status(child), "truncate");
    reg(0, PAGE);
    return 0;
}

/* Where neither hmreg's libraries nor its folder are. */
static int confined(char **argv)
{
    require(!chroot("/proc/self/fdinfo"), "chroot");
    reg(0, PAGE);
    puts("registered");
    return 0;
}

static int leaves(char **argv)
{
    reg(0, PAGE);
    _exit(4);
}

static int killed(char **argv)
{
    reg(0, PAGE);
    return raise(SIGKILL);
}

static void *work(void *arg)
{
    char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    require(own != MAP_FAILED, "mmap");
    for (int i = 0; i < ROUNDS; i++) {
        struct ibv_mr *mr = ibv_reg_mr(pd, own, PAGE, RIGHTS);

        require(mr != NULL, "ibv_reg_mr");
        dereg(mr);
    }
    return NULL;
}

static int threads(char **argv)
{
    pthread_t made[THREADS];

    for (int i = 0; i < THREADS; i++)
        require(!pthread_create(&made[i], NULL, work, NULL), "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(made[i], NULL);
    return 0;
}

static volatile sig_atomic_t received;

static void receive(int number)
{
    received = number;
}

/* Ends by itself once it has SIGTERM, and says when it waits. */
static int waits(char **argv)
{
    const struct sigaction action = {.sa_handler = receive};
    sigset_t none, blocked;

    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sigaction(SIGTERM, &action, NULL);
    reg(0, PAGE);
    puts("waiting");
    fflush(stdout);
    while (!received)
        sigsuspend(&none);
    return 5;
}

/* Says which signals it gets, and their values. SIGTERM ends it. */
static int receives(char **argv)
{
    siginfo_t info;
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    puts("ready");
    do {
        fflush(stdout);
        require(sigwaitinfo(&all, &info) > 0, "sigwaitinfo");
        printf("[%d %d]\n", info.si_signo, info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
    } while (info.si_signo != SIGTERM);
    return 6;
}

/* What the program may look at: its descriptors, errno, the mask and the handlers of signals. */
static int looks(char **argv)
{
    sigset_t mask;
    struct sigaction action;
    struct ibv_mr *mr;

    for (int fd = 3; fd < 256; fd++)
        close(fd);
    errno = EDOM;
    mr = reg(0, PAGE);
    require(errno == EDOM, "errno after a registration");
    dereg(mr);
    require(errno == EDOM, "errno after a deregistration");
    for (int fd = 3; fd < 256; fd++)
        require(close(fd) && errno == EBADF, "a descriptor");
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 32; number++) {
        require(sigismember(&mask, number) == 0, "the mask of signals");
        require(!sigaction(number, NULL, &action) && action.sa_handler == SIG_DFL, "a handler");
    }
    return 0;
}

/* Without stdin, stdout and stderr, whose numbers stay unused. */
static int bare(char **argv)
{
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    for (int i = 0; i < 3; i++) {
        struct ibv_mr *mr = reg(0, PAGE);

        for (int fd = 0; fd < 3; fd++)
            require(fcntl(fd, F_GETFD) == -1, "a descriptor while it is registered");
        dereg(mr);
        for (int fd = 0; fd < 3; fd++)
            require(fcntl(fd, F_GETFD) == -1, "a descriptor after a deregistration");
    }
    return 0;
}

int scenario(char **argv)
{
    static const struct {
        const char *name;
        int (*run)(char **argv);
    } scenarios[] = {
        {"plain", plain},       {"again", again},       {"freed", freed},     {"calls", calls},
        {"forks", forks},       {"heir", heir},         {"exec", executes},   {"_exit", leaves},
        {"killed", killed},     {"looks", looks},       {"threads", threads}, {"waits", waits},
        {"receives", receives}, {"confined", confined}, {"kinds", kinds},     {"renewed", renewed},
        {"late", late},         {"bare", bare},         {"robbed", robbed}};

    open_pd();
    for (size_t i = 0; argv[1] && i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
        if (!strcmp(argv[1], scenarios[i].name))
            return scenarios[i].run(argv);
    return 97;
}
