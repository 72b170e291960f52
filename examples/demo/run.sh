#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The demo of a build: run.sh BUILD_DIR [hmreg-demo's arguments]. If the machine has no device,
# the build's simulated ones of all vendors take part; their names say so.
set -euo pipefail

build=$(readlink -f "${1:?usage: run.sh BUILD_DIR [ARGUMENTS]}")
shift
demo=$build/examples/demo/hmreg-demo
fakes=$build/simulated
[[ -x $demo ]] || {
    echo "run.sh: $demo is not there: it is built with -DHMREG_OFI=ON -DHMREG_EXAMPLES=ON" >&2
    exit 1
}

devices=$("$demo" --devices)
if [[ ! $devices && -d $fakes ]]; then
    export LD_LIBRARY_PATH=$fakes/cuda:$fakes/rocr${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    [[ -e $fakes/ze/libze_fake.so ]] && export ZE_ENABLE_ALT_DRIVERS=$fakes/ze/libze_fake.so
    echo "No device of any vendor here: the demo uses simulated ones."
elif [[ ! $devices ]]; then
    echo "No device of any vendor here, and none simulated (-DHMREG_SIMULATED=OFF): host memory only."
fi
exec "$demo" "$@"
