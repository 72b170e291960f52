/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg doctor's judges: a good machine has no finding; each finding has a machine that differs
 * from it in one thing. A code without such a machine fails. */
#include "tests/tools/machine.h"
#include "tests/tools/tool.h"
#include "tests/tools/tree.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"

#define MOST_CHANGES 4

struct change {
    const char *path, *value;
};

struct state {
    const char *code;
    struct change changes[MOST_CHANGES]; /* to the good machine */
    const char *words;                   /* expected in the finding's sentence */
};

#define GPU   "fabrics/1/memory/1/"
#define PROOF "fabrics/1/memory/1/proof"
#define TCP   "fabrics/0/memory/0/best"
#define REFUSED(slug)                                                                              \
    "{'result': 'failed', 'text': 'no', 'path': null, 'refused': [{'path': 'dmabuf', "             \
    "'slug': '" slug "', 'text': 'words of the library'}]}"

static const struct state states[] = {
    {"no-device",
     {{"devices", "[]"}, {"gpus", "[]"}, {"runtimes/1/why", "'no libcuda.so.1'"}},
     "not cuda. hmreg info says why."},
    {"no-nic",
     {{"fabrics", "[]"}, {"nics", "[]"}, {"fabric_libraries/2/why", "'none listed'"}},
     "libibverbs: none listed."},
    {"no-path",
     {{GPU "best", "'none'"}, {PROOF, "null"}, {TCP, "'none'"}},
     "No path leads from NIC to device for cuda 0 with mlx5_0."},
    {"path-through-cpu",
     {{GPU "best", "'none'"}, {PROOF, "null"}},
     "for cuda 0 with mlx5_0; the CPU can move the bytes, over another fabric."},
    {"loopback-failed",
     {{PROOF, "{'result': 'failed', 'text': 'no completion came', 'path': 'dmabuf', "
              "'refused': []}"}},
     "cuda 0 with mlx5_0, by dmabuf: no completion came."},
    {"loopback-failed",
     {{"fabrics/1/memory/0/proof", "{'result': 'failed', 'text': 'no completion', 'path': null}"}},
     "Host memory over mlx5_0: no completion."},
    {"loopback-wrong-bytes",
     {{PROOF "/result", "'wrong-bytes'"}, {PROOF "/text", "'byte 7 is 0x1'"}},
     "cuda 0 with mlx5_0, by dmabuf: byte 7 is 0x1."},
    {"loopback-untried",
     {{PROOF, "{'result': 'untried', 'text': 'none of its 1 ports is active', 'path': null}"}},
     "none of its 1 ports is active"},
    {"other-way-works",
     {{PROOF, "{'result': 'failed', 'text': 'no', 'path': 'dmabuf', 'refused': [], 'ways': ["
              "{'way': 'plain', 'result': 'failed', 'text': 'no'}, "
              "{'way': 'pcie', 'result': 'proven', 'text': 'yes'}]}"}},
     "cuda 0 with mlx5_0: way pcie of path dmabuf moves the bytes"},
    {"gpu-no-driver",
     {{"devices", "[]"}, {"gpus/0/driver", "'nouveau'"}},
     "NVIDIA GPU 0000:42:00.0: bound to the driver nouveau; cuda needs nvidia."},
    {"gpu-no-driver", {{"devices", "[]"}, {"gpus/0/driver", "null"}}, "bound to no driver;"},
    {"gpu-no-node",
     {{"devices", "[]"}, {"gpus/0/files_lacking", "['/dev/nvidiactl is missing']"}},
     "NVIDIA GPU 0000:42:00.0: /dev/nvidiactl is missing."},
    {"gpu-no-runtime",
     {{"devices", "[]"}, {"runtimes/1/why", "'libcuda.so.1 is a stub'"}},
     "cuda cannot use it: libcuda.so.1 is a stub."},
    {"driver-mismatch",
     {{"nvidia/library_version", "'535.1'"}},
     "kernel module is of version 550.54.15, libcuda of 535.1."},
    {"nvidia-closed-modules",
     {{"nvidia/open_modules", "false"}, {"devices/0/dmabuf", "false"}},
     "closed kernel modules"},
    {"nic-no-node", {{"nics/0/file_state", "'missing'"}}, "/dev/infiniband/uverbs0 is missing."},
    {"nic-no-node", {{"nics/0/file_state", "'closed'"}}, "closed to this user."},
    {"nic-no-node",
     {{"nics/0/file_state", "'closed'"},
      {"nics/0/file_access", "{'owner': 'root', 'group': 'root', 'mode': '0600'}"}},
     "/dev/infiniband/uverbs0 is root:root 0600, and you are ann (uid 1000)."},
    {"nic-no-node",
     {{"nics/0/file_state", "'closed'"},
      {"nics/0/file_access", "{'owner': 'root', 'group': 'rdma', 'mode': '0660'}"}},
     "is root:rdma 0660, and you are ann (uid 1000); its group rdma may open it."},
    {"nic-not-opened",
     {{"fabrics/1/opened", "false"}, {"fabrics/1/error", "{'text': 'Permission denied'}"}},
     "mlx5_0 could not be opened: Permission denied."},
    {"no-port", {{"nics/0/ports/0/state", "'DOWN'"}}, "No port is active on mlx5_0."},
    {"port-down",
     {{"nics", "[{'name': 'mlx5_0', 'ports': [{'port': 1, 'state': 'DOWN'}], 'file_state': "
               "'good'}, {'name': 'mlx5_1', 'ports': [{'port': 1, 'state': 'ACTIVE'}], "
               "'file_state': 'good'}]"}},
     "No port is active on mlx5_0."},
    {"port-errors",
     {{"nics/0/ports/0/risen", "{'symbol_error': 3, 'link_downed': 1}"}},
     "mlx5_0 counted errors on port 1: symbol_error by 3, link_downed by 1."},
    {"far-nic", {{"topology/distances/0/distance", "'SYS'"}}, "(SYS) from cuda 0."},
    {"acs-redirects",
     {{"topology/bridges/0000:41:01.0/acs_redirect", "true"}},
     "is on at 0000:41:01.0,"},
    {"iommu-translates", {{"topology/members/1/iommu", "'DMA-FQ'"}}, "addresses of mlx5_0."},
    {"bar-small",
     {{"gpus/0/bar", "268435456"}},
     "cuda 0: its BAR covers 256 MiB of its 80 GiB of memory."},
    {"memlock-low",
     {{"process/memlock", "65536"}},
     "ulimit -l is 64 KiB; with 1 RDMA device, registrations larger than 64 KiB fail"},
    {"mr-count-low", {{"fabrics/1/max_mr", "1000"}}, "mlx5_0 can have 1000 regions"},
    {"mr-size-low", {{"fabrics/1/max_mr_size", "2147483648"}}, "mlx5_0: regions of up to 2 GiB"},
    {"userfaultfd-denied",
     {{"process/userfaultfd", "{'available': false, 'error': {'text': 'not permitted'}, "
                              "'seccomp_filter': true, 'file': 'closed'}"}},
     "not permitted (seccomp filter: in force, /dev/userfaultfd: closed)."},
    {"memhooks-impossible",
     {{"process/monitor", "{'asked': 'default', 'active': 'userfaultfd', 'userfaultfd': true, "
                          "'why': 'memhooks: no'}"}},
     "Host memory is watched by userfaultfd: memhooks: no."},
    {"memhooks-impossible",
     {{"process/monitor", "{'asked': 'default', 'active': 'disabled', 'userfaultfd': false, "
                          "'why': 'memhooks: no'}"}},
     "Host memory is not cached: memhooks: no."},
    {"numa-balancing", {{"kernel/numa_balancing", "1"}}, "2 NUMA nodes"},
    {"huge-pages-off", {{"kernel/transparent_huge_pages", "'always madvise [never]'"}}, "are off"},
    {"page-size", {{"kernel/page_size", "65536"}}, "of 64 KiB"},
    {"kernel-option-off",
     {{"kernel/options/CONFIG_PCI_P2PDMA", "'n'"}, {PROOF, REFUSED("dmabuf-import-failed")}},
     "has these off: CONFIG_PCI_P2PDMA."},
    {"libfabric-no-dmabuf", {{"fabric_libraries/1/version", "'1.17'"}}, "version 1.17;"},
    {"container", {{"kernel/container", "'/.dockerenv'"}}, "a container"},
    {"simulated",
     {{"devices/0/simulated", "true"}},
     "cuda 0: simulated by a test's library, no hardware"},
    {"not-root", {{"topology/bridges/0000:40:01.0/acs_redirect", "null"}}, "bridge 0000:40:01.0."},
};
#define STATES (sizeof(states) / sizeof(states[0]))

/* ---- judging ---------------------------------------------------------------------------- */

static json_t *judged(json_t *facts)
{
    json_object_set_new(facts, "pairs", paths_pairs(facts));
    return tool_keep(doctor_judge(facts));
}

static json_t *machine_of(const struct state *state)
{
    json_t *facts = machine_good();

    for (size_t i = 0; i < MOST_CHANGES && state->changes[i].path; i++)
        machine_set(facts, state->changes[i].path, state->changes[i].value);
    return facts;
}

static void assert_found(json_t *facts, const char *code, const char *words)
{
    json_t *findings = judged(facts);
    const json_t *finding = doc_find(findings, "code", code);

    if (!finding)
        fail_msg("no finding %s in:\n%s", code, json_dumps(findings, JSON_INDENT(2)));
    if (!strstr(doc_words(finding, "text"), words))
        fail_msg("%s says \"%s\", without \"%s\"", code, doc_words(finding, "text"), words);
    assert_string_equal(doc_words(finding, "severity"),
                        severity_name(finding_find(code)->severity));
    assert_string_not_equal(doc_words(finding, "remedy"), "");
    assert_string_not_equal(doc_words(finding, "read_at"), "");
}

TEST(good_machine__no_finding)
{
    json_t *facts = machine_good(), *findings = judged(facts);
    json_t *summary = tool_keep(doctor_summary(facts, findings));

    if (json_array_size(findings))
        fail_msg("%s", json_dumps(findings, JSON_INDENT(2)));
    assert_int_equal(findings_worst(findings), SEVERITY_NOTE);
    assert_string_equal(json_string_value(summary),
                        "GPUDirect works for 1 of 1 pairs of device and NIC, proven by writing, "
                        "reading and comparing bytes.");
}

TEST(each_state__has_its_finding)
{
    for (size_t i = 0; i < STATES; i++)
        assert_found(machine_of(&states[i]), states[i].code, states[i].words);
}

/* What sysfs counts between the first look and the second. */
TEST(errors_while_paths_are_proven__only_what_rose)
{
    static const char port[] = "/sys/class/infiniband/mlx5_0/ports/1/";
    json_t *nics, *seen;
    char file[128];

    tree_begin();
    tree_nic("mlx5_0", "pci0000:40/0000:40:01.0/0000:42:00.0");
    snprintf(file, sizeof(file), "%scounters/symbol_error", port);
    tree_file(file, "3\n");
    snprintf(file, sizeof(file), "%scounters/port_rcv_errors", port);
    tree_file(file, "5\n");
    nics = tool_keep(nics_facts());
    tree_file(file, "7\n");
    snprintf(file, sizeof(file), "%shw_counters/rx_write_requests", port);
    tree_file(file, "9\n");
    nics_look_again(nics);
    seen = at(nics, "0/ports/0");
    assert_int_equal(number_at(seen, "risen/port_rcv_errors"), 2);
    assert_int_equal(json_object_size(at(seen, "risen")), 1);
    assert_int_equal(number_at(seen, "errors/port_rcv_errors"), 7);
    assert_int_equal(number_at(seen, "errors/symbol_error"), 3);
}

/* A refusal of a path that is better than the one in use. */
TEST(each_reason__has_its_finding)
{
    for (const struct finding *reason = finding_find(FIRST_REASON); reason->code; reason++) {
        json_t *facts = machine_good();
        char value[256];

        snprintf(value, sizeof(value),
                 "{'result': 'proven', 'text': '', 'path': 'peermem', 'refused': [{'path': "
                 "'dmabuf', 'slug': '%s', 'text': 'words of the library'}]}",
                 reason->code);
        machine_set(facts, PROOF, value);
        assert_found(facts, reason->code, "words of the library (cuda 0 with mlx5_0).");
    }
}

TEST(each_code__has_a_state)
{
    for (const struct finding *finding = all_findings; strcmp(finding->code, FIRST_REASON);
         finding++) {
        size_t i = 0;

        if (!strncmp(finding->code, "peer-", 5)) /* tool_peer has their states */
            continue;
        while (i < STATES && strcmp(states[i].code, finding->code))
            i++;
        if (i == STATES)
            fail_msg("no state of this test has %s", finding->code);
    }
}

TEST(each_code__is_unique_and_whole)
{
    for (const struct finding *finding = all_findings; finding->code; finding++) {
        assert_ptr_equal(finding_find(finding->code), finding);
        assert_true(strlen(finding->title) > 10 && strlen(finding->title) < 80);
        assert_true(strlen(finding->remedy) > 10);
        assert_true(strlen(finding->background) > 60);
    }
}

/* ---- states without a finding ----------------------------------------------------------- */

#define assert_not_found(code, ...)                                                                \
    do {                                                                                           \
        struct state state_ = {code, {__VA_ARGS__}, NULL};                                         \
        json_t *facts_ = machine_of(&state_), *findings_ = judged(facts_);                         \
                                                                                                   \
        if (doc_find(findings_, "code", code))                                                     \
            fail_msg("%s", json_dumps(findings_, JSON_INDENT(2)));                                 \
    } while (0)

TEST(setting_without_consequence__no_finding)
{
    /* A config file alone proves nothing. */
    assert_not_found("kernel-option-off", {"kernel/options/CONFIG_PCI_P2PDMA", "'n'"});
    /* Closed modules, and the device exports nevertheless. */
    assert_not_found("nvidia-closed-modules", {"nvidia/open_modules", "false"});
    /* One node: no pages migrate between nodes. */
    assert_not_found("numa-balancing", {"kernel/numa_balancing", "1"}, {"kernel/numa_nodes", "1"});
    /* A low limit that is not enforced, or that no NIC is subject to. */
    assert_not_found("memlock-low", {"process/memlock", "65536"}, {"process/ipc_lock", "true"});
    assert_not_found("memlock-low", {"process/memlock", "65536"}, {"fabrics", "[]"});
    /* Huge pages are available if reserved. */
    assert_not_found("huge-pages-off", {"kernel/transparent_huge_pages", "'[never]'"},
                     {"kernel/huge_pages", "8"});
    /* A redirecting bridge above both is on no path between them. */
    assert_not_found("acs-redirects", {"topology/bridges/0000:40:01.0/acs_redirect", "true"});
    /* Peer memory is no loss if dmabuf is in use. */
    assert_not_found("no-peer-memory",
                     {GPU "paths", "{'dmabuf': {'usable': true}, 'peermem': {'usable': false, "
                                   "'slug': 'no-peer-memory', 'text': 'none'}}"});
    /* The CPU's fabric fails: this concerns no NIC. */
    assert_not_found("loopback-failed",
                     {"fabrics/0/memory/0/proof", "{'result': 'failed', 'text': 'x'}"});
    /* All of its configuration was read, and there is no more of it. */
    assert_not_found("not-root", {"topology/bridges/0000:40:01.0/acs_redirect", "null"},
                     {"topology/bridges/0000:40:01.0/config_bytes", "256"});
}

/* Without a registration the foreseen reasons are reported. */
TEST(no_proof__predicted_reasons_are_reported)
{
    json_t *facts = machine_good();

    machine_set(facts, PROOF, "null");
    machine_set(facts, GPU "best", "'peermem'");
    machine_set(facts, GPU "paths",
                "{'dmabuf': {'usable': false, 'slug': 'nic-imports-no-dmabuf', 'text': 'words'}, "
                "'peermem': {'usable': true}}");
    assert_found(facts, "nic-imports-no-dmabuf", "words (cuda 0 with mlx5_0).");
}

TEST(many_pairs__one_finding_that_counts)
{
    json_t *facts = machine_good(), *memory = json_of("[]"), *findings;
    size_t count = 0, i;
    json_t *finding;

    for (int device = 0; device < 16; device++)
        json_array_append_new(memory,
                              json_pack("{s:s, s:i, s:b, s:s, s:{s:{s:b, s:s, s:s}}}", "iface",
                                        "cuda", "device", device, "simulated", 0, "best",
                                        device ? "none" : "dmabuf", "paths", "dmabuf", "usable", 0,
                                        "slug", "no-dmabuf-export", "text", "words"));
    json_object_set_new(json_array_get(json_object_get(facts, "fabrics"), 1), "memory", memory);
    findings = judged(facts);
    json_array_foreach(findings, i, finding)
        count += !strcmp(doc_words(finding, "code"), "no-dmabuf-export");
    assert_int_equal(count, 1);
    assert_non_null(
        strstr(doc_words(doc_find(findings, "code", "no-dmabuf-export"), "text"), "more"));
}

/* ---- pairs and verdict ------------------------------------------------------------------ */

/* Both libraries offer the NIC: the pair shows the better of the two. */
static json_t *machine_with_two_libraries(void)
{
    json_t *facts = machine_good(), *fabrics = json_object_get(facts, "fabrics");
    json_t *other = json_deep_copy(json_array_get(fabrics, 1));

    json_object_set_new(other, "fabric", json_string("verbs;ofi_rxm"));
    json_object_set_new(other, "provider", json_string("ofi"));
    json_array_insert_new(fabrics, 0, other);
    return facts;
}

TEST(pair__offered_twice__the_better_path_stands)
{
    json_t *facts = machine_with_two_libraries(), *pairs;

    machine_set(facts, "fabrics/0/memory/1/best", "'none'");
    machine_set(facts, "fabrics/0/memory/1/proof", "null");
    pairs = tool_keep(paths_pairs(facts));
    assert_int_equal(json_array_size(pairs), 1);
    assert_string_equal(doc_words(json_array_get(pairs, 0), "fabric"), "mlx5_0");
    assert_string_equal(doc_words(json_array_get(pairs, 0), "path"), "dmabuf");
    assert_string_equal(doc_words(json_array_get(pairs, 0), "distance"), "PIX");
}

TEST(one_library_of_two_fails__no_finding)
{
    json_t *facts = machine_with_two_libraries(), *findings;

    machine_set(facts, "fabrics/0/memory/0/proof", "{'result': 'failed', 'text': 'x'}");
    machine_set(facts, "fabrics/0/memory/1/proof", "{'result': 'failed', 'text': 'x'}");
    findings = judged(facts);
    assert_int_equal(json_array_size(findings), 0);
    machine_set(facts, "fabrics/0/opened", "false");
    machine_set(facts, "fabrics/0/memory", "[]");
    findings = judged(facts);
    assert_int_equal(json_array_size(findings), 0);
}

TEST(wrong_bytes_of_any_library__reported)
{
    json_t *facts = machine_with_two_libraries();

    machine_set(facts, "fabrics/0/memory/1/proof",
                "{'result': 'wrong-bytes', 'text': 'byte 1', 'path': 'dmabuf'}");
    assert_found(facts, "loopback-wrong-bytes", "cuda memory over verbs;ofi_rxm: byte 1.");
}

/* A proof's process executes this program with arguments that it does not accept, so it ends at
 * once. */
TEST(proof__its_process_ends_before_it_begins__the_pairs_are_untried)
{
    json_t *facts = machine_good();

    machine_set(facts, "fabrics/1/checks", "'verbs:mlx5_0'");
    proof_run(facts, 60);
    assert_found(facts, "loopback-untried", "mlx5_0 ended with");
}

#define STOPPED(result)                                                                            \
    "{'result': '" result "', 'text': 'x', 'path': null, 'stopped': 'mlx5_0 hung'}"

/* The library that represents no pair of the NIC, and one way after the proof. */
TEST(one_library_of_two_hangs__no_finding)
{
    json_t *facts = machine_with_two_libraries();

    machine_set(facts, "fabrics/0/memory/0/proof", STOPPED("failed"));
    machine_set(facts, "fabrics/0/memory/1/proof", STOPPED("untried"));
    assert_int_equal(json_array_size(judged(facts)), 0);
}

TEST(nic_hangs_after_host_memory__the_device_is_named)
{
    json_t *facts = machine_good();

    machine_set(facts, PROOF, STOPPED("failed"));
    assert_found(facts, "loopback-failed", "mlx5_0 hung with memory of cuda 0.");
    assert_int_equal(json_array_size(judged(facts)), 1);
    machine_set(facts, PROOF, STOPPED("untried"));
    assert_found(facts, "loopback-untried", "mlx5_0 hung; not tested: cuda 0.");
}

TEST(findings__worst_comes_first)
{
    struct state mixed = {"",
                          {{"kernel/container", "'x'"},
                           {"kernel/numa_balancing", "1"},
                           {"devices", "[]"},
                           {"gpus", "[]"}},
                          ""};
    json_t *facts = machine_of(&mixed), *findings = judged(facts);
    size_t last = json_array_size(findings) - 1;

    assert_string_equal(doc_words(json_array_get(findings, 0), "severity"), "broken");
    assert_string_equal(doc_words(json_array_get(findings, last), "severity"), "note");
    assert_int_equal(findings_worst(findings), SEVERITY_BROKEN);
}

static void assert_summary(json_t *facts, const char *words)
{
    json_t *findings = judged(facts), *summary = tool_keep(doctor_summary(facts, findings));

    if (!strstr(json_string_value(summary), words))
        fail_msg("\"%s\" lacks \"%s\"", json_string_value(summary), words);
}

TEST(summary__says_what_an_operator_asks)
{
    struct state unproven = {"", {{PROOF, "null"}}, ""};
    struct state slow = {"", {{GPU "best", "'none'"}, {PROOF, "null"}}, ""};
    struct state none = {"", {{"fabrics", "[]"}}, ""};
    struct state simulated = {"", {{GPU "simulated", "true"}}, ""};

    assert_summary(machine_of(&unproven),
                   "GPUDirect has a path for 1 of 1 pairs of device and NIC, "
                   "not proven by a transfer");
    assert_summary(machine_of(&slow), "No GPUDirect here: the CPU moves");
    assert_summary(machine_of(&none), "GPUDirect is broken here: there is no RDMA device.");
    assert_summary(machine_of(&simulated), "bytes. The devices are simulated.");
}

TEST_MAIN()
