# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Sourced in the guest, as root: what the kernel counts of Soft-RoCE's registrations. Probes at the
# driver's functions count the calls of each process, so the figures come from no library.
tracing=/sys/kernel/tracing
probes=$tracing/events/unmodified
made='hist:keys=common_pid.execname:size=4096 if region < 18446744073709547520' # less than an ERR_PTR()

kernel_starts_counting() {
    [[ -e $tracing/kprobe_events ]] || mount -t tracefs tracefs "$tracing" || return
    echo 'p:unmodified/reg rxe_reg_user_mr bytes=$arg3:u64' >>"$tracing/kprobe_events" &&
        echo 'p:unmodified/dereg rxe_dereg_mr' >>"$tracing/kprobe_events" &&
        echo 'r:unmodified/made rxe_reg_user_mr region=$retval:u64' >>"$tracing/kprobe_events" &&
        echo "$made" >"$probes/made/trigger" &&
        echo 'hist:keys=common_pid.execname:vals=bytes:size=4096' >"$probes/reg/trigger" &&
        echo 'hist:keys=common_pid.execname:size=4096' >"$probes/dereg/trigger"
}

kernel_stops_counting() {
    echo "!$made" >"$probes/made/trigger"
    echo '!hist:keys=common_pid.execname:vals=bytes:size=4096' >"$probes/reg/trigger"
    echo '!hist:keys=common_pid.execname:size=4096' >"$probes/dereg/trigger"
    printf -- '-:unmodified/%s\n' reg dereg made >>"$tracing/kprobe_events"
}

# FOLDER: files reg, made (of reg, those that succeeded) and dereg there, a line "CALLS BYTES PID NAME" for each thread
# that called. NAME is the
# thread's: its executable's, cut to 15 bytes, unless it has one of its own.
kernel_counts() {
    local event
    for event in reg made dereg; do
        sed -nE 's/^\{ common_pid: (.*[^ ]) +\[ *([0-9]+)\] \} hitcount: +([0-9]+)( +bytes: +([0-9]+))?.*/\3 0\5 \2 \1/p' \
            "$probes/$event/hist" >"$1/$event"
    done
}

# Objects that exist: "mr 0".
kernel_has() { # KIND
    rdma res show | sed -nE "s/.* rxe0: .*\b($1 [0-9]+).*/\1/p"
}

# Of the port, such as sent_pkts.
kernel_statistic() { # NAME
    rdma statistic show link rxe0/1 | sed -nE "s/.*\b$1 ([0-9]+).*/\1/p"
}
