/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model of the hit protocol for spin(1): gets and puts, changes of memory reported by hooks, by
 * userfaultfd and by counter, eviction, deregistration by the reaper, a fork, membarrier(2) refused. check.sh
 * lets spin visit every state of some small scenes, then breaks one rule at a time: spin must then
 * find an error. In every state
 *
 *     a get hits no entry whose memory the kernel had changed before the get began;
 *     no region is deregistered between a get that returned it and its put;
 *     at the end every region that has ended is deregistered, and a live one is up to date.
 *
 * There are one entry (core/cache/cache_pool.h), which is used several times, two threads that know it,
 * and one range of memory. A section under the pool's lock that changes the gate or the sequence
 * once at most is one step.
 *
 * Assumptions about the machine, the kernel and the application, and the C that relies on them:
 *
 *  - Other threads see a thread's stores to its pins late, but in order, and no later than the
 *    thread's next fence (get_fast.c, add_to). No other store is delayed: loads acquire, stores release,
 *    and the gate and the queue are changed by sequentially consistent operations.
 *  - membarrier(2) returns after each thread has passed a fence (barrier.c).
 *  - A thread that gets new memory at a changed address sees every store that precedes the system
 *    call that changed it (gate.c, gates_mark_pending).
 *  - The kernel says that it is changing memory from before the change until the event is read
 *    (userfault.c, ask_changing).
 *  - The kernel module watches no range of which a change is under way (counter.pml).
 *  - The application gets no memory that another of its threads is about to change: such a get may
 *    leave a region of the old pages in the cache (memhooks.c). No miss begins here between a hook
 *    and the kernel's change.
 *  - A put by another thread than the get's follows a synchronisation of the two, after which the
 *    get's pin is visible. Here each thread puts what it got.
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define MEMBARRIER     1 /* pins       pins are summed after membarrier(2) */
#define LAST_PUT       2 /* pins       a put checks whether the entry has ended */
#define LAST_BACK      3 /* pins       so does a get that backs out */
#define PUT_FENCE      4 /* pins       both pass a fence, as the lock is, before they sum up pins */
#define FENCES         5 /* refused    without membarrier(2), gets and puts pass fences */
#define PIN_FIRST      6 /* evictions  a hit compares the sequence after it has pinned */
#define COOLED_STILL   7 /* evictions  an entry made hot since the barrier is not evicted */
#define GATE           8 /* changes    a hit needs a gate that is LIVE and nothing else */
#define GATE_FIRST     9 /* changes    a hit reads the gate before the sequence */
#define MARK_FIRST    10 /* changes    a hook sets PENDING before the kernel's change */
#define CLEAR_FIRST   11 /* changes    a drain clears PENDING before it reads the queue */
#define DRAIN_BIT     12 /* changes    DRAINING is set as long as the queue is read */
#define OPEN          13 /* changes    a slot that is still being written is read later */
#define CLAIM         14 /* changes    a producer writes only a slot that it has claimed */
#define COUNT         15 /* changes    a producer without a slot counts itself as refused */
#define READ_TWICE    16 /* changes    a slot is valid if its sequence is the same afterwards */
#define DRAIN_HELP    17 /* batches    a get that finds DRAINING completes the drain */
#define OPEN_FIRST    18 /* batches    an open slot that is finished is read before a drain ends */
#define CHANGED       19 /* misses     a region that changed while it was made is not published */
#define LOOK_AGAIN    20 /* reaper     the reaper looks again after it has cleared `awake` */
#define LOOK_AT_ALL   21 /* reaper     it does not sleep while another thread drains */
#define READING_FIRST 22 /* kernel     READING is set before the events are read */
#define ASK_KERNEL    23 /* kernel     a hit asks the kernel before it reads the gate */
#define READING_WAIT  24 /* kernel     a get that meets READING waits for its end */
#define FORK          25 /* kernel     the gate is zero in the child of a fork */
#define COUNT_FIRST   27 /* counts     the kernel counts a change before it makes it */
#define ASK_COUNTS    28 /* counts     a hit compares the counts with those read */
#define READ_LAST     29 /* counts     a count is read once its change has marked the gate */
#define READ_WAIT     30 /* counts     a get reads the counts, or waits for their reader */
#define GATE_ONCE     31 /* changes    having found the gate shut, a hit does not read it again */
#define GATE_AGAIN    32 /* counts     a hit reads the gate after the counts */
#define GATE_BEFORE   33 /* counts     out of line, too, a hit reads the gate before the sequence */
#define keeps(rule) (BREAK != rule)

#define LIVE     1
#define PENDING  2
#define DRAINING 4
#define READING  8
byte gate = LIVE;
bool lock, awake; /* the pool's lock; the reaper's futex */

mtype = { FREE, REGISTERING, SERVING, DYING, EXAMINED, HELD };
mtype state = START; /* of the entry. EXAMINED: taken from the list of the dying */
byte sequence = (START == SERVING -> 1 : 2); /* odd: threads may hit the entry */
bool cold;                                   /* no thread hits it */
byte made;                                   /* `memory` when the region was registered */
bool changed;                                /* since */

byte base, pins[2];               /* in the entry; in the threads' cells, as others see them */
byte known[2];                    /* the sequence by which a thread knows the entry */
chan stores[2] = [2] of { byte }; /* to pins[], in a thread's store buffer */
#define sum ((base + pins[0] + pins[1]) & 255)

byte tickets, refused, slot_sequence[SLOTS]; /* the queue: core/monitor/change/change_queue.c */
bool slot_ours[SLOTS];                       /* the change is of our range */
byte next, noted, open;                      /* its reader; `open` is a set of tickets */
#define slot(ticket)     slot_sequence[(ticket) % SLOTS]
#define WRITING(ticket)  (2 * (ticket) + 1)
#define WRITTEN(ticket)  (2 * (ticket) + 2)
#define finished(ticket) (open & (1 << (ticket)) && slot(ticket) >= WRITTEN(ticket))

byte counted, counts_read; /* by the kernel module; of these in the queue: counter/counter.c */
bool count_ours[2], reading;

/* For the assertions: changes by the kernel so far; hooks before their system call; events to be
 * read; regions in use; processes that run. */
byte memory, changing, unread, users, running;

/* ---- pins: core/cache/get_fast.c, core/cache/cache.c ---- */

#ifdef STRONG /* no store buffers, in scenes about something else */
#define fence(thread) true
#define store_pins()  pins[me] = own
#else
#define fence(thread) empty(stores[thread])
#define store_pins()  stores[me]!own
#endif
#ifdef REFUSED
#define membarrier()  skip
#define hit_fence()   !keeps(FENCES) || fence(me)
#else
#define membarrier()  !keeps(MEMBARRIER) || fence(0); !keeps(MEMBARRIER) || fence(1)
#define hit_fence()   skip
#endif

inline deregister() { assert(users == 0); state = FREE }
inline end_or_hold() { if :: sum == 0 -> deregister() :: else -> state = HELD fi }
inline serve() { assert(made >= began && state != FREE); users++ }

inline unpin(rule) {
    atomic { own--; store_pins() }
    hit_fence();
    if
    :: sequence % 2 == 0 && keeps(rule) ->
        !keeps(PUT_FENCE) || fence(me);
        atomic { !lock; if :: state == HELD -> end_or_hold() :: else fi }
    :: else
    fi
}

/* ---- changes of memory: core/monitor/change/change_queue.c, core/monitor/change/gate.c, cache_drain() ---- */

inline push() {
    atomic { ticket = tickets; tickets++ }
    atomic {
        claimed = slot(ticket) % 2 == 0 && slot(ticket) <= 2 * ticket;
        if :: claimed -> slot(ticket) = WRITING(ticket) :: else fi
    }
    if
    :: claimed || !keeps(CLAIM) -> slot_ours[ticket % SLOTS] = ours; slot(ticket) = WRITTEN(ticket)
    :: else -> refused = refused + keeps(COUNT)
    fi
}

proctype hook(bool ours) {
    byte ticket;
    bool claimed;

    changing = changing + ours;
    push();
    gate = gate | (keeps(MARK_FIRST) -> PENDING : 0);
    awake = true;
    atomic { memory = memory + ours; changing = changing - ours }
    atomic { gate = gate | (keeps(MARK_FIRST) -> 0 : PENDING); running-- }
}

proctype event(bool ours) { /* the kernel's change; then the thread that reads events */
    byte ticket;
    bool claimed;

    atomic { memory = memory + ours; unread++ }
    gate = gate | (keeps(READING_FIRST) -> READING : 0);
    unread--;
    gate = gate | READING;
    push();
    gate = gate | PENDING;
    gate = gate & ~READING;
    atomic { awake = true; running-- }
}

inline read_counts() {
    atomic { !reading -> reading = true }
    do
    :: counts_read < counted ->
        ours = count_ours[counts_read];
        counts_read = counts_read + (keeps(READ_LAST) -> 0 : 1);
        push();
        gate = gate | PENDING;
        atomic { awake = true; counts_read = counts_read + keeps(READ_LAST) }
    :: else -> break
    od;
    atomic { reading = false; ours = false; claimed = false; ticket = 0 }
}

#define count() count_ours[counted] = ours; counted++

proctype change(bool ours) { /* the kernel's, of a watched range under counter */
    atomic { changing = changing + ours; if :: keeps(COUNT_FIRST) -> count() :: else fi }
    atomic { memory = memory + ours; changing = changing - ours }
    atomic { if :: keeps(COUNT_FIRST) :: else -> count() fi; running-- }
}

proctype counts_thread() { /* hmreg-monitor */
    byte ticket;
    bool ours, claimed;

end:
    do
    :: counts_read < counted -> read_counts()
    od
}

inline invalidate() {
    if
    :: state == REGISTERING -> changed = true
    :: state == SERVING ->
        sequence = sequence + sequence % 2;
        state = DYING
    :: else
    fi
}

inline lose() { noted = refused; next = tickets; open = 0; invalidate() }

inline read_slot() {
    saw = slot(ticket);
    what = slot_ours[ticket % SLOTS];
    atomic {
        if
        :: saw < WRITTEN(ticket) -> open = open | (keeps(OPEN) -> 1 << ticket : 0)
        :: saw == WRITTEN(ticket) && (slot(ticket) == saw || !keeps(READ_TWICE)) ->
            if :: what -> invalidate() :: else fi
        :: else -> lose()
        fi;
        ticket = 0; saw = 0; what = false
    }
}

#define queued gate & (keeps(DRAIN_HELP) -> PENDING | DRAINING : PENDING)

/* Ends when the queue is empty, or has been read as far as it went when the drain began. */
inline drain() {
    upto = tickets;
    do
    :: !(queued) -> break
    :: atomic { !lock && queued -> lock = true }
        gate = gate | (keeps(DRAIN_BIT) -> DRAINING : 0);
        gate = gate & (keeps(CLEAR_FIRST) -> ~PENDING : ~0);
        do
        :: atomic { refused != noted -> lose() }
        :: else ->
            if
            :: atomic { finished(0) -> ticket = 0; open = open & ~1 }
            :: atomic { finished(1) -> ticket = 1; open = open & ~2 }
            :: atomic { next < tickets -> ticket = next; next++ }
            :: else ->
                gate = gate & (keeps(CLEAR_FIRST) -> ~DRAINING : ~(DRAINING | PENDING));
                lock = false;
                goto drained
            fi;
            read_slot();
            if
            :: true
            :: atomic {
                lock = false; /* after a batch */
                if
                :: next >= upto && !(keeps(OPEN_FIRST) && (finished(0) || finished(1))) ->
                    goto drained
                :: else -> break
                fi
            }
            fi
        od
    od;
drained:
    upto = 0
}

/* ---- gets and puts: core/cache/get_fast.c, core/cache/get_slow.c ---- */

#if COUNTS
#define ask_kernel(otherwise)                                                                      \
    upto = counted;                                                                                \
    if :: upto != counts_read && keeps(ASK_COUNTS) -> upto = 0; goto otherwise :: else -> upto = 0 fi;
#elif EVENTS
#define ask_kernel(otherwise) if :: unread && keeps(ASK_KERNEL) -> goto otherwise :: else fi;
#else
#define ask_kernel(otherwise)
#endif
#define look_at_gate(otherwise) if :: gate != LIVE && keeps(GATE) -> goto otherwise :: else fi;
#if BREAK == GATE_AGAIN
#define gate_or(otherwise) look_at_gate(otherwise) ask_kernel(otherwise)
#else
#define gate_or(otherwise) ask_kernel(otherwise) look_at_gate(otherwise)
#endif

proctype thread(byte me) {
    byte own, began, saw, ticket, upto, left = GETS;
    bool what;
#if COUNTS
    bool ours, claimed, looked;
#endif

again:
    do
    :: left == 0 -> break
    :: else ->
        atomic {
            left--;
            began = memory;
            assert(keeps(FORK) || gate != LIVE || sequence != known[me]) /* in a child */
        }
#if BREAK == PIN_FIRST || BREAK == GATE_FIRST
        saw = (sequence == known[me]);
#endif
        atomic { own++; store_pins() }
        hit_fence();
#if BREAK == GATE_ONCE
        saw = (gate != LIVE && sequence == known[me]);
        if
        :: atomic { saw && gate == LIVE -> saw = 0; serve() }
            goto served
        :: else -> saw = 0
        fi;
#endif
        gate_or(aside);
        if
#if BREAK == PIN_FIRST || BREAK == GATE_FIRST
        :: atomic { saw -> saw = 0; serve() }
#else
        :: atomic { sequence == known[me] -> serve() }
#endif
            goto served
        :: else
        fi;
aside:
        unpin(LAST_BACK);
#if EVENTS
        unread == 0;
        !(gate & READING) || !keeps(READING_WAIT);
#endif
#if COUNTS
settle:
        if :: looked && keeps(READ_WAIT) -> read_counts() :: else fi;
#endif
        drain();
#if COUNTS /* hit_out_of_line(): the queue is drained, but counts need not be read */
        if
        :: looked -> looked = false
        :: else ->
            looked = true;
            atomic { own++; store_pins() }
#if BREAK == GATE_BEFORE
            what = (sequence == known[me]);
#endif
            gate_or(behind);
            if
#if BREAK == GATE_BEFORE
            :: atomic { what -> what = false; looked = false; serve() }
#else
            :: atomic { sequence == known[me] -> looked = false; serve() }
#endif
                goto served
            :: else
            fi;
behind:
            what = false;
            unpin(LAST_BACK);
            goto settle
        fi;
#endif
        atomic {
            !lock;
            if
            :: state == SERVING -> /* found by its address; hot from now on */
                serve(); base++; sequence = sequence + (sequence + 1) % 2; known[me] = sequence;
                cold = false;
                goto served
            :: state == FREE && !changing -> state = REGISTERING; base++; changed = false
            :: else -> goto again /* uncached */
            fi
        }
        made = memory;
        atomic {
            !lock;
            if
            :: changed && keeps(CHANGED) -> base--; end_or_hold(); goto again
            :: else -> state = SERVING; sequence++; known[me] = sequence; users++
            fi
        }
served:
        atomic { began = 0; users-- }
        unpin(LAST_PUT)
    od;
    running--
}

/* ---- ends: core/cache/evict.c, cache_examine() ---- */

proctype evict() {
    byte cooled;

    if
    :: atomic { !lock && state == SERVING ->
        sequence = sequence + sequence % 2; cooled = sequence }
        membarrier();
        atomic {
            !lock;
            if :: state == SERVING && sequence == cooled -> cold = true :: else fi
        }
        atomic {
            !lock;
            if
            :: state == SERVING && (sequence == cooled || !keeps(COOLED_STILL)) && sum == 0 ->
                sequence = sequence + sequence % 2; cold = false; deregister()
            :: else
            fi
        }
    :: true
    fi;
    running--
}

#define QUEUED (keeps(LOOK_AT_ALL) -> PENDING | DRAINING : PENDING)
#define idle   (!(gate & QUEUED) && state != DYING)

proctype reaper() {
    byte saw, ticket, upto;
    bool what;

end:
    do
    :: awake && idle && !keeps(LOOK_AGAIN) -> awake = false
    :: awake && (!idle || keeps(LOOK_AGAIN)) ->
        drain();
        if
        :: atomic { !lock && state == DYING -> state = EXAMINED }
            if :: cold :: else -> membarrier() fi;
            atomic { !lock; cold = false; end_or_hold() }
        :: atomic { !lock && state != DYING }
        fi;
        awake = !keeps(LOOK_AGAIN);
        if :: !idle -> awake = true :: else fi
    od
}

proctype store_buffers() {
end:
    do
    :: stores[0]?pins[0]
    :: stores[1]?pins[1]
    od
}

#define start(process, count) \
    i = count; do :: i -> i--; running++; run process :: else -> break od

init {
    byte i;

    atomic {
        known[0] = 1; known[1] = 1;
        start(thread(i), THREADS);
        start(hook(true), HOOKS);
        if :: COUNTS :: else -> start(hook(false), OTHERS) fi;
        start(event(true), EVENTS);
        start(change(true), COUNTS);
        if :: COUNTS -> start(change(false), OTHERS); run counts_thread() :: else fi;
        start(evict(), EVICTIONS);
        i = 0;
        run store_buffers();
        if :: REAPER -> run reaper() :: else fi
    }
    timeout; /* no process can go on */
    assert(running == 0 && !lock && users == 0 && sum == 0);
    assert(state != REGISTERING && state != EXAMINED && state != HELD);
    assert(!REAPER || gate == LIVE && state != DYING);
    assert(gate != LIVE || state != SERVING || made == memory)
}
