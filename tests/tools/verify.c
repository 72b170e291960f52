/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg verify on a vendor's simulated devices: VENDOR names the iface, FAIL_CALL a call of
 * device memory that shall fail, FAIL_TEXT what its check then says. FAKE_NIC_LIBRARY, where set,
 * has simulated NICs. */
#include "tests/tools/tool.h"

#include <ctype.h>
#include <hmreg/hmreg.h>
#include <limits.h>
#include <pwd.h>

/* ---- running ---------------------------------------------------------------------------- */

static char folder[] = "/tmp/hmreg-verify-XXXXXX", report_name[64];

static json_t *load_report(void)
{
    char path[80];
    json_error_t error;
    json_t *report;

    snprintf(path, sizeof(path), "%s.json", report_name);
    report = tool_keep(json_load_file(path, JSON_REJECT_DUPLICATES, &error));
    if (!report)
        fail_msg("%s: line %d: %s", path, error.line, error.text);
    return report;
}

static char *load_text(const char *ending)
{
    char path[80], *text = calloc(1, 1 << 20);
    FILE *file;

    snprintf(path, sizeof(path), "%s%s", report_name, ending);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void remove_reports(void)
{
    char path[80];

    snprintf(path, sizeof(path), "%s.json", report_name);
    unlink(path);
    snprintf(path, sizeof(path), "%s.txt", report_name);
    unlink(path);
    rmdir(folder);
    report_name[0] = '\0';
    strcpy(folder, "/tmp/hmreg-verify-XXXXXX");
}

/* The report of a run with this exit status; status 1 and a failed check go together. */
static json_t *verify(int status)
{
    struct tool tool;
    json_t *report;

    if (!report_name[0]) {
        assert_non_null(mkdtemp(folder));
        test_after(remove_reports);
        snprintf(report_name, sizeof(report_name), "%s/report", folder);
    }
    tool = tool_run("verify", "--out", report_name);
    if (tool.status != status)
        fail_msg("exit status %d, not %d:\n%s\n%s", tool.status, status, tool.out, tool.err);
    assert_says(tool.out, report_name);
    report = load_report();
    assert_string_equal(words_at(report, "verdict"), status ? "FAILED" : "OK");
    assert_int_equal(number_at(report, "counts/failed") > 0, status);
    return report;
}

static json_t *check(const json_t *report, const char *format)
{
    char name[128];

    snprintf(name, sizeof(name), format, getenv("VENDOR"));
    return with(list_at(report, "checks"), "name", name);
}

/* ---- a good machine --------------------------------------------------------------------- */

TEST(devices__all_checks_ok_or_skipped_and_simulated)
{
    json_t *report = verify(0), *one;
    size_t i, ok = 0;

    assert_true(json_is_true(at(report, "simulated")));
    json_array_foreach(list_at(report, "checks"), i, one) {
        const char *name = words_at(one, "name");
        bool of_device = strstr(name, getenv("VENDOR"));

        assert_int_equal(json_is_true(at(one, "simulated")), of_device);
        assert_true(number_at(one, "ms") >= 0);
        if (strcmp(words_at(one, "result"), "ok") != 0) {
            assert_string_equal(words_at(one, "result"), "skipped");
            assert_true(*words_at(one, "text"));
        }
        ok += of_device && !strcmp(words_at(one, "result"), "ok");
    }
    assert_true(ok >= 7);
    assert_string_equal(words_at(check(report, "runtime/%s"), "result"), "ok");
    assert_string_equal(words_at(check(report, "memory/%s-1/device"), "result"), "ok");
    assert_says(words_at(check(report, "loopback/%s-0/device/peermem"), "text"), "path peermem");
    assert_says(words_at(check(report, "loopback/%s-0/device/mapped"), "text"), "path mapped");
    assert_says(words_at(check(report, "loopback/%s-0/device/dmabuf-plain"), "text"),
                "loopback imports no dmabuf");
}

/* Host memory before devices, the runtimes first, and each group in one piece. */
TEST(checks__in_order)
{
    static const char *const groups[] = {"runtime/", "memory/", "loopback/", "shm/"};
    json_t *report = verify(0), *one;
    size_t i, group = 0;

    json_array_foreach(list_at(report, "checks"), i, one) {
        const char *name = words_at(one, "name");

        if (strncmp(name, groups[group], strlen(groups[group])) != 0) {
            assert_true(++group < 4);
            assert_ptr_equal(strstr(name, groups[group]), name);
            assert_non_null(strstr(name, "/system/host") ? name : strstr(name, "memory/system"));
        }
    }
}

TEST(text__has_each_check_and_says_simulated)
{
    json_t *report = verify(0), *one;
    char *text = load_text(".txt"), line[256];
    size_t i;

    assert_says(text, "Devices here are simulated");
    json_array_foreach(list_at(report, "checks"), i, one) {
        snprintf(line, sizeof(line), "%s%s: ", words_at(one, "name"),
                 json_is_true(at(one, "simulated")) ? ", simulated" : "");
        assert_says(text, line);
    }
    free(text);
}

/* ---- secrets ---------------------------------------------------------------------------- */

/* A name may be part of another word: it is looked for where the variables below put it. */
static void assert_no_name(const char *text, const char *name)
{
    char marked[HOST_NAME_MAX + 8];

    snprintf(marked, sizeof(marked), "=%.60s\n", name);
    assert_silent(text, marked);
    snprintf(marked, sizeof(marked), "\"%.60s\"", name);
    assert_silent(text, marked);
}

static void assert_no_secrets(const char *text)
{
    char host[HOST_NAME_MAX + 1] = "";
    const struct passwd *user = getpwuid(getuid());

    gethostname(host, sizeof(host) - 1);
    assert_no_name(text, host);
    assert_no_name(text, user ? user->pw_name : "?");
    assert_silent(text, "/home");
    assert_silent(text, "/tmp");
    assert_silent(text, "10.1.2.3");
    assert_silent(text, "fe80:");
    assert_silent(text, "52:54:00");
    assert_silent(text, "1320921012345");
    assert_silent(text, "8f6d2c1a9b3e");
    assert_silent(text, "secret");
}

TEST(report__has_no_secrets)
{
    const struct passwd *user = getpwuid(getuid());
    char host[HOST_NAME_MAX + 1] = "", *text;

    gethostname(host, sizeof(host) - 1);
    test_setenv("HMREG_TEST_HOST", host);
    test_setenv("HMREG_TEST_USER", user ? user->pw_name : "");
    test_setenv("HMREG_TEST_PATH", "a,/home/alice/lib:/tmp/x /usr/lib/kept 0000:41:00.0");
    test_setenv("FI_TEST_ADDRESS", "10.1.2.3:80,fe80::5054:ff:fe12:3456%eth0,52:54:00:12:34:56");
    test_setenv("FI_TEST_SERIAL", "1320921012345 GPU-8f6d2c1a-0000-1111-2222-8f6d2c1a9b3e 0x1f");
    test_setenv("PASSWORD", "secret");
    verify(0);
    text = load_text(".txt");
    assert_no_secrets(text);
    assert_says(text, "HMREG_TEST_PATH=a,(path) /usr/lib/kept 0000:41:00.0");
    assert_says(text, "FI_TEST_SERIAL=(number) GPU-(number) 0x1f");
    free(text);
    text = load_text(".json");
    assert_no_secrets(text);
    free(text);
}

/* Lists joined by ':', and names of devices that contain the host's. */
TEST(report__has_no_secrets_in_lists)
{
    char host[HOST_NAME_MAX + 1] = "", names[3 * HOST_NAME_MAX], *text;

    gethostname(host, sizeof(host) - 1);
    snprintf(names, sizeof(names), "%.60s-ib0 rxe_%.60s", host, host);
    for (char *at = names + strlen(host); *at; at++)
        *at = (char)toupper((unsigned char)*at);
    test_setenv("HMREG_TEST_HOST", names);
    test_setenv("HMREG_TEST_PATH", "/usr/lib:/home/alice/secretproject 0000:41:00.0");
    test_setenv("FI_TEST_ADDRESS", "tcp:10.1.2.3 eth0:52:54:00:12:34:56 gid:fe80::1");
    verify(0);
    text = load_text(".txt");
    assert_no_secrets(text);
    assert_says(text, "HMREG_TEST_HOST=(host)-IB0 RXE_(host)\n");
    assert_says(text, "HMREG_TEST_PATH=/usr/lib:(path) 0000:41:00.0");
    assert_says(text, "FI_TEST_ADDRESS=tcp:(address) eth0:(address) gid:(address)");
    free(text);
}

/* In a folder of another user, that name may lead to any file. */
TEST(report__link_in_its_place__left_alone)
{
    char place[] = "/tmp/hmreg-verify-link-XXXXXX", link[64], target[64], out[64];
    struct tool tool;

    assert_non_null(mkdtemp(place));
    snprintf(out, sizeof(out), "%s/report", place);
    snprintf(link, sizeof(link), "%s/report.txt", place);
    snprintf(target, sizeof(target), "%s/target", place);
    assert_int_equal(symlink(target, link), 0);
    tool = tool_run("verify", "--out", out);
    assert_int_equal(tool.status, 2);
    assert_says(tool.err, "symbolic link");
    assert_int_not_equal(access(target, F_OK), 0);
    unlink(link);
    snprintf(link, sizeof(link), "%s/report.json", place);
    unlink(link);
    rmdir(place);
}

/* ---- failures --------------------------------------------------------------------------- */

TEST(call_that_fails__its_check_fails_and_the_rest_runs)
{
    json_t *report;

    test_setenv("HMREG_FAKE_FAIL", getenv("FAIL_CALL"));
    report = verify(1);
    unsetenv("HMREG_FAKE_FAIL");
    for (int device = 0; device < 2; device++) {
        const json_t *one = check(report, device ? "memory/%s-1/device" : "memory/%s-0/device");

        assert_string_equal(words_at(one, "result"), "failed");
        assert_says(words_at(one, "text"), getenv("FAIL_TEXT"));
    }
    assert_string_equal(words_at(check(report, "memory/%s-1/pinned"), "result"), "ok");
    assert_string_equal(words_at(check(report, "loopback/%s-1/pinned/usual"), "result"), "ok");
}

TEST(check__alone__result_is_a_line)
{
    char name[64];
    struct tool tool;

    snprintf(name, sizeof(name), "loopback/%s-0/device/peermem", getenv("VENDOR"));
    tool = tool_run("verify", "--check", name, "--check", "memory/system/host");
    assert_int_equal(tool.status, 0);
    assert_silent(tool.out, "{");
    assert_says(tool.out, "  ok      ");
    assert_says(tool.out, "  memory/system/host");
    tool = tool_run("verify", "--json", "--check", name);
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "\"result\":\"ok\"");
    tool = tool_run("verify", "--check", "loopback/cuda-99/device/usual");
    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "there is no such memory here");
}

/* The region's explanation is in the check's text, in both forms of the report. */
TEST(check__hits_that_ask__says_why)
{
    char name[64];
    struct tool tool;

    snprintf(name, sizeof(name), "loopback/%s-0/device/mapped", getenv("VENDOR"));
    tool = tool_run("verify", "--check", name);
    assert_int_equal(tool.status, 0);
    assert_null(strstr(tool.out, "HMREG_DEVICE_MONITOR"));
    test_setenv("HMREG_DEVICE_MONITOR", "off");
    tool = tool_run("verify", "--check", name);
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "each hit asks the runtime: HMREG_DEVICE_MONITOR is off");
}

/* On a terminal each check's name is shown as it begins, and the last one removed. */
TEST(progress__on_a_terminal__each_check)
{
    struct tool tool;

    test_setenv("TERM", "xterm");
    tool = tool_run_watched("verify", "--json");
    assert_int_equal(tool.status, 0);
    assert_says(tool.err, "\r\033[Khmreg verify: looking for devices and fabrics");
    assert_says(tool.err, "\r\033[Khmreg verify: check 1 of ");
    assert_says(tool.err, ": memory/system/host");
    assert_string_equal(strrchr(tool.err, '\r'), "\r\033[K");
}

TEST(list__names_without_running)
{
    struct tool tool = tool_run("verify", "--list");

    assert_int_equal(tool.status, 0);
    assert_ptr_equal(strstr(tool.out, "runtime/"), tool.out);
    assert_says(tool.out, "loopback/system/host/usual\n");
}

/* What is here is listed by a process that fails: host memory is checked all the same. */
TEST(list_that_fails__a_failed_check_and_host_memory)
{
    json_t *report;

    test_setenv("HMREG_IFACES", "none-such");
    report = verify(1);
    assert_string_equal(words_at(check(report, "list"), "result"), "failed");
    assert_int_equal(number_at(report, "counts/failed"), 1);
    assert_string_equal(words_at(check(report, "loopback/system/host/usual"), "result"), "ok");
}

TEST(options__wrong__usage)
{
    static const char *const wrong[][3] = {
        {"--out", "/no/such/folder/x", "No such file or directory"},
        {"--check", "nothing", "--list prints are accepted"},
        {"--patience", "0", "seconds are accepted, from 1 to 280"},
    };

    for (size_t i = 0; i < 3; i++) {
        struct tool tool = tool_run("verify", wrong[i][0], wrong[i][1]);

        assert_int_equal(tool.status, 2);
        assert_says(tool.err, wrong[i][2]);
    }
}

/* ---- NICs that end or stop a process ---------------------------------------------------- */

/* Host memory only. */
static json_t *with_nic(const char *wrong)
{
    bool hangs = !strcmp(wrong, "hang");
    struct tool tool;
    json_t *report;

    if (!getenv("FAKE_NIC_LIBRARY"))
        test_skip("the simulated NIC is run with CUDA's test");
    test_setenv("HMREG_IFACES", "system");
    test_setenv("HMREG_FAKE_NICS", "mlx5_0");
    test_setenv("HMREG_FAKE_NIC", wrong);
    tool_preload_nic(true);
    tool = tool_run("verify", "--json", "--patience", hangs ? TOOL_PATIENCE_HANGS : TOOL_PATIENCE);
    tool_preload_nic(false);
    report = tool_keep(json_loads(tool.out, 0, NULL));
    assert_non_null(report);
    return report;
}

TEST(nic__good__proven)
{
    json_t *report = with_nic("");
    json_t *one = check(report, "verbs:mlx5_0/system/host/usual");

    assert_string_equal(words_at(one, "result"), "ok");
}

TEST(check_that_crashes__fails_and_the_rest_runs)
{
    json_t *report = with_nic("crash");
    json_t *one = check(report, "verbs:mlx5_0/system/host/usual");

    assert_string_equal(words_at(one, "result"), "failed");
    assert_says(words_at(one, "text"), "crashed with signal 9");
    assert_int_equal(number_at(report, "counts/failed"), 1);
    assert_string_equal(words_at(check(report, "loopback/system/host/usual"), "result"), "ok");
}

TEST(check_that_hangs__fails)
{
    json_t *report = with_nic("hang");
    json_t *one = check(report, "verbs:mlx5_0/system/host/usual");

    assert_string_equal(words_at(one, "result"), "failed");
    assert_says(words_at(one, "text"), "hung after ");
    assert_string_equal(words_at(report, "verdict"), "FAILED");
}

/* A check opens its own fabric and no other, which may be the one that ends the process. */
TEST(check__another_nic_ends_who_opens_it__ok)
{
    struct tool tool;

    if (!getenv("FAKE_NIC_LIBRARY"))
        test_skip("the simulated NIC is run with CUDA's test");
    test_setenv("HMREG_IFACES", "system");
    test_setenv("HMREG_FAKE_NICS", "mlx5_0:fatal,mlx5_1");
    tool_preload_nic(true);
    tool = tool_run("verify", "--check", "verbs:mlx5_1/system/host/usual", "--check",
                    "verbs:mlx5_1/system/host/proof");
    tool_preload_nic(false);
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "verbs:mlx5_1/system/host/usual: bytes proven");
    assert_says(tool.out, "verbs:mlx5_1/system/host/proof: 65536 bytes written");
}

TEST(bytes_that_are_wrong__fail)
{
    json_t *report = with_nic("flip");

    assert_says(words_at(check(report, "verbs:mlx5_0/system/host/usual"), "text"),
                "after the RMA write: byte 4711 of 65536 is ");
}

TEST_MAIN()
