/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg doctor and topo, run as users run them: on simulated CUDA devices, RDMA devices of a
 * preloaded library, and a simulated tree of /sys, /proc and /dev. The tree is a good machine; each
 * state changes one thing of it, or of the RDMA devices. */
#include "tests/support/code_filters.h"
#include "tests/tools/doctor_tree.h"

#include <sys/wait.h>
#include <unistd.h>

static json_t *pair_of(const json_t *document, const char *nic, const char *device)
{
    json_t *pair;
    size_t i;

    json_array_foreach(list_at(document, "facts/pairs"), i, pair)
        if (!strcmp(words_at(pair, "nic"), nic) && !strcmp(words_at(pair, "device"), device))
            return pair;
    fail_msg("no pair %s, %s", nic, device);
    return NULL;
}

/* ---- a good machine's report ------------------------------------------------------------ */

/* The test's real machine decides which monitors this process may use. */
static bool depends_on_the_test_machine(const json_t *finding)
{
    return !strcmp(words_at(finding, "code"), "userfaultfd-denied") ||
           !strcmp(words_at(finding, "code"), "memhooks-impossible");
}

TEST(good__every_pair_proven_and_only_notes)
{
    json_t *found, *described;
    int status;
    size_t i;

    doctor_begin();
    described = doctor_document(&status);
    json_array_foreach(list_at(described, "findings"), i, found)
        if (strcmp(words_at(found, "severity"), "note") && !depends_on_the_test_machine(found))
            fail_msg("%s", json_dumps(found, JSON_INDENT(2)));
    if (!doctor_finding(described, "userfaultfd-denied") &&
        !doctor_finding(described, "memhooks-impossible")) {
        assert_int_equal(status, 0);
        assert_string_equal(words_at(described, "verdict"), "good");
    }
    assert_non_null(doctor_finding(described, "simulated"));
    list_at(with(list_at(described, "facts/fabric_libraries"), "provider", "verbs"), "lacks");
    assert_int_equal(json_array_size(list_at(described, "facts/pairs")), 4);
    for (int nic = 0; nic < 2; nic++)
        for (int gpu = 0; gpu < 2; gpu++) {
            json_t *pair = pair_of(described, nic ? "mlx5_1" : "mlx5_0", gpu ? "cuda 1" : "cuda 0");

            assert_string_equal(words_at(pair, "path"), "dmabuf");
            assert_string_equal(words_at(pair, "proof/result"), "proven");
            assert_true(json_is_true(json_object_get(pair, "simulated")));
            assert_string_equal(words_at(pair, "distance"), nic == gpu ? "PIX" : "NODE");
        }
}

/* Of several fabrics over TCP, on several interfaces, one is proven: the one that an application
 * gets that asks libfabric for tcp, whose name differs between libfabric 1 and 2. */
TEST(tcp__the_first_offered__proven_alone)
{
    const json_t *fabric, *proof;
    json_t *described;
    int status, met = 0;
    size_t i;

    doctor_begin();
    test_setenv("FI_PROVIDER", "tcp,ofi_rxm");
    described = doctor_document(&status);
    json_array_foreach(list_at(described, "facts/fabrics"), i, fabric) {
        if (strncmp(words_at(fabric, "fabric"), "tcp", 3))
            continue;
        proof = json_object_get(json_array_get(list_at(fabric, "memory"), 0), "proof");
        assert_int_equal(json_is_object(proof), met == 0);
        if (!met++)
            assert_string_equal(words_at(proof, "result"), "proven");
    }
    test_finish();
    if (!met)
        test_skip("libfabric offers no tcp here");
}

TEST(no_proof__nothing_is_transferred)
{
    struct tool tool;

    doctor_begin();
    test_setenv("HMREG_FAKE_NIC", "flip");
    tool = doctor_run("--no-proof", NULL);
    assert_says(tool.out, "not proven by a transfer");
    assert_silent(tool.out, "wrong-bytes");
    assert_says(tool.out, "dmabuf ?");
}

/* The proof's result of a fabric's memory. */
static const json_t *proof_at(const json_t *document, const char *fabric, size_t memory)
{
    const json_t *found = with(list_at(document, "facts/fabrics"), "fabric", fabric);

    return json_object_get(json_array_get(list_at(found, "memory"), memory), "proof");
}

/* One NIC of four, in each place: it alone is without a proof, and has one finding. */
static void check_sick(const char *state, const char *did)
{
    static const char *const names[] = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"};
    char text[128], found[256], nics[128];

    doctor_begin();
    for (int sick = 0; sick < 4; sick++) {
        struct tool tool;
        json_t *described, *finding;
        size_t i, findings = 0;

        nics[0] = '\0';
        for (int nic = 0; nic < 4; nic++)
            sprintf(strchr(nics, '\0'), "%s%s:%s", nic ? "," : "", names[nic],
                    nic == sick ? state : "good");
        test_setenv("HMREG_FAKE_NICS", nics);
        tool_preload_nic(true);
        tool = tool_run("doctor", "--json", "--patience", TOOL_PATIENCE_HANGS);
        tool_preload_nic(false);
        assert_int_equal(tool.status, 2);
        described = tool_keep(json_loads(tool.out, 0, NULL));
        snprintf(text, sizeof(text), "%s %s", names[sick], did);
        for (int nic = 0; nic < 4; nic++)
            for (size_t memory = 0; memory < 3; memory++) {
                const json_t *proof = proof_at(described, names[nic], memory);

                snprintf(found, sizeof(found), "%s%s", memory ? "not tested: " : "", text);
                assert_string_equal(words_at(proof, "result"), nic != sick ? "proven"
                                                               : memory    ? "untried"
                                                                           : "failed");
                if (nic == sick)
                    assert_string_equal(words_at(proof, "text"), found);
            }
        snprintf(found, sizeof(found), "%s with host memory; not tested: cuda 0, cuda 1.", text);
        json_array_foreach(list_at(described, "findings"), i, finding)
            if (!strncmp(words_at(finding, "code"), "loopback-", 9)) {
                assert_string_equal(words_at(finding, "code"), "loopback-failed");
                assert_string_equal(words_at(finding, "text"), found);
                findings++;
            }
        assert_int_equal(findings, 1);
    }
}

TEST(one_nic_of_four_hangs__the_others_are_proven_and_it_has_one_finding)
{
    check_sick("hang", "hung after " TOOL_PATIENCE_HANGS " s");
}

TEST(one_nic_of_four_crashes__the_others_are_proven_and_it_has_one_finding)
{
    check_sick("crash", "crashed with signal 9 (Killed)");
}

/* libfabric may open the NIC too, whatever it is asked for. */
TEST(one_nic_ends_the_process_that_opens_it__the_other_is_proven)
{
    json_t *described, *finding;
    const char *why;
    int status;

    doctor_begin();
    test_setenv("HMREG_FAKE_NICS", "mlx5_0:fatal,mlx5_1");
    described = doctor_document(&status);
    finding = doctor_finding(described, "nic-not-opened");
    why =
        words_at(with(list_at(described, "facts/fabric_libraries"), "library", "libfabric"), "why");
    assert_int_equal(status, 1);
    assert_non_null(finding);
    assert_string_equal(words_at(finding, "text"),
                        "mlx5_0 could not be opened: a process that opened it crashed with signal "
                        "9 (Killed).");
    for (size_t memory = 0; memory < 3; memory++)
        assert_string_equal(words_at(proof_at(described, "mlx5_1", memory), "result"), "proven");
    if (why[0])
        assert_string_equal(why,
                            "a process that looked for its fabrics crashed with signal 9 (Killed)");
}

TEST(no_nic_opens__the_summary_says_that_devices_are_simulated)
{
    json_t *described;
    int status;

    doctor_begin();
    test_setenv("HMREG_FAKE_NICS", "mlx5_0:closed");
    described = doctor_examined("--no-proof", &status);
    assert_int_equal(json_array_size(list_at(described, "facts/pairs")), 0);
    assert_says(words_at(described, "summary"), " The devices are simulated.");
}

/* libfabric's verbs has the NICs the other way round. */
TEST(pairs__of_several_nics__as_libibverbs_lists_them)
{
    static const char *const names[] = {"m_0", "m_1", "m_2"};
    json_t *described;
    int status;

    doctor_begin();
    test_setenv("FI_PROVIDER", "verbs");
    test_setenv("HMREG_FAKE_NICS", "m_0,m_1,m_2");
    described = doctor_examined("--no-proof", &status);
    if (!with(list_at(described, "facts/fabrics"), "provider", "ofi"))
        test_skip("libfabric lists no NIC of libibverbs here");
    for (size_t nic = 0; nic < 3; nic++)
        assert_string_equal(
            words_at(json_array_get(list_at(described, "facts/pairs"), 2 * nic), "nic"),
            names[nic]);
}

/* One finding of all pairs, below that of host memory, and no more lines than a screen has. */
TEST(eight_by_eight_fail__one_finding_and_60_lines)
{
    struct tool tool;
    size_t lines = 0;

    doctor_begin();
    test_setenv("HMREG_FAKE_CUDA_DEVICES", "8");
    test_setenv("HMREG_FAKE_NICS", "m_0,m_1,m_2,m_3,m_4,m_5,m_6,m_7");
    test_setenv("HMREG_FAKE_NIC", "error");
    tool = doctor_run(NULL, NULL);
    for (const char *at = tool.out; (at = strchr(at, '\n')); at++)
        lines++;
    assert_true(lines <= 60);
    assert_says(tool.out, "  1. loopback-failed (broken)\n     Host memory over m_0, m_1");
    assert_says(tool.out, "so: loopback-failed (broken): Every pair of device and NIC, by dmabuf");
    assert_says(tool.out, "  all pairs: dmabuf FAILED\n  devices: cuda 0, cuda 1, ");
    assert_silent(strstr(tool.out, "so: ") + 1, "so: ");
}

TEST(device_file__owner_group_and_mode)
{
    json_t *described;
    int status;

    doctor_begin();
    described = doctor_examined("--no-proof", &status);
    assert_int_equal(strlen(words_at(described, "facts/nics/0/file_access/mode")), 4);
    assert_string_not_equal(words_at(described, "facts/nics/0/file_access/owner"), "");
    assert_string_not_equal(words_at(described, "facts/nics/0/file_access/group"), "");
    assert_int_equal(number_at(described, "facts/process/uid"), geteuid());
}

/* All proofs have come; only the process's end has not. */
TEST(process_that_never_ends__is_stopped_and_its_proofs_count)
{
    struct tool tool;

    doctor_begin();
    test_setenv("HMREG_FAKE_NIC", "stay");
    tool = doctor_run("--patience", TOOL_PATIENCE_HANGS);
    assert_says(tool.out, "GPUDirect works for");
    assert_silent(tool.out, "loopback-untried");
}

TEST(text__verdict_first_then_what_to_do_then_the_matrix)
{
    static const char *const parts[] = {"\nBROKEN\n", "\nWhat to do\n", "\nPath of each device's",
                                        "\nWorth knowing\n", "\nDetails\n"};
    struct tool tool;
    const char *at;

    doctor_begin();
    test_setenv("HMREG_FAKE_NIC", "flip");
    tool = doctor_run(NULL, NULL);
    assert_int_equal(tool.status, 2);
    at = tool.out;
    for (size_t i = 0; i < 5; i++) {
        assert_says(at, parts[i]);
        at = strstr(at, parts[i]);
    }
    assert_says(tool.out, "cuda 0, simulated  dmabuf WRONG  dmabuf WRONG");
    assert_says(tool.out, "files read below /tmp/");
    assert_says(tool.out, "inside this process, without a fabric; proven: host, cuda 0, cuda 1");
    assert_true(longest_line(tool.out) <= 100);
}

/* ---- ways of path dmabuf ---------------------------------------------------------------- */

static void assert_way(const json_t *described, const char *way, const char *result,
                       const char *words)
{
    const json_t *pair = pair_of(described, "mlx5_0", "cuda 0");
    const json_t *found = with(list_at(pair, "proof/ways"), "way", way);

    assert_string_equal(words_at(found, "result"), result);
    assert_says(words_at(found, "text"), words);
}

TEST(ways__usual_nic__plain_moves_bytes_and_pcie_only_registers)
{
    json_t *described;
    int status;

    doctor_begin();
    described = doctor_document(&status);
    assert_way(described, "plain", "proven", "written, read back");
    assert_way(described, "pcie", "failed", "the RMA write: the completion reports");
    assert_way(described, "data-direct", "refused", "data-direct: mlx5_0 is not an mlx5 NIC");
    assert_way(described, "data-direct-pcie", "refused", "data-direct-pcie: mlx5_0");
    assert_string_equal(words_at(pair_of(described, "mlx5_0", "cuda 0"), "proof/way"), "plain");
    assert_null(doctor_finding(described, "other-way-works"));
}

TEST(ways__nic_with_data_direct__taken_and_proven)
{
    json_t *described;
    int status;

    doctor_begin();
    test_setenv("HMREG_FAKE_MLX5", getenv("MLX5_LIBRARY"));
    described = doctor_document(&status);
    assert_way(described, "data-direct", "refused", "has no data direct");
    test_setenv("HMREG_FAKE_DATA_DIRECT", "1");
    test_setenv("HMREG_FAKE_CUDA_COHERENT", "1");
    described = doctor_document(&status);
    assert_way(described, "plain", "proven", "compared");
    assert_way(described, "data-direct", "proven", "compared");
    assert_way(described, "data-direct-pcie", "proven", "compared");
    assert_way(described, "pcie", "failed", "the RMA write");
    assert_string_equal(words_at(pair_of(described, "mlx5_0", "cuda 0"), "proof/way"),
                        "data-direct-pcie");
    assert_string_equal(words_at(pair_of(described, "mlx5_0", "cuda 1"), "proof/way"),
                        "data-direct");
}

TEST(ways__the_one_taken_fails__one_that_works_is_named)
{
    struct tool tool;

    doctor_begin();
    test_setenv("HMREG_DMABUF_WAYS", "pcie");
    tool = doctor_run(NULL, NULL);
    assert_int_equal(tool.status, 2);
    assert_says(tool.out, "dmabuf by pcie FAILED");
    assert_says(tool.out, "other-way-works (degraded)");
    assert_says(tool.out, "Every pair of device and NIC: way plain of path dmabuf moves the bytes");
    assert_says(tool.out, "(cuda 0 with mlx5_0 and 3");
    assert_says(tool.out, "bytes move by plain; fails by pcie; refused data-direct");
    assert_true(longest_line(tool.out) <= 100);
}

/* ---- each state and its finding --------------------------------------------------------- */

static void small_window(void)
{
    tree_file("/sys/devices/" GPU_0 "/resource",
              "0xc0000000 0xcfffffff 0x14220c\n0 0 0\n0 0 0\n0 0 0\n0 0 0\n0 0 0\n0 0 0\n"
              "0x0000200000000000 0x00002007ffffffff 0x14220c\n"); /* of virtual functions */
}

static void other_gpu(const char *vendor)
{
    tree_pci("pci0001:80/0001:80:02.0/0001:91:00.0", "0x038000\n", vendor);
}

static void unbound_gpu(void)
{
    other_gpu("0x1002\n");
}

static void gpu_without_files(void)
{
    other_gpu("0x1002\n");
    tree_folder("/sys/bus/pci/drivers/amdgpu");
    tree_link("/sys/devices/pci0001:80/0001:80:02.0/0001:91:00.0/driver",
              "../../../../bus/pci/drivers/amdgpu");
}

static void gpu_without_runtime(void)
{
    gpu_without_files();
    tree_file("/dev/kfd", "");
    tree_file("/dev/dri/renderD128", "");
}

static void nic_without_file(void)
{
    tree_remove("/dev/infiniband/uverbs_mlx5_1");
}

static void port_down(void)
{
    tree_file("/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
}

static void far_nic(void)
{
    tree_remove("/sys/class/infiniband/mlx5_1");
    tree_file("/sys/devices/" GPU_1 "/numa_node", "1\n");
}

static void redirecting_bridge(void)
{
    doctor_bridge(SWITCH "0000:3f:01.1", 0);
    tree_remove("/sys/bus/pci/devices/0000:3f:01.0");
    doctor_bridge(SWITCH "0000:3f:01.0", 0x04);
}

static void translating_iommu(void)
{
    tree_file("/sys/devices/" NIC_0 "/iommu_group/type", "DMA-FQ\n");
}

static void low_memlock(void)
{
    tree_file("/proc/self/limits", "Max locked memory         8388608    8388608    bytes\n");
}

static void numa_balancing(void)
{
    tree_file("/proc/sys/kernel/numa_balancing", "1\n");
}

static void no_huge_pages(void)
{
    tree_file("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    tree_file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
}

static void a_container(void)
{
    tree_file("/run/.containerenv", "");
}

static void option_off(void)
{
    tree_file(CONFIG, "# CONFIG_PCI_P2PDMA is not set\nCONFIG_DMABUF_MOVE_NOTIFY=y\n");
}

static void no_nics(void)
{
    test_setenv("HMREG_FAKE_NICS", NULL);
    tree_remove("/sys/class/infiniband");
}

static void attach_refused(void)
{
    test_setenv("HMREG_FAKE_ATTACH_REFUSED", "1");
}

static void window_full(void)
{
    test_setenv("HMREG_FAKE_BAR1", "4096");
}

static void unreadable_bridge(void)
{
    tree_file("/sys/devices/" SWITCH "0000:3f:00.0/config", "as a user reads it: short");
}

static const struct {
    const char *code;
    int status;      /* at least */
    const char *nic; /* NULL: without proof */
    void (*make)(void);
    const char *words;
} states[] = {
    {"no-nic", 2, NULL, no_nics, "libibverbs: the kernel lists no RDMA device"},
    {"no-path", 2, "no-dmabuf", NULL,
     "for every pair of device and NIC. Refused: dmabuf (nic-imports-no-dmabuf), peermem ("},
    {"nic-imports-no-dmabuf", 2, "no-dmabuf", NULL, "imports no dmabufs"},
    {"no-peer-memory", 2, "no-dmabuf", NULL, "no client for peer memory of cuda"},
    {"dmabuf-import-failed", 2, "refuse", NULL, "error 524"},
    {"dmabuf-import-failed", 2, "", attach_refused, "error 524"},
    {"dmabuf-import-failed", 2, "", window_full, "(BAR1) is full"},
    {"kernel-option-off", 2, "refuse", option_off, "CONFIG_PCI_P2PDMA"},
    {"loopback-failed", 2, "error", NULL, ": the RMA write: the completion reports: remote"},
    {"loopback-failed", 2, "crash", NULL, "mlx5_0, mlx5_1 crashed with signal 9 (Killed)"},
    {"loopback-wrong-bytes", 2, "flip", NULL, "after the RMA write: byte 4711 of 65536"},
    {"loopback-untried", 1, "no-qp", NULL,
     "no queue pair of type RC: Cannot allocate memory (ENOMEM)"},
    {"loopback-untried", 1, "down", NULL, "none of its 1 ports is active"},
    {"no-port", 2, "down", NULL, "No port is active on mlx5_0, mlx5_1."},
    {"nic-not-opened", 2, "closed", NULL, "could not be opened: Permission denied"},
    {"mr-count-low", 1, "few", NULL, "mlx5_0, mlx5_1 can have 100 regions"},
    {"mr-size-low", 1, "small", NULL, "its regions have up to 1 MiB"},
    {"bar-small", 1, NULL, small_window, "cuda 0: its BAR covers 256 MiB of its 16 GiB of memory"},
    {"gpu-no-driver", 1, NULL, unbound_gpu, "AMD GPU 0001:91:00.0: bound to no driver; rocr"},
    {"gpu-no-node", 1, NULL, gpu_without_files,
     "/dev/kfd is missing, /dev/dri/renderD* is missing"},
    {"gpu-no-runtime", 1, NULL, gpu_without_runtime, "AMD GPU 0001:91:00.0: its driver is loaded"},
    {"nic-no-node", 2, NULL, nic_without_file, "mlx5_1: the file /dev/infiniband/uverbs"},
    {"port-down", 1, NULL, port_down, "No port is active on mlx5_1."},
    {"far-nic", 1, NULL, far_nic, "(SYS) from cuda 1."},
    {"acs-redirects", 1, NULL, redirecting_bridge, "is on at 0000:3f:01.0,"},
    {"iommu-translates", 1, NULL, translating_iommu, "the addresses of mlx5_0."},
    {"memlock-low", 1, NULL, low_memlock,
     "ulimit -l is 8 MiB; with 2 RDMA devices, registrations larger than 4 MiB fail"},
    {"numa-balancing", 1, NULL, numa_balancing, "2 NUMA nodes"},
    {"huge-pages-off", 0, NULL, no_huge_pages, "no huge pages are reserved"},
    {"container", 0, NULL, a_container, "container"},
};
#define STATES (sizeof(states) / sizeof(states[0]))

/* The finding is absent on the good machine, and present in its state, with these words and this
 * verdict. */
TEST(each_state__is_found_and_only_then)
{
    json_t *good, *bad, *found;
    int status;

    doctor_begin();
    good = json_incref(doctor_document(&status));
    test_finish();
    for (size_t i = 0; i < STATES; i++) {
        doctor_begin();
        if (states[i].nic)
            test_setenv("HMREG_FAKE_NIC", states[i].nic);
        if (states[i].make)
            states[i].make();
        bad = doctor_examined(states[i].nic ? NULL : "--no-proof", &status);
        found = doctor_finding(bad, states[i].code);
        if (!found)
            fail_msg("no %s in:\n%s", states[i].code,
                     json_dumps(json_object_get(bad, "findings"), JSON_INDENT(2)));
        assert_null(doctor_finding(good, states[i].code));
        assert_says(words_at(found, "text"), states[i].words);
        if (status < states[i].status)
            fail_msg("%s: status %d", states[i].code, status);
        test_finish();
    }
    json_decref(good);
}

/* tcp can move what the NIC cannot: slower, but not broken. */
TEST(no_path_but_the_cpu__degraded)
{
    json_t *described;
    int status;

    doctor_begin();
    test_setenv("HMREG_FAKE_CUDA_EXACT", NULL); /* the CPU cannot map such a one */
    test_setenv("HMREG_FAKE_NIC", "no-dmabuf");
    test_setenv("FI_PROVIDER", "tcp");
    described = doctor_document(&status);
    assert_non_null(doctor_finding(described, "path-through-cpu"));
    assert_null(doctor_finding(described, "no-path"));
    assert_int_equal(status, 1);
    assert_says(words_at(described, "summary"), "No GPUDirect here: the CPU moves");
}

/* The reasons once: in the details, which neither --brief nor --json has. */
TEST(no_device__broken_with_each_runtimes_reason)
{
    json_t *described, *found;
    struct tool tool;
    int status;

    doctor_begin();
    test_setenv("HMREG_IFACES", "system");
    described = doctor_examined("--no-proof", &status);
    found = doctor_finding(described, "no-device");
    assert_int_equal(status, 2);
    assert_non_null(found);
    assert_says(words_at(found, "text"), "not cuda, rocr, ze. hmreg info says why.");
    tool = tool_run("doctor", "--no-proof");
    assert_says(strstr(tool.out, "Details"), "not usable: ");
}

/* Closed modules are a finding if the device exports nothing: an older CUDA here. */
TEST(closed_modules__only_where_nothing_is_exported)
{
    json_t *described;
    int status;

    doctor_begin();
    tree_file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  1\n");
    described = doctor_examined("--no-proof", &status);
    assert_null(doctor_finding(described, "nvidia-closed-modules"));
    test_setenv("LD_LIBRARY_PATH", getenv("OLD_CUDA"));
    described = doctor_examined("--no-proof", &status);
    assert_non_null(doctor_finding(described, "nvidia-closed-modules"));
    assert_non_null(doctor_finding(described, "no-dmabuf-export"));
}

/* A file name with libcuda's version, as NVIDIA installs it. */
TEST(versions_differ__driver_mismatch)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    char command[2048], folder[300];
    json_t *described, *found;
    int status;

    doctor_begin();
    tree_file("/sys/module/nvidia/version", "550.54.15\n");
    tree_folder("/lib");
    snprintf(folder, sizeof(folder), "%s/lib", getenv("HMREG_DOCTOR_ROOT"));
    snprintf(command, sizeof(command),
             "cp %s/libcuda.so.1 %s/libcuda.so.535.1.2 && ln -s libcuda.so.535.1.2 "
             "%s/libcuda.so.1",
             path, folder, folder);
    assert_int_equal(system(command), 0);
    test_setenv("LD_LIBRARY_PATH", folder);
    described = doctor_examined("--no-proof", &status);
    found = doctor_finding(described, "driver-mismatch");
    assert_non_null(found);
    assert_says(words_at(found, "text"), "has version 550.54.15, libcuda has 535.1.2.");
}

/* A container's filter: refuses the call and the device file's ioctl. */
static void run_filtered(uint32_t call, uint32_t file)
{
    if (!code_filter_userfaultfd(call, file))
        _exit(1);
    if (!fork()) {
        execl(getenv("HMREG_TOOL"), "hmreg", "doctor", "--json", NULL);
        _exit(127);
    }
    wait(NULL);
}

static void refuse_userfaultfd(void)
{
    run_filtered(SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | EPERM);
}

static void kill_for_userfaultfd(void)
{
    run_filtered(SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO | EPERM);
}

static void assert_denied(void (*run)(void), const char *words)
{
    char *said = output_of(run, 0);
    json_t *described = tool_keep(json_loads(said, 0, NULL)), *found;

    assert_non_null(described);
    found = doctor_finding(described, "userfaultfd-denied");
    assert_non_null(found);
    assert_says(words_at(found, "text"), words);
}

TEST(call_refused__userfaultfd_denied)
{
    assert_denied(refuse_userfaultfd, "(seccomp filter: in force, /dev/userfaultfd: ");
}

/* The filter kills a child of the doctor, not the doctor. */
TEST(call_kills__userfaultfd_denied)
{
    assert_denied(kill_for_userfaultfd, "kills the process for calling userfaultfd(2)");
}

TEST(acs_unreadable__unknown_and_root_is_named)
{
    static const char plain[256]; /* of a bridge that has no more */
    json_t *described;
    int status;

    doctor_begin();
    unreadable_bridge();
    described = doctor_examined("--no-proof", &status);
    assert_true(json_is_null(at(described, "facts/topology/bridges/0000:3f:00.0/acs_redirect")));
    assert_non_null(
        doctor_finding(described, "not-root")); /* of root too, which may lack the right */
    test_finish();
    doctor_begin();
    tree_bytes("/sys/devices/" SWITCH "0000:3f:00.0/config", plain, sizeof(plain));
    described = doctor_examined("--no-proof", &status);
    assert_true(json_is_null(at(described, "facts/topology/bridges/0000:3f:00.0/acs_redirect")));
    assert_null(doctor_finding(described, "not-root"));
}

/* ---- explaining ------------------------------------------------------------------------- */

TEST(explain__a_code__meaning_and_remedy)
{
    struct tool tool = tool_run("doctor", "--explain", "no-peer-memory");

    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "no-peer-memory (degraded): the kernel has no peer memory client");
    assert_says(tool.out, "\nWhat it means\n");
    assert_says(tool.out, "\nWhat to do\n");
    assert_says(tool.out, "modprobe nvidia-peermem");
    assert_true(longest_line(tool.out) <= 100);
}

TEST(explain__no_code__lists_them)
{
    struct tool tool = tool_run("doctor", "--explain", "fly"), list;

    assert_int_equal(tool.status, 3);
    assert_says(tool.err, "--explain fly: no such code; accepted are");
    assert_says(tool.out, "loopback-wrong-bytes");
    list = tool_run("doctor", "--explain", "list");
    assert_int_equal(list.status, 0);
    assert_string_equal(list.out, tool.out);
}

TEST(explain__nearly_a_code_or_part_of_one__lists_those_near)
{
    struct tool tool = tool_run("doctor", "--explain", "memlok-low");

    assert_int_equal(tool.status, 3);
    assert_says(tool.err, "--explain memlok-low: no such code; similar codes are:");
    assert_says(tool.out, "memlock-low");
    assert_silent(tool.out, "no-device");
    tool = tool_run("doctor", "--explain", "fabric-imports-no-dmabufss"); /* the longest code */
    assert_says(tool.err, "similar codes are:");
    tool = tool_run("doctor", "--explain", "memlock");
    assert_int_equal(tool.status, 3);
    assert_says(tool.out, "memlock-low");
    assert_silent(tool.out, "no-device");
}

TEST(wrong_option_or_full_disk__status_3)
{
    struct tool tool = tool_run("doctor", "--fly");
    char command[4096];

    assert_int_equal(tool.status, 3);
    assert_says(tool.err,
                "--fly: no such option; accepted are --explain, --no-proof, --patience, --picture, "
                "--compare, --serve, --peer, --secret, --brief, --openmetrics, --verbose, --json");
    tool = tool_run("doctor", "--explain", "list", "--json");
    assert_int_equal(tool.status, 3);
    assert_says(tool.err, "only one of --explain, --json, --brief, --openmetrics is accepted");
    assert_string_equal(tool.out, "");
    snprintf(command, sizeof(command), "'%s' doctor --explain list >/dev/full 2>&1",
             getenv("HMREG_TOOL"));
    assert_int_equal(system(command), 3 << 8);
}

/* ---- topo ------------------------------------------------------------------------------- */

TEST(topo__draws_the_distances_of_the_tree)
{
    struct tool tool;

    doctor_begin();
    tree_file("/sys/devices/" GPU_1 "/numa_node", "1\n");
    tree_file("/sys/devices/" GPU_0 "/local_cpulist", "0-15,32-47\n");
    tree_file("/sys/devices/system/node/node1/cpulist", "16-31\n"); /* GPU_1 has none of its own */
    tool = tool_run("topo");
    assert_int_equal(tool.status, 0);
    assert_says(
        tool.out,
        "cuda 0  0000:41:00.0  pci0000:40   0-15,32-47    0              device, simulated");
    assert_says(tool.out, "mlx5_0  0000:42:00.0  pci0000:40   unknown       0              nic");
    assert_says(tool.out, "cuda 0  X       SYS     PIX     NODE");
    assert_says(tool.out, "cuda 1  0001:81:01.0  pci0001:80   16-31         1  ");
    assert_says(tool.out, "mlx5_0  PIX     SYS     X       NODE");
    assert_says(tool.out, "PIX       below one PCI switch");
    assert_says(tool.out, "cuda 0  mlx5_0 PIX ");
    assert_says(tool.out, "cuda 1  mlx5_1 ");
    assert_true(longest_line(tool.out) <= 100);
}

TEST_MAIN()
