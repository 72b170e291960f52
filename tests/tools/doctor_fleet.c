/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg doctor for those who ask many machines: one line, metrics, what differs from an earlier
 * look. */
#include "tests/tools/doctor_tree.h"

#include <unistd.h>

static void port_down(void)
{
    tree_file("/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
}

/* As a Nagios plugin: the first line is all, and the exit status the verdict. */
TEST(brief__one_line_with_the_first_cause)
{
    struct tool tool;
    char host[128] = "", line[512];
    int status;

    doctor_begin();
    gethostname(host, sizeof(host) - 1);
    tool = doctor_run("--brief", NULL);
    /* where this build has no memhooks, that is the first cause */
    snprintf(line, sizeof(line), "%s %s", host,
             tool.status ? "DEGRADED " : "GOOD GPUDirect works for 4 of 4 pairs");
    assert_memory_equal(tool.out, line, strlen(line));
    assert_says(tool.out, " | pairs=4 proven=4 findings=");
    (void)doctor_document(&status);
    assert_int_equal(tool.status, status);
    port_down();
    tool = doctor_run("--brief", "--no-proof");
    snprintf(line, sizeof(line), "%s DEGRADED ", host);
    assert_memory_equal(tool.out, line, strlen(line));
    if (!status)
        assert_says(tool.out, " port-down: No port is active on mlx5_1. | pairs=4 ");
    assert_int_equal(tool.status, 1);
    assert_ptr_equal(strchr(tool.out, '\n'), tool.out + strlen(tool.out) - 1);
}

static void errors_on_a_port(void)
{
    tree_file("/sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
    tree_file("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
    tree_file("/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "3\n");
    tree_file("/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "4711\n");
    tree_file("/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "0\n");
}

TEST(ports__rate_link_and_counters_of_errors)
{
    json_t *port;
    int status;

    doctor_begin();
    errors_on_a_port();
    port = json_array_get(
        list_at(with(list_at(doctor_document(&status), "facts/nics"), "name", "mlx5_0"), "ports"),
        0);
    assert_string_equal(words_at(port, "rate"), "100 Gb/sec (4X EDR)");
    assert_string_equal(words_at(port, "link"), "Ethernet");
    assert_int_equal(number_at(port, "errors/symbol_error"), 3);
    assert_int_equal(json_object_size(at(port, "errors")), 1);
    assert_int_equal(json_object_size(at(port, "risen")), 0);
}

TEST(openmetrics__parsed__verdict_findings_pairs_ports)
{
    const char *text;

    doctor_begin();
    errors_on_a_port();
    port_down();
    tool_preload_nic(true);
    text = tool_metrics("doctor", "--no-proof");
    tool_preload_nic(false);
    assert_says(text, "hmreg_doctor_verdict = 1\n");
    assert_says(text, "hmreg_doctor_finding code=port-down severity=degraded = 1\n");
    assert_says(text, "hmreg_doctor_pair_proven device=cuda 0 ");
    assert_says(text, "hmreg_nic_port_active nic=mlx5_0 port=1 = 1\n");
    assert_says(text, "hmreg_nic_port_active nic=mlx5_1 port=1 = 0\n");
    assert_says(text, "hmreg_nic_port_errors_total counter=symbol_error nic=mlx5_0 port=1 = 3\n");
}

/* Writes the document to a file, the path of which it returns. */
static const char *kept_document(void)
{
    static char path[64];
    json_t *kept;
    int status;

    snprintf(path, sizeof(path), "/tmp/hmreg-doctor-%d.json", (int)getpid());
    kept = doctor_document(&status);
    assert_int_equal(json_dump_file(kept, path, 0), 0);
    return path;
}

static const json_t *change_of(const json_t *compared, const char *kind, const char *what)
{
    return find(list_at(compared, kind), "what", what);
}

TEST(compare__what_broke_first__and_the_other_way_round)
{
    char option[128];
    const json_t *compared, *change;
    const char *path;
    struct tool tool;
    int status;

    doctor_begin();
    path = kept_document();
    snprintf(option, sizeof(option), "--compare=%s", path);
    tool = doctor_run(option, "--no-proof");
    assert_says(tool.out, "Nothing differs since 20");
    port_down();
    tree_remove("/sys/class/infiniband/mlx5_0");
    tree_file("/proc/sys/kernel/osrelease", "6.9.0-test\n");
    compared = at(doctor_examined(option, &status), "compared");
    change = change_of(compared, "broke", "nics/mlx5_1/ports/1/state");
    assert_non_null(change);
    assert_string_equal(words_at(change, "before"), "ACTIVE");
    assert_string_equal(words_at(change, "now"), "DOWN");
    assert_non_null(change_of(compared, "broke", "nics/mlx5_0"));
    assert_null(change_of(compared, "broke", "nics/mlx5_0/ports/1"));
    assert_non_null(change_of(compared, "changed", "kernel/release"));
    tool = doctor_run(option, "--no-proof");
    assert_true(strstr(tool.out, "What broke since") < strstr(tool.out, "What else differs since"));
    assert_true(strstr(tool.out, "What broke since") < strstr(tool.out, "What to do"));
    tool = doctor_run(option, "--brief");
    assert_says(tool.out, " broke=");
    assert_null(strstr(tool.out, " broke=0"));
    path = kept_document();
    tree_file("/sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
    compared = at(doctor_examined(option, &status), "compared");
    assert_non_null(change_of(compared, "mended", "nics/mlx5_1/ports/1/state"));
    assert_int_equal(json_array_size(list_at(compared, "broke")), 0);
    unlink(path);
}

TEST(brief__no_verdict__unknown_and_the_error)
{
    struct tool tool = tool_run("doctor", "--brief", "--compare=/nowhere");
    char host[128] = "", line[512];

    gethostname(host, sizeof(host) - 1);
    snprintf(line, sizeof(line), "%s UNKNOWN hmreg doctor: --compare /nowhere: ", host);
    assert_int_equal(tool.status, 3);
    assert_memory_equal(tool.out, line, strlen(line));
    assert_ptr_equal(strchr(tool.out, '\n'), tool.out + strlen(tool.out) - 1);
}

TEST(compare__no_document_of_the_doctor__refused)
{
    struct tool tool = tool_run("doctor", "--compare=/dev/null");

    assert_int_equal(tool.status, 3);
    assert_says(tool.err, "hmreg doctor: --compare /dev/null: ");
    tool = tool_run("doctor", "--compare=/nowhere");
    assert_int_equal(tool.status, 3);
    assert_says(tool.err, "No such file");
}

TEST_MAIN()
