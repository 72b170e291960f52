/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See machine.h.
 */
#include "tests/tools/machine.h"

#include "tests/tools/tool.h"

static const char good[] =
    "{'root': '',"
    " 'kernel': {'release': '6.8.0', 'machine': 'x86_64', 'page_size': 4096,"
    "   'options': {'CONFIG_PCI_P2PDMA': 'y', 'CONFIG_DMABUF_MOVE_NOTIFY': 'y'},"
    "   'options_read_at': '/boot/config-6.8.0', 'numa_nodes': 2, 'numa_balancing': 0,"
    "   'transparent_huge_pages': 'always [madvise] never', 'huge_pages': 0, 'container': null},"
    " 'process': {'root': false, 'user': 'ann', 'uid': 1000, 'memlock': null, 'ipc_lock': false,"
    "   'userfaultfd': {'available': true, 'error': null, 'seccomp_filter': false, 'file': "
    "'good'},"
    "   'monitor': {'asked': 'default', 'active': 'memhooks', 'userfaultfd': false, 'why': ''}},"
    " 'cache': {'regions': 4096, 'bytes': null},"
    " 'runtimes': [{'iface': 'system', 'usable': true, 'devices': 0, 'version': '', 'library': '',"
    "     'why': ''},"
    "   {'iface': 'cuda', 'usable': true, 'devices': 1, 'version': '12.4',"
    "     'library': '/usr/lib/libcuda.so.1', 'why': ''}],"
    " 'devices': [{'iface': 'cuda', 'device': 0, 'name': 'a GPU', 'pci': '0000:42:00.0',"
    "   'memory': 85899345920, 'dmabuf': true, 'simulated': false}],"
    " 'gpus': [{'pci': '0000:42:00.0', 'vendor': 'NVIDIA', 'iface': 'cuda', 'driver': 'nvidia',"
    "   'bar': 137438953472, 'files_lacking': []}],"
    " 'nvidia': {'module_version': '550.54.15', 'open_modules': true,"
    "   'library_version': '550.54.15'},"
    " 'nics': [{'name': 'mlx5_0', 'pci': '0000:43:00.0', 'firmware': '28.39',"
    "   'ports': [{'port': 1, 'state': 'ACTIVE'}], 'file': '/dev/infiniband/uverbs0',"
    "   'file_state': 'good'}],"
    " 'peer_memory': {'clients': [], 'modules': []},"
    " 'topology': {"
    "   'members': [{'name': 'cuda 0', 'kind': 'device', 'pci': '0000:42:00.0',"
    "       'root': 'pci0000:40', 'bridges': ['0000:40:01.0', '0000:41:00.0'], 'numa_node': 0,"
    "       'iommu': 'identity', 'simulated': false},"
    "     {'name': 'mlx5_0', 'kind': 'nic', 'pci': '0000:43:00.0', 'root': 'pci0000:40',"
    "       'bridges': ['0000:40:01.0', '0000:41:01.0'], 'numa_node': 0, 'iommu': 'identity'}],"
    "   'bridges': {'0000:40:01.0': {'acs_redirect': false, 'config_bytes': 64},"
    "     '0000:41:00.0': {'acs_redirect': false}, '0000:41:01.0': {'acs_redirect': false}},"
    "   'distances': [{'one': 'cuda 0', 'other': 'mlx5_0', 'distance': 'PIX'}]},"
    " 'fabric_libraries': [{'provider': 'loopback', 'library': 'libhmreg-loopback',"
    "     'version': '0.3.0', 'fabrics': 1, 'why': ''},"
    "   {'provider': 'ofi', 'library': 'libfabric', 'version': '1.22', 'fabrics': 1, 'why': ''},"
    "   {'provider': 'verbs', 'library': 'libibverbs', 'version': '50.0', 'fabrics': 1,"
    "     'why': ''}],"
    " 'fabrics': [{'provider': 'ofi', 'fabric': 'tcp;ofi_rxm', 'domain': 'eth0', 'nic': null,"
    "     'opened': true, 'error': null, 'memory': ["
    "       {'iface': 'cuda', 'device': 0, 'simulated': false, 'best': 'mapped',"
    "         'paths': {'mapped': {'usable': true}}, 'proof': null}]},"
    "   {'provider': 'verbs', 'fabric': 'mlx5_0', 'domain': '', 'nic': 'mlx5_0', 'opened': true,"
    "     'error': null, 'max_mr': 1000000, 'max_mr_size': null, 'memory': ["
    "       {'iface': 'system', 'device': null, 'simulated': false, 'best': 'system',"
    "         'paths': {'system': {'usable': true}},"
    "         'proof': {'result': 'proven', 'text': '', 'path': 'system', 'refused': []}},"
    "       {'iface': 'cuda', 'device': 0, 'simulated': false, 'best': 'dmabuf',"
    "         'paths': {'dmabuf': {'usable': true}},"
    "         'proof': {'result': 'proven', 'text': '', 'path': 'dmabuf', 'refused': []}}]}]}";

json_t *json_of(const char *words)
{
    char *copy = strdup(words);
    json_error_t error;
    json_t *value;

    assert_non_null(copy);
    for (char *at = copy; *at; at++)
        if (*at == '\'')
            *at = '"';
    value = json_loads(copy, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!value)
        fail_msg("at %d: %s in %s", error.position, error.text, copy);
    free(copy);
    return value;
}

json_t *machine_good(void)
{
    return tool_keep(json_of(good));
}

static json_t *child(json_t *of, const char *name)
{
    json_t *found =
        json_is_array(of) ? json_array_get(of, (size_t)atoi(name)) : json_object_get(of, name);

    if (!found)
        fail_msg("the facts have no \"%s\" there", name);
    return found;
}

void machine_set(json_t *facts, const char *path, const char *value)
{
    char words[256], *name, *next, *rest;
    int rc;

    snprintf(words, sizeof(words), "%s", path);
    name = strtok_r(words, "/", &rest);
    for (; (next = strtok_r(NULL, "/", &rest)); name = next)
        facts = child(facts, name);
    rc = json_is_array(facts) ? json_array_set_new(facts, (size_t)atoi(name), json_of(value))
                              : json_object_set_new(facts, name, json_of(value));
    assert_int_equal(rc, 0);
}
