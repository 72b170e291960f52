/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The text of `hmreg run`: what tells its lines apart, what to do about failures, and what it says
 * of counts that are not whole.
 */
#include "tests/tools/machine.h"
#include "tests/tools/tool.h"
#include "tools/run/failures.h"
#include "tools/run/run.h"

#include <hmreg/hmreg.h>

#include <errno.h>
#include <sys/mman.h>

#define FAILURE(rights, nic)                                                                       \
    "{'call': 'ibv_reg_mr', 'how': 'passed on', 'iface': 'cuda', 'device': 0, 'size_from': 4096, " \
    "'caller': '/opt/program', 'count': 2, 'name': 'EFAULT', 'text': 'It cannot.', 'remedy': "     \
    "'Do.', 'finding': null, 'rights': '" rights "', 'nic': '" nic "'}"
#define FREED(rights)                                                                              \
    "{'call': 'ibv_reg_mr', 'how': 'passed on', 'iface': 'system', 'device': null, 'path': "       \
    "'system', 'size_from': 4096, 'caller': '/opt/program', 'count': 2, 'bytes': 8192, 'ns': 1, "  \
    "'longest_ns': 1, 'deregistered': 2, 'looked_at': 2, 'freed': 1, 'rights': '" rights           \
    "', 'nic': 'mlx5_0'}"

#define AGAIN(rights)                                                                              \
    "{'addr': '0x1000', 'len': 4096, 'count': 2, 'ns': 5, 'rights': '" rights                      \
    "', 'caller': '/opt/program'}"

/* The text about a process with two rows of each kind. lost: of which kind some were not recorded.
 */
static const char *printed(const char *lost)
{
    static char text[1 << 14];
    json_t *process = tool_keep(json_of(
        "{'pid': 7, 'rank': null, 'program': 'p', 'state': 'exited', 'totals': {'registrations': "
        "4, 'bytes': 8192, 'failures': 4, 'left': 1, 'left_bytes': 4096, 'deregistrations': 4}, "
        "'again': {'count': 3, 'saved': 3, 'libfabrics': 0, 'watched': false, 'ranges': []}, "
        "'registrations': [" FREED("read") ", " FREED("remote") "], 'failures': [" FAILURE(
            "write",
            "mlx5_0") ", " FAILURE("remote",
                                   "mlx5_0") ", " FAILURE("remote",
                                                          "mlx5_1") "]"
                                                                    ", 'passed_on': [], "
                                                                    "'not_recorded': {}}"));
    json_t *document = tool_keep(json_of("{'hmreg': '0', 'failures': [], 'lost': []}"));
    int out = memfd_create("text", MFD_CLOEXEC), before = dup(STDOUT_FILENO);
    ssize_t size;

    json_object_set_new(json_object_get(process, "again"), "ranges",
                        json_of("[" AGAIN("write") ", " AGAIN("remote") "]"));
    if (lost)
        json_object_set_new(json_object_get(process, "not_recorded"), lost, json_integer(1));
    json_object_set_new(document, "processes", json_pack("[O]", process));
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    report_print(document);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    size = pread(out, text, sizeof(text) - 1, 0);
    assert_true(size > 0);
    text[size] = '\0';
    close(out);
    close(before);
    return text;
}

TEST(rows__that_differ_in_rights_or_nic__say_so)
{
    const char *text = printed(NULL);

    assert_says(text, "from 4 KiB, write, on mlx5_0, by program, 2 times: EFAULT");
    assert_says(text, "from 4 KiB, remote, on mlx5_0, by program, 2 times: EFAULT");
    assert_says(text, "from 4 KiB, remote, on mlx5_1, by program, 2 times: EFAULT");
    assert_says(text, "1 range of system memory, from 4 KiB, read, on mlx5_0, by program.");
    assert_says(text, "1 range of system memory, from 4 KiB, remote, on mlx5_0, by program.");
    assert_says(text, "5 ns  write   program");
    assert_says(text, "5 ns  remote  program");
    assert_silent(text, "at least");
}

TEST(rows__for_which_there_was_no_room__each_count_is_at_least_so_much)
{
    static const char *const kinds[] = {"registrations", "regions", "ranges"};

    for (size_t i = 0; i < 3; i++) {
        const char *text = printed(kinds[i]);

        assert_says(text, "at least 4 registrations of 8 KiB");
        assert_says(text, "The trace file was full: each count is a");
        assert_says(text, "by program, at least 2 times: EFAULT");
        assert_says(text, "never deregistered: at least 1 region");
        assert_says(text, "freed while registered: at least 1 range");
        assert_says(text, "registered again: at least 3 registrations");
        assert_says(text, "a cache would save: at least 3 registrations");
    }
    assert_silent(printed("names"), "at least"); /* rows have no caller, and are counted */
}

TEST(rereg__without_the_driver__says_so)
{
    struct record_key key = {.call = RECORD_REREG_MR, .error = EOPNOTSUPP};

    assert_string_equal(failure_of(&key).text,
                        "This driver does not support re-registration (rereg).");
    assert_null(failure_of(&key).finding);
    key.call = RECORD_REG_DMABUF_MR;
    assert_string_equal(failure_of(&key).finding, "nic-imports-no-dmabuf");
}

TEST(failure__of_device_memory__wants_the_mode_gpu)
{
    struct record_key key = {
        .call = RECORD_REG_MR, .error = EFAULT, .iface = HMREG_IFACE_CUDA, .how = RECORD_PASSED};

    assert_true(failure_wants_gpu(&key));
    key.call = RECORD_REG_DMABUF_MR; /* which has a dmabuf */
    assert_false(failure_wants_gpu(&key));
    key.call = RECORD_REG_MR;
    key.iface = HMREG_IFACE_SYSTEM;
    assert_false(failure_wants_gpu(&key));
}

TEST_MAIN()
