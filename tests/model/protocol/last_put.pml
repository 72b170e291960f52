/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model for spin(1) of an entry that ends with its last put (core/cache/holders.h): a thread that
 * holds it and puts it, threads that get its memory or other memory through tables in which it is,
 * or by address, a change of its memory, and the entry's next use. check.sh lets spin visit every
 * state, then breaks one rule at a time. In every state
 *
 *     no region is deregistered between a get that returned it and its put;
 *     no get returns the region of another use than that whose range it looked at;
 *     when a put returns, the region is deregistered, unless a get has returned it that is not put,
 *     or is about to return it, or another put of it has not returned;
 *     at the end no region is registered.
 *
 * Assumptions: a section under the pool's lock is one step; operations on the entry's holders and
 * its sequence are, and other threads see them in order, as sequentially consistent operations and
 * release stores. Nothing here depends on when a store to a pin is seen.
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define NOT_FROM_ZERO 1 /* last_put   no get becomes the holder of an entry without one */
#define SAME_USE      2 /* last_put   ... or of another use than that which it looked at */
#define LOOK_FIRST    3 /* last_put   a get looks whether the entry serves before that */
#define LAST_ENDS     4 /* last_put   the put that leaves no holder ends the entry */
#define NOT_PINS      5 /* last_put   the number of holders counts, not the sum of the pins */
#define IN_THE_PUT    6 /* last_put   the region is deregistered before that put returns */
#define keeps(rule) (BREAK != rule)

byte use, holders; /* one word: the sequence when the use began, and the number */
bool live = true;  /* found by address, and the sequence is still that */
bool registered = true, freed;
byte pins;

/* For the assertions: gets that returned the region and are not put; gets that are about to; puts
 * that have not returned; processes that run. */
byte users, coming, putting, running;

inline leave() {
    atomic {
        holders--;
        last = (keeps(NOT_PINS) -> holders == 0 : pins == 0) && keeps(LAST_ENDS)
    }
    if
    :: last ->
        live = false; /* under the lock */
        atomic {
            assert(registered && users == 0);
            if :: keeps(IN_THE_PUT) -> registered = false; freed = true :: else fi
        }
    :: else
    fi
}

inline put() {
    atomic { users--; putting++; pins-- }
    leave();
    atomic { putting--; assert(users || putting || coming || !registered) }
}

/* A get of the memory of that use. */
proctype get(byte asked) {
    bool last, serves;

    if
    :: atomic { use == 0 && live -> pins++ } /* its table has the first use: pinned to look */
        serves = (use == asked);
        if
        :: atomic { (serves || !keeps(LOOK_FIRST)) && (use == 0 || !keeps(SAME_USE)) &&
                    (holders || !keeps(NOT_FROM_ZERO)) -> holders++; coming = coming + serves }
            if
            :: atomic { serves -> coming--; assert(registered && use == asked); users++ }
                put()
            :: else -> pins--; leave()
            fi
        :: else -> pins--
        fi
    :: atomic { live && use == asked && holders -> holders++; pins++; users++; assert(registered) }
        put()
    :: true
    fi;
    running--
}

proctype holder() {
    bool last;

    put();
    running--
}

proctype change() {
    live = false;
    running--
}

proctype next_use() {
    bool last;

    if
    :: atomic { freed -> freed = false; use++; holders = 1; live = true; registered = true;
        users++; pins++ }
        put()
    :: true
    fi;
    running--
}

init {
    atomic {
        holders = 1; users = 1; pins = 1; running = 5;
        run holder(); run get(0); run get(1); run change(); run next_use()
    }
    timeout; /* no process can go on */
    assert(running == 0 && users == 0 && holders == 0 && !registered)
}
