/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory of another process, imported by CUDA's IPC. The owner is this executable again (fork and
 * exec: a child cannot use its parent's CUDA); it allocates, reports the address, and reads its
 * memory on request.
 */
#include "tests/gpu/cuda/driver.h"
#include "tests/gpu/kinds.h"

#include <hmreg/loopback.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define BYTES (64u << 10)

/* ---- the owner -------------------------------------------------------------------------- */

/* A command: 'n' new memory, answered by its handle; or 'r' the byte at an offset. */
struct command {
    char what;
    uint32_t offset;
};

static int send_handle(int socket, unsigned long long addr)
{
    struct cuda_ipc handle;

    return !cu.ipc_handle(&handle, addr) &&
           write(socket, &handle, sizeof(handle)) == (ssize_t)sizeof(handle);
}

static int owner_main(int socket)
{
    struct cuda_context *context = NULL;
    unsigned long long addr = 0;
    struct command command;
    bool good;

    driver_load();
    good = !cu.init(0) && !cu.primary_retain(&context, 0) && !cu.context_push(context);
    while (good && read(socket, &command, sizeof(command)) == (ssize_t)sizeof(command)) {
        char byte = 0;

        if (command.what == 'n') {
            if (addr)
                cu.free(addr);
            good = !cu.alloc(&addr, BYTES) && send_handle(socket, addr);
        } else {
            good = !cu.copy_to_host(&byte, addr + command.offset, 1) && !cu.context_wait() &&
                   write(socket, &byte, 1) == 1;
        }
    }
    return !good;
}

/* ---- the importer ----------------------------------------------------------------------- */

struct owner {
    pid_t process;
    int socket;
};

static struct owner owner_start(void)
{
    struct owner owner;
    int pair[2];
    char number[16];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    snprintf(number, sizeof(number), "%d", pair[1]);
    owner.process = fork();
    assert_true(owner.process >= 0);
    if (!owner.process) {
        close(pair[0]);
        execl("/proc/self/exe", "owner", "--owner", number, NULL);
        _exit(127);
    }
    close(pair[1]);
    owner.socket = pair[0];
    return owner;
}

static void owner_end(const struct owner *owner)
{
    int status = 0;

    close(owner->socket);
    assert_int_equal(waitpid(owner->process, &status, 0), owner->process);
    assert_int_equal(status, 0);
}

static void order(const struct owner *owner, char what, uint32_t offset, void *answer, size_t len)
{
    struct command command;

    memset(&command, 0, sizeof(command));
    command.what = what;
    command.offset = offset;
    assert_int_equal(write(owner->socket, &command, sizeof(command)), sizeof(command));
    assert_int_equal(read(owner->socket, answer, len), len);
}

static unsigned long long import(const struct owner *owner)
{
    unsigned long long addr = 0;
    struct cuda_ipc handle;
    unsigned result;

    order(owner, 'n', 0, &handle, sizeof(handle));
    result = cu.ipc_open(&addr, handle, CUDA_IPC_LAZY_PEER_ACCESS);
    if (result == CUDA_NOT_SUPPORTED || (cu.fake && result == CUDA_OUT_OF_MEMORY)) {
        close(owner->socket);
        waitpid(owner->process, NULL, 0);
        test_skip("no memory of another process can be imported here (%u)", result);
    }
    CU(result);
    return addr;
}

/* By a path that takes an address; the bytes arrive in the owner's memory. */
static void check_peer(struct hmreg *lib, const struct owner *owner, unsigned long long addr)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {HMREG_PATH_PEERMEM}};
    struct hmreg_domain *domain = NULL;
    struct hmreg_remote *remote = NULL;
    struct hmreg_mr *mr = NULL;
    char token[4096], byte = 0;
    size_t size = sizeof(token);
    uint64_t at, key;

    assert_ok(hmreg_domain_open_loopback(lib, NULL, &config, &domain));
    assert_ok(hmreg_mr_get(domain, as_pointer(addr), BYTES, HMREG_ACCESS_REMOTE, &mr));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, 4321, 1, &at, &key));
    assert_ok(hmreg_loopback_write(remote, "x", 1, NULL, at, key));
    hmreg_remote_close(remote);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_close(domain));
    order(owner, 'r', 4321, &byte, 1);
    assert_int_equal(byte, 'x');
}

/* If a driver exports no descriptor for it: refused, with the remedy to export it in its owner. */
TEST(kind__imported_by_ipc__exported_by_its_owner_only)
{
    struct kind kind = {.len = BYTES,
                        .iface = HMREG_IFACE_CUDA,
                        .kind = HMREG_MEM_DEVICE,
                        .segments = 1,
                        .exportable = true,
                        .export_code = -EOPNOTSUPP,
                        .export_says = "by the process that allocated it",
                        .refusal = "imported by IPC"};
    struct bench bench;
    struct owner owner;
    unsigned long long addr;
    uint64_t before;
    struct hmreg *lib;

    driver_need_fake();
    bench = bench_begin();
    owner = owner_start();
    addr = import(&owner);
    lib = kind_open(HMREG_IFACE_CUDA);
    kind.addr = as_pointer(addr);
    kind_check(lib, &kind);
    check_peer(lib, &owner, addr);
    before = identity_of(&bench, addr, BYTES);
    CU(cu.ipc_close(addr));
    assert_int_equal(import(&owner), addr); /* other memory in its place */
    assert_true(identity_of(&bench, addr, BYTES) != before);
    check_peer(lib, &owner, addr);
    CU(cu.ipc_close(addr));
    owner_end(&owner);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--owner"))
        return owner_main(atoi(argv[2]));
    return test_main(argc, argv);
}
