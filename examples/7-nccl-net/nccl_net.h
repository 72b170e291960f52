/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The binary interface of NCCL's network plugins, versions 8 to 12, in declarations of our own:
 * NCCL looks for the symbols ncclNetPlugin_v12, _v11, ... and uses the first that it finds and
 * knows. What a function must do is in the documentation of NCCL's network plugins.
 */
#ifndef NCCL_NET_H
#define NCCL_NET_H

#include <stddef.h>
#include <stdint.h>

enum nccl_result { /* all calls return one, as an int */
                   NCCL_OK = 0,
                   NCCL_SYSTEM_ERROR = 2,
                   NCCL_INTERNAL_ERROR = 3,
                   NCCL_INVALID_ARGUMENT = 4,
                   NCCL_INVALID_USAGE = 5,
                   NCCL_REMOTE_ERROR = 6,
};

#define NCCL_PTR_HOST     1
#define NCCL_PTR_CUDA     2
#define NCCL_PTR_DMABUF   4
#define NCCL_HANDLE_BYTES 128 /* of a listening device's address */
#define NCCL_REQUESTS     32  /* receives in flight of one communicator */
#define NCCL_LOG_WARN     2
#define NCCL_LOG_INFO     3
#define NCCL_LOG_NET      16
#define NCCL_UNDEFINED    (-1) /* a traffic class, a rail, a plane */

typedef void nccl_log(int level, unsigned long subsystems, const char *file, int line,
                      const char *format, ...);

struct nccl_config {
    int traffic_class;
};

/* ---- what NCCL asks about a device: parts that versions have in common, and the rest ----- */

struct nccl_nic {
    char *name, *pci_path; /* pci_path: in /sys; NULL: none */
    uint64_t guid;
    int pointers; /* NCCL_PTR_* */
    int global;   /* 1: registrations of one communicator serve the others */
};

struct nccl_port {
    int speed, port; /* Mbit/s */
    float latency;
    int most_comms, most_grouped, offload, offload_version;
};

struct nccl_longest { /* bytes of a message */
    size_t p2p, collective;
};

struct nccl_properties_v10 {
    struct nccl_nic nic;
    int force_flush;
    struct nccl_port port;
    int members[5]; /* how many devices it is made of, then each */
    struct nccl_longest longest;
};

struct nccl_properties_v11 {
    struct nccl_properties_v10 v10;
    int most_in_request;
};

struct nccl_properties_v12 {
    struct nccl_nic nic;
    int force_flush;
    struct nccl_port port;
    int members[9];
    struct nccl_longest longest;
    int most_in_request;
    int16_t rail, plane;
};

/* ---- the calls; `comm` is of either direction -------------------------------------------- */

struct nccl_memory {
    int (*reg)(void *comm, void *data, size_t size, int type, void **mhandle);
    int (*reg_dmabuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                      void **mhandle);
    int (*dereg)(void *comm, void *mhandle);
};

struct nccl_end {
    int (*flush)(void *comm, int n, void **data, int *sizes, void **mhandles, void **request);
    int (*test)(void *request, int *done, int *sizes);
    int (*close_send)(void *comm);
    int (*close_recv)(void *comm);
    int (*close_listen)(void *listener);
    int (*device_mr)(void *comm, void *mhandle, void **device_mhandle);
    int (*consumed)(void *comm, int n, void *request);
};

/* The table of a version, and what its calls have besides: version 10 a configuration, later ones a
 * context. */
#define NCCL_NET(version, init_words, LISTENS, CONNECTS, ...)                                      \
    struct nccl_net_##version {                                                                    \
        const char *name;                                                                          \
        int(*init) init_words;                                                                     \
        int (*devices)(int *count);                                                                \
        int (*properties)(int device, struct nccl_properties_##version *out);                      \
        int (*listen)(LISTENS, void *handle, void **listener);                                     \
        int (*connect)(CONNECTS, void *handle, void **comm, void **offload);                       \
        int (*accept)(void *listener, void **comm, void **offload);                                \
        struct nccl_memory memory;                                                                 \
        int (*send)(void *comm, void *data, size_t size, int tag, void *mhandle, void *profile,    \
                    void **request);                                                               \
        int (*recv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,     \
                    void **profiles, void **request);                                              \
        struct nccl_end end;                                                                       \
        int (*fuse)(int *device, int *members); /* their number, then each */                      \
        __VA_ARGS__                                                                                \
    }
#define NCCL_IN_CONTEXT  void *context, int device
#define NCCL_WITH_CONFIG int device, struct nccl_config *config
#define NCCL_NET_IN_CONTEXT(version)                                                               \
    NCCL_NET(                                                                                      \
        version,                                                                                   \
        (void **context, uint64_t id, struct nccl_config *config, nccl_log *log, void *profiler),  \
        NCCL_IN_CONTEXT, NCCL_IN_CONTEXT, int (*finalize)(void *context);                          \
        int (*attributes)(void *context, void *hints);)

NCCL_NET(v10, (nccl_log * log, void *profiler), int device, NCCL_WITH_CONFIG, );
NCCL_NET_IN_CONTEXT(v11);
NCCL_NET_IN_CONTEXT(v12);

#endif
