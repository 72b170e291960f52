/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * What the doctor says of everyday faults: the verdict, the first finding and the length, and each
 * report word for word (doctor_faults.reports). HMREG_TEST_REPORTS names a file to write them to.
 */
#include "tests/tools/machine.h"
#include "tests/tools/tool.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"

#define MOST_LINES   60
#define MOST_CHANGES 4

struct change {
    const char *path, *value;
};

/* ---- machines --------------------------------------------------------------------------- */

static json_t *copy_as(const json_t *object, const char *key, json_t *value)
{
    json_t *copy = json_deep_copy(object);

    json_object_set_new(copy, key, value);
    return copy;
}

static json_t *nic_name(int nic)
{
    return json_sprintf("mlx5_%d", nic);
}

/* The good machine with more of its NIC and of its GPU, each pair proven. */
static json_t *machine_of(int nics, int devices)
{
    json_t *facts = machine_good(), *fabrics = json_object_get(facts, "fabrics");
    json_t *fabric = json_incref(json_array_get(fabrics, 1)),
           *list = json_object_get(facts, "nics");
    json_t *memory = json_object_get(fabric, "memory"), *gpus = json_object_get(facts, "devices");

    for (int device = 1; device < devices; device++) {
        json_array_append_new(memory,
                              copy_as(json_array_get(memory, 1), "device", json_integer(device)));
        json_array_append_new(gpus,
                              copy_as(json_array_get(gpus, 0), "device", json_integer(device)));
    }
    for (int nic = 1; nic < nics; nic++) {
        json_t *copy = copy_as(fabric, "nic", nic_name(nic));

        json_object_set_new(copy, "fabric", nic_name(nic));
        json_array_append_new(fabrics, copy);
        copy = copy_as(json_array_get(list, 0), "name", nic_name(nic));
        json_object_set_new(copy, "file", json_sprintf("/dev/infiniband/uverbs%d", nic));
        json_array_append_new(list, copy);
    }
    json_decref(fabric);
    return facts;
}

/* Sets the proof of each memory of the NIC; nic: -1: of each NIC. */
static void set_proofs(json_t *facts, int nic, bool host, const char *proof)
{
    json_t *fabric, *memory;
    size_t i, k;

    json_array_foreach(json_object_get(facts, "fabrics"), i, fabric)
        if (i && (nic < 0 || (int)i == nic + 1))
            json_array_foreach(json_object_get(fabric, "memory"), k, memory)
                if (k || host)
                    json_object_set_new(memory, "proof", json_of(proof));
}

static void set_ports(json_t *facts, int nic)
{
    json_t *described = json_array_get(json_object_get(facts, "nics"), (size_t)nic);

    json_object_set_new(described, "ports", json_of("[{'port': 1, 'state': 'DOWN'}]"));
    set_proofs(facts, nic, true,
               "{'result': 'untried', 'text': 'none of its 1 ports is active', 'path': null}");
}

/* ---- faults ----------------------------------------------------------------------------- */

static void sick(json_t *facts, int nic)
{
    set_proofs(facts, nic, true,
               "{'result': 'untried', 'text': 'x', 'path': null, 'stopped': 'mlx5_N hung after 3 "
               "s'}");
    json_t *fabric = json_array_get(json_object_get(facts, "fabrics"), (size_t)nic + 1), *memory;
    size_t i;

    json_array_foreach(json_object_get(fabric, "memory"), i, memory) {
        json_t *proof = json_object_get(memory, "proof");

        json_object_set_new(proof, "stopped", json_sprintf("mlx5_%d hung after 3 s", nic));
        if (!i)
            json_object_set_new(proof, "result", json_string("failed"));
    }
}

static void sick_0(json_t *facts)
{
    sick(facts, 0);
}

static void sick_1(json_t *facts)
{
    sick(facts, 1);
}

static void sick_2(json_t *facts)
{
    sick(facts, 2);
}

static void sick_3(json_t *facts)
{
    sick(facts, 3);
}

static void memlock(json_t *facts)
{
    machine_set(facts, "process/memlock", "16384");
    set_proofs(facts, -1, true,
               "{'result': 'failed', 'text': 'host memory was not registered: Cannot allocate "
               "memory', 'errno': 12, 'path': 'dmabuf', 'refused': []}");
}

static void all_ports(json_t *facts)
{
    for (size_t nic = 0; nic < json_array_size(json_object_get(facts, "nics")); nic++)
        set_ports(facts, (int)nic);
}

static void one_port(json_t *facts)
{
    set_ports(facts, 1);
}

static void two_at_once(json_t *facts)
{
    memlock(facts);
    set_ports(facts, 1);
}

static void closed_files(json_t *facts)
{
    json_t *nic, *fabric;
    size_t i;

    json_array_foreach(json_object_get(facts, "nics"), i, nic) {
        json_object_set_new(nic, "file_state", json_string("closed"));
        json_object_set_new(nic, "file_access",
                            json_of("{'owner': 'root', 'group': 'root', 'mode': '0600'}"));
    }
    json_array_foreach(json_object_get(facts, "fabrics"), i, fabric)
        if (i) {
            json_object_set_new(fabric, "opened", json_false());
            json_object_set_new(fabric, "memory", json_array());
            json_object_set_new(fabric, "error",
                                json_of("{'code': -13, 'text': 'Permission denied'}"));
        }
}

static void transfers_fail(json_t *facts)
{
    set_proofs(facts, -1, false,
               "{'result': 'failed', 'text': 'the RMA write: no completion came within 5 s', "
               "'path': 'dmabuf', 'refused': []}");
}

static void host_fails_too(json_t *facts)
{
    set_proofs(facts, -1, true,
               "{'result': 'failed', 'text': 'the RMA write: no completion came within 5 s', "
               "'path': 'dmabuf', 'refused': []}");
}

static void one_gpu_of_8(json_t *facts)
{
    json_t *fabric;
    size_t i;

    json_array_foreach(json_object_get(facts, "fabrics"), i, fabric)
        if (i)
            json_object_set_new(
                json_array_get(json_object_get(fabric, "memory"), 4), "proof",
                json_of("{'result': 'wrong-bytes', 'text': 'after the RMA write: byte 7 of 65536 "
                        "is 0, not 0x1', 'path': 'dmabuf', 'refused': []}"));
}

#define REFUSED(slug, error, words)                                                                \
    "{'result': 'failed', 'text': 'no', 'path': null, 'refused': [{'path': 'dmabuf', 'code': "     \
    "-95, 'vendor_code': " error ", 'slug': '" slug "', 'text': '" words "'}]}"

static void no_path_between(json_t *facts)
{
    set_proofs(facts, -1, false,
               REFUSED("dmabuf-import-failed", "524", "mlx5_0 did not import the dmabuf (524)"));
}

static void window_full(json_t *facts)
{
    machine_set(facts, "gpus/0/bar", "268435456");
    set_proofs(facts, -1, false,
               REFUSED("dmabuf-import-failed", "12", "mlx5_0 did not import the dmabuf (ENOMEM)"));
}

static void old_kernel(json_t *facts)
{
    set_proofs(facts, -1, false, REFUSED("kernel-too-old", "0", "Linux 5.10 imports no dmabufs"));
}

static void closed_modules(json_t *facts)
{
    machine_set(facts, "nvidia/open_modules", "false");
    machine_set(facts, "devices/0/dmabuf", "false");
    set_proofs(facts, -1, false, REFUSED("no-dmabuf-export", "0", "cuda 0 exports no dmabuf"));
}

#define NO_DEVICE                                                                                  \
    {"devices", "[]"},                                                                             \
    {                                                                                              \
        "fabrics/1/memory", "[]"                                                                   \
    }

static const struct fault {
    const char *name;
    int nics, devices;
    void (*make)(json_t *facts);
    struct change changes[MOST_CHANGES];
    const char *verdict, *summary; /* which begins so */
    const char *first;             /* the first finding's code, without one NULL */
} faults[] = {
    {"none", 1, 1, NULL, {{0}}, "good", "GPUDirect works for 1 of 1 pairs", NULL},
    {"none, 8 x 8", 8, 8, NULL, {{0}}, "good", "GPUDirect works for 64 of 64 pairs", NULL},
    {"the first NIC of four hangs",
     4,
     2,
     sick_0,
     {{0}},
     "broken",
     "GPUDirect works for 6 of 8 pairs of device and NIC; broken: ",
     "loopback-failed"},
    {"the second NIC of four hangs",
     4,
     2,
     sick_1,
     {{0}},
     "broken",
     "GPUDirect works for 6 of 8 pairs of device and NIC; broken: ",
     "loopback-failed"},
    {"the third NIC of four hangs",
     4,
     2,
     sick_2,
     {{0}},
     "broken",
     "GPUDirect works for 6 of 8 pairs of device and NIC; broken: ",
     "loopback-failed"},
    {"the last NIC of four hangs",
     4,
     2,
     sick_3,
     {{0}},
     "broken",
     "GPUDirect works for 6 of 8 pairs of device and NIC; broken: ",
     "loopback-failed"},
    {"memlock",
     2,
     2,
     memlock,
     {{0}},
     "broken",
     "GPUDirect is broken here: the limit of locked memory is low",
     "memlock-low"},
    {"all ports down",
     1,
     1,
     all_ports,
     {{0}},
     "broken",
     "GPUDirect is broken here: no RDMA device has an active port.",
     "no-port"},
    {"all ports down, 8 x 8",
     8,
     8,
     all_ports,
     {{0}},
     "broken",
     "GPUDirect is broken here: no RDMA device has an active port.",
     "no-port"},
    {"one port of four down",
     4,
     2,
     one_port,
     {{0}},
     "degraded",
     "GPUDirect works for 6 of 8 pairs of device and NIC, proven",
     "port-down"},
    {"mode 600",
     2,
     2,
     closed_files,
     {{"fabrics/0/memory", "[]"}},
     "broken",
     "GPUDirect is broken here: the kernel has RDMA devices that this process cannot open.",
     "nic-no-node"},
    {"no ib_uverbs",
     1,
     1,
     NULL,
     {{"nics/0/file", "''"}, {"nics/0/file_state", "'missing'"}, {"fabrics", "[]"}},
     "broken",
     "GPUDirect is broken here: the kernel has RDMA devices that this process cannot open.",
     "nic-no-node"},
    {"no fabric",
     1,
     1,
     NULL,
     {{"fabrics", "[]"}, {"nics", "[]"}},
     "broken",
     "GPUDirect is broken here: there is no RDMA device.",
     "no-nic"},
    {"8 x 8, no transfer",
     8,
     8,
     transfers_fail,
     {{0}},
     "broken",
     "GPUDirect is broken here: registration or transfer failed",
     "loopback-failed"},
    {"8 x 8, no transfer, of host memory neither",
     8,
     8,
     host_fails_too,
     {{0}},
     "broken",
     "GPUDirect is broken here: registration or transfer failed",
     "loopback-failed"},
    {"8 x 8, wrong bytes of one GPU",
     8,
     8,
     one_gpu_of_8,
     {{0}},
     "broken",
     "GPUDirect works for 56 of 64 pairs of device and NIC; broken: a transfer succeeded",
     "loopback-wrong-bytes"},
    {"8 x 8, no path between GPU and NIC",
     8,
     8,
     no_path_between,
     {{"fabrics/0/memory", "[]"}},
     "broken",
     "GPUDirect is broken here: the NIC's driver refused this dmabuf.",
     "dmabuf-import-failed"},
    {"NVIDIA: nouveau",
     1,
     1,
     NULL,
     {NO_DEVICE, {"gpus/0/driver", "'nouveau'"}},
     "broken",
     "GPUDirect is broken here: a GPU's kernel driver is not the one",
     "gpu-no-driver"},
    {"NVIDIA: no device file",
     1,
     1,
     NULL,
     {NO_DEVICE, {"gpus/0/files_lacking", "['/dev/nvidiactl is missing']"}},
     "broken",
     "GPUDirect is broken here: the device files of a GPU are missing",
     "gpu-no-node"},
    {"NVIDIA: other versions",
     1,
     1,
     NULL,
     {NO_DEVICE,
      {"nvidia/library_version", "'535.1'"},
      {"runtimes/1/why", "'cuInit: system driver mismatch'"}},
     "broken",
     "GPUDirect is broken here: NVIDIA's kernel module and libcuda are of different versions.",
     "driver-mismatch"},
    {"NVIDIA: closed modules",
     1,
     1,
     closed_modules,
     {{"fabrics/0/memory", "[]"}},
     "broken",
     "GPUDirect is broken here: NVIDIA's kernel modules are the closed ones",
     "nvidia-closed-modules"},
    {"AMD: no /dev/kfd",
     1,
     1,
     NULL,
     {NO_DEVICE,
      {"gpus", "[{'pci': '0000:42:00.0', 'vendor': 'AMD', 'iface': 'rocr', 'driver': "
               "'amdgpu', 'files_lacking': ['/dev/kfd is missing']}]"}},
     "broken",
     "GPUDirect is broken here: the device files of a GPU are missing",
     "gpu-no-node"},
    {"AMD: /dev/kfd of mode 600",
     1,
     1,
     NULL,
     {NO_DEVICE,
      {"gpus", "[{'pci': '0000:42:00.0', 'vendor': 'AMD', 'iface': 'rocr', 'driver': 'amdgpu', "
               "'files_lacking': ['/dev/kfd is root:root 0600, closed to this user']}]"}},
     "broken",
     "GPUDirect is broken here: the device files of a GPU are missing",
     "gpu-no-node"},
    {"Intel: no runtime",
     1,
     1,
     NULL,
     {NO_DEVICE,
      {"gpus", "[{'pci': '0000:42:00.0', 'vendor': 'Intel', 'iface': 'ze', 'driver': "
               "'xe', 'files_lacking': []}]"}},
     "broken",
     "GPUDirect is broken here: a GPU has its driver",
     "gpu-no-runtime"},
    {"a kernel that imports no dmabufs",
     1,
     1,
     old_kernel,
     {{0}},
     "degraded",
     "No GPUDirect here: the CPU moves the memory of devices.",
     "kernel-too-old"},
    {"a full BAR",
     1,
     1,
     window_full,
     {{"fabrics/0/memory", "[]"}},
     "broken",
     "GPUDirect is broken here: a GPU's BAR shows the PCI bus less",
     "bar-small"},
    {"two: memlock, and a port down",
     2,
     2,
     two_at_once,
     {{0}},
     "broken",
     "GPUDirect is broken here: the limit of locked memory is low",
     "memlock-low"},
    {"two: mode 600, and nouveau",
     2,
     1,
     closed_files,
     {{"devices", "[]"}, {"gpus/0/driver", "'nouveau'"}},
     "broken",
     "GPUDirect is broken here: the kernel has RDMA devices that this process cannot open.",
     "nic-no-node"},
};

/* ---- reports ---------------------------------------------------------------------------- */

static json_t *printed; /* by print() */

static void print(void)
{
    doctor_print_text(printed);
}

static json_t *document_of(const struct fault *fault)
{
    static const char *const verdicts[] = {"good", "degraded", "broken"};
    json_t *facts = machine_of(fault->nics, fault->devices), *findings;

    if (fault->make)
        fault->make(facts);
    for (size_t i = 0; i < MOST_CHANGES && fault->changes[i].path; i++)
        machine_set(facts, fault->changes[i].path, fault->changes[i].value);
    json_object_set_new(facts, "pairs", paths_pairs(facts));
    findings = doctor_judge(facts);
    return tool_keep(json_pack(
        "{s:s, s:s, s:o, s:o, s:O}", "hmreg", "0", "verdict", verdicts[findings_worst(findings)],
        "summary", doctor_summary(facts, findings), "findings", findings, "facts", facts));
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void judge(const struct fault *fault, const json_t *document, const char *report)
{
    const json_t *first = json_array_get(json_object_get(document, "findings"), 0);

    if (strcmp(doc_words(document, "verdict"), fault->verdict))
        fail_msg("%s: the verdict is %s:\n%s", fault->name, doc_words(document, "verdict"), report);
    if (strncmp(doc_words(document, "summary"), fault->summary, strlen(fault->summary)))
        fail_msg("%s: the summary is \"%s\"", fault->name, doc_words(document, "summary"));
    if (strcmp(doc_words(first, "code"), fault->first ? fault->first : ""))
        fail_msg("%s: first comes %s:\n%s", fault->name, doc_words(first, "code"), report);
    if (lines_of(report) > MOST_LINES)
        fail_msg("%s: %zu lines:\n%s", fault->name, lines_of(report), report);
    assert_true(longest_line(report) <= 100);
}

static char *file_text(const char *name)
{
    FILE *file = fopen(name, "r");
    char *text = NULL;
    size_t size = 0;

    if (!file || getdelim(&text, &size, '\0', file) < 0)
        fail_msg("%s cannot be read", name);
    fclose(file);
    return text;
}

static void compare(const struct fault *fault, const char *golden, const char *report)
{
    char heading[128];
    const char *at;

    snprintf(heading, sizeof(heading), "==== %s ====\n", fault->name);
    at = strstr(golden, heading);
    at = at ? at + strlen(heading) : "";
    if (strncmp(at, report, strlen(report)) || at[strlen(report)] != '\n')
        fail_msg("%s: doctor_faults.reports does not have:\n%s", fault->name, report);
}

TEST(each_fault__verdict_first_finding_length_and_words)
{
    const char *name = getenv("HMREG_TEST_REPORTS");
    FILE *out = name ? fopen(name, "w") : NULL;
    char *golden = file_text(getenv("REPORTS"));

    if (out)
        fputs("# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only\n", out);
    for (size_t i = 0; i < COUNT(faults); i++) {
        char *report;

        printed = document_of(&faults[i]);
        report = output_of(print, 0);
        judge(&faults[i], printed, report);
        if (out)
            fprintf(out, "==== %s ====\n%s\n", faults[i].name, report);
        else
            compare(&faults[i], golden, report);
    }
    if (out)
        fclose(out);
    free(golden);
}

/* What explains another comes first, and the other has its code. */
TEST(explained__follows_its_cause_and_names_it)
{
    const struct fault two = {.nics = 2, .devices = 2, .make = two_at_once};
    json_t *document = document_of(&two), *findings = json_object_get(document, "findings");
    const json_t *failed = json_array_get(findings, 1), *about;

    assert_string_equal(doc_words(json_array_get(findings, 0), "code"), "memlock-low");
    assert_string_equal(doc_words(failed, "code"), "loopback-failed");
    assert_string_equal(words_at(failed, "causes/0"), "memlock-low");
    about = with(findings, "code", "loopback-untried");
    assert_string_equal(words_at(about, "causes/0"), "port-down");
    assert_int_equal(json_array_size(json_object_get(about, "about")), 2);
    assert_string_equal(words_at(about, "about/1"), "cuda 1 with mlx5_1");
}

/* --verbose: what the limit cuts off. */
TEST(all_lines__printed_where_asked_for)
{
    const struct fault many = {.nics = 8, .devices = 8, .make = two_at_once};
    char *some, *all;

    printed = document_of(&many);
    json_object_set_new(json_object_get(printed, "facts"), "gpus", json_array());
    for (int i = 0; i < 60; i++)
        json_array_append_new(json_object_get(printed, "findings"),
                              json_of("{'code': 'container', 'severity': 'note', 'text': 'x'}"));
    some = output_of(print, 0);
    doctor_print_all(true);
    all = output_of(print, 0);
    doctor_print_all(false);
    assert_int_equal(lines_of(some), MOST_LINES);
    assert_says(some, "more lines: hmreg doctor --verbose");
    assert_true(lines_of(all) > MOST_LINES);
    assert_silent(all, "--verbose");
}

TEST(remedy__by_code_and_errno)
{
    assert_non_null(strstr(finding_remedy("dmabuf-import-failed", 524), "below one PCI switch"));
    assert_null(strstr(finding_remedy("dmabuf-import-failed", 12), "PCI switch"));
    assert_non_null(strstr(finding_remedy("dmabuf-import-failed", 12), "Make room"));
    assert_non_null(strstr(finding_remedy("nic-no-node", 13), "udev rule"));
    assert_null(strstr(finding_remedy("nic-no-node", 13), "modprobe"));
    for (const struct remedy *remedy = all_remedies; remedy->code; remedy++)
        assert_non_null(finding_find(remedy->code));
}

TEST_MAIN()
