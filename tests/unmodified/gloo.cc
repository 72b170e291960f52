// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// gloo RANK SIZE FOLDER: one of the processes of two allreduce operations over the ibverbs
// transport of the distribution's gloo, unmodified: ring, then halving-doubling. The processes meet
// in FOLDER. Prints a line for each algorithm; exit status 1 where a float is wrong.
//
// Ending a context while its device's thread handles a completion crashes in gloo, so the context
// and the device stay; the kernel ends what they registered.
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/common/logging.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

static const int count = 3000; // floats
static const int rounds = 2;

// Rank r's element i is r + i: the sum over all is known, and exact in a float.
static bool sum_is_right(const std::vector<float> &floats, int size)
{
    for (int i = 0; i < count; i++)
        if (floats[i] != static_cast<float>(size * (size - 1) / 2 + size * i))
            return false;
    return true;
}

// An algorithm returns before its last messages are sent, and its buffers refuse to end before
// that.
template <class Buffer> static void wait_for_sends(const Buffer &buffer)
{
    try {
        for (;;)
            buffer->waitSend();
    } catch (const gloo::EnforceNotMet &) { // none is pending
    }
}

struct Ring : gloo::AllreduceRing<float> {
    using AllreduceRing::AllreduceRing;
    ~Ring()
    {
        wait_for_sends(sendNotificationBuf_);
    }
};

struct HalvingDoubling : gloo::AllreduceHalvingDoubling<float> {
    using AllreduceHalvingDoubling::AllreduceHalvingDoubling;
    ~HalvingDoubling()
    {
        for (auto *buffers : {&sendDataBufs_, &sendNotificationBufs_, &largerBlockSendDataBufs_})
            for (auto &buffer : *buffers)
                wait_for_sends(buffer);
    }
};

template <class Algorithm>
static bool run(const char *name, const std::shared_ptr<gloo::Context> &context)
{
    std::vector<float> floats(count);
    Algorithm algorithm(context, std::vector<float *>{floats.data()}, count);
    bool right = true;

    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++)
            floats[i] = static_cast<float>(context->rank + i);
        algorithm.run();
        right = sum_is_right(floats, context->size) && right;
    }
    std::printf("%s: %d times %d floats, rank %d of %d: %s\n", name, rounds, count, context->rank,
                context->size, right ? "right" : "wrong");
    std::fflush(stdout);
    return right;
}

// connectFullMesh() takes a reference, in newer versions of gloo a shared pointer.
struct SharedStore {
    std::shared_ptr<gloo::rendezvous::Store> store;

    operator gloo::rendezvous::Store &() const
    {
        return *store;
    }
    operator std::shared_ptr<gloo::rendezvous::Store>() const
    {
        return store;
    }
};

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    try {
        gloo::transport::ibverbs::attr attr;
        attr.name = "rxe0";
        attr.port = 1;
        attr.index = 1;
        auto &device = *new auto(gloo::transport::ibverbs::CreateDevice(attr));
        SharedStore store{std::make_shared<gloo::rendezvous::FileStore>(argv[3])};
        auto &context = *new auto(
            std::make_shared<gloo::rendezvous::Context>(std::atoi(argv[1]), std::atoi(argv[2])));
        context->connectFullMesh(store, device);
        bool ring = run<Ring>("ring", context);
        bool halving = run<HalvingDoubling>("halving-doubling", context);
        return ring && halving ? 0 : 1;
    } catch (const std::exception &failed) {
        std::fprintf(stderr, "gloo: %s\n", failed.what());
        return 1;
    }
}
