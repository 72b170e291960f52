/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model for spin(1) of a lost domain (core/context/lost.c, core/mr/undone.c): one thread calls
 * hmreg_domain_lost() while others get a cached region, register another, cached or not, and wait
 * for that. The fabric may not return from any call. check.sh lets spin visit every state, then
 * breaks one rule at a time. In every state
 *
 *     no get hits that begins after the domain is marked;
 *     no registration is returned that the fabric makes after hmreg_domain_lost() has returned;
 *     no region is deregistered between a get that returned it and its put;
 *     only the domain's own thread, and the one that registers, are in a call that hangs;
 *     if none hangs, no region is registered at the end.
 *
 * Assumptions: a section under the pool's lock is one step, and so is a pass over the pins after
 * the barrier (hit.pml has the barrier).
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define GATE_SHUT    1 /* gone a get looks at the gate */
#define PINS_FIRST   2 /* gone ... after it has pinned the region */
#define NOT_HELD     3 /* gone the call ends regions without a pin only */
#define PUT_ENDS     4 /* gone the last put ends the others */
#define CLAIMS_TOO   5 /* gone regions that are being registered are not published */
#define LOOK_AGAIN   6 /* gone a registration looks whether the domain is lost after it too */
#define WAITERS_TOO  7 /* gone threads that wait for a registration go on */
#define OWN_THREAD   8 /* gone a thread of the domain's own deregisters, no caller's */
#define keeps(rule) (BREAK != rule)

mtype = { FREE, PENDING, LIVE, ENDING, QUEUED };

/* Region 0 is cached; region 1 is being registered. */
mtype state[2];
bool registered[2], changed;
byte pins[2];

bool lost, shut;
bool marked, returned; /* for the assertions: lost_mark(), the call has */
byte callers;              /* threads in a call */
bool hangs;                /* some call did */

/* A thread in a call that does not return ends here. */
inline fabric() {
    if
    :: true
    :: hangs = true; goto stuck
    fi
}

/* With the lock held, or by the only one that has it. */
inline deregister(region) {
    assert(pins[region] == 0);
    if
    :: keeps(OWN_THREAD) -> state[region] = QUEUED
    :: else -> fabric(); registered[region] = false
    fi
}

inline unpin(region) {
    atomic {
        pins[region]--;
        if
        :: state[region] == ENDING && pins[region] == 0 && keeps(PUT_ENDS) -> deregister(region)
        :: else
        fi
    }
}

proctype get() {
    bool after, open;

    after = marked;
    if
    :: keeps(PINS_FIRST) -> pins[0]++; open = !shut
    :: else -> open = !shut && state[0] == LIVE; pins[0]++
    fi;
    if
    :: (open || !keeps(GATE_SHUT)) && (state[0] == LIVE || !keeps(PINS_FIRST)) ->
        assert(!after && state[0] != QUEUED && registered[0])
    :: else
    fi;
    unpin(0);
    callers--;
stuck:
    skip
}

proctype lose() {
    lost = true;
    shut = true;
    marked = true;
    atomic { if :: state[0] == LIVE -> state[0] = ENDING :: else fi }
    atomic {
        if :: state[1] == LIVE -> state[1] = ENDING :: else fi;
        if :: keeps(CLAIMS_TOO) -> changed = true :: else fi
    }
    atomic {
        if
        :: state[0] == ENDING && (pins[0] == 0 || !keeps(NOT_HELD)) -> deregister(0)
        :: else
        fi
    }
    atomic {
        if
        :: state[1] == ENDING && (pins[1] == 0 || !keeps(NOT_HELD)) -> deregister(1)
        :: else
        fi
    }
    returned = true;
    callers--;
stuck:
    skip
}

proctype register() {
    bool cached, after, ok;

    if :: cached = true :: cached = false fi;
    if
    :: lost -> goto out
    :: else
    fi;
    if
    :: cached -> atomic { state[1] = PENDING; pins[1]++; changed = lost }
    :: else -> pins[1]++
    fi;
    callers--; /* what began before may hang */
    fabric();
    callers++;
    atomic { registered[1] = true; after = returned }
    if
    :: cached -> /* published, or discarded */
        atomic {
            ok = !changed;
            if :: ok -> state[1] = LIVE :: else -> state[1] = ENDING fi
        }
    :: else ->
        ok = !(lost && keeps(LOOK_AGAIN));
        state[1] = ENDING
    fi;
    assert(!(ok && after));
    unpin(1);
out:
    callers--;
stuck:
    skip
}

proctype wait() {
    if
    :: state[1] == PENDING ->
        if
        :: state[1] != PENDING
        :: changed && keeps(WAITERS_TOO)
        fi
    :: else
    fi;
    callers--
}

proctype own_thread() {
end:
    do
    :: atomic { state[0] == QUEUED -> state[0] = FREE } fabric(); registered[0] = false
    :: atomic { state[1] == QUEUED -> state[1] = FREE } fabric(); registered[1] = false
    od;
stuck:
    skip
}

init {
    atomic {
        state[0] = LIVE; state[1] = FREE; registered[0] = true; callers = 4;
        run get(); run lose(); run register(); run wait(); run own_thread()
    }
    timeout; /* no process can go on */
    assert(callers == 0);
    assert(hangs || !(registered[0] || registered[1]))
}
