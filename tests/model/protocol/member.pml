/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model for spin(1) of a group's member that is withdrawn and replaced (core/cache/group_member.c,
 * core/mr/column.c): one thread withdraws it and puts another in its place, while others get, use
 * and put a cached region, and register one of their own, explicit or cached. Only the member's
 * column of each region is modelled. check.sh lets spin visit every state, then breaks one rule at a
 * time. In every state
 *
 *     no get or registration that begins after the withdrawal has returned has the old key;
 *     the old member's registration ends when no caller has the region that has seen its key;
 *     after the replacement has ended, each region that others may use has the new key, or is
 *     counted as failed;
 *     at the end nothing is registered on the old member.
 *
 * Assumptions: a section under the group's or the pool's lock is one step, and so is a look at the
 * pins after the barrier.
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define SAY_FIRST    1 /* member the member is marked as withdrawn before regions are visited */
#define KEYS_GO      2 /* member a withdrawal takes the keys out of regions */
#define SETTLE       3 /* member who makes a region visible looks once more whether it is outdated */
#define LEFT_STAYS   4 /* member what a region has left stays registered while others hold it */
#define ENTER_ONCE   5 /* member a registration is entered where the region still lacks the member */
#define ALL_REGIONS  6 /* member ... of all regions */
#define COUNT_FAILED 7 /* member ... and counts what it cannot fill */
#define LATE_TOO     8 /* member a region that left the member out, and is visible late, gets it */
#define keeps(rule) (BREAK != rule)

mtype = { NONE, OLD, NEW };

#define CACHED 0
#define MINE   1

mtype key[2];      /* of the region's column */
bool visible[2];   /* to a visit */
bool withdrawn[2]; /* the region does without the member since that was withdrawn */
bool left[2];      /* still registered on the old one, apart */
byte pins[2], seen[2]; /* holders of the region; of these, those with the old key */

bool out;          /* the member is withdrawn from the group */
mtype member = OLD;
bool is_out, is_in; /* for the assertions: the withdrawal, the replacement has returned */
byte failed, old;   /* registrations on the old one */
byte running;

inline end_left(region) {
    atomic {
        if
        :: left[region] && (pins[region] == 0 || !keeps(LEFT_STAYS)) ->
            assert(seen[region] == 0);
            left[region] = false;
            old--
        :: else
        fi
    }
}

/* Under the group's lock. */
inline outdate(region) {
    atomic {
        if
        :: key[region] != NONE && (out || key[region] != member) ->
            left[region] = true;
            withdrawn[region] = true;
            key[region] = NONE
        :: else
        fi
    }
}

/* Registers, and then enters the registration, if it is still wanted, under the group's lock. */
inline fill(region) {
    if
    :: visible[region] && withdrawn[region] && !out ->
        if :: failing = true :: failing = false fi;
        atomic {
            if
            :: (withdrawn[region] || !keeps(ENTER_ONCE)) && failing ->
                withdrawn[region] = false;
                if :: keeps(COUNT_FAILED) -> failed++ :: else fi
            :: (withdrawn[region] || !keeps(ENTER_ONCE)) && !failing ->
                assert(key[region] == NONE);
                withdrawn[region] = false;
                key[region] = NEW
            :: else
            fi
        }
    :: else
    fi
}

inline hold(region) {
    atomic {
        pins[region]++;
        has = (key[region] == OLD);
        seen[region] = seen[region] + has
    }
}

inline release(region) {
    atomic {
        seen[region] = seen[region] - has;
        pins[region]--
    }
}

proctype get() {
    bool after, has;

    after = is_out;
    hold(CACHED);
    assert(!(after && has));
    release(CACHED);
    running--
}

/* A registration of its own: it chooses the members, registers, and is visible. */
proctype register() {
    bool after, has, failing;

    after = is_out;
    atomic {
        if
        :: out -> withdrawn[MINE] = true
        :: else -> key[MINE] = member; old = old + (member == OLD)
        fi
    }
    visible[MINE] = true;
    if :: keeps(SETTLE) -> outdate(MINE) :: else fi;
    if :: keeps(LATE_TOO) -> fill(MINE) :: else fi;
    hold(MINE);
    assert(!(after && has));
    release(MINE);
    running--
}

proctype replace() {
    bool failing;

    if :: keeps(SAY_FIRST) -> out = true :: else fi;
    if
    :: keeps(KEYS_GO) ->
        if :: visible[CACHED] -> outdate(CACHED) :: else fi;
        if :: visible[MINE] -> outdate(MINE) :: else fi
    :: else
    fi;
    out = true;
    is_out = true;
    end_left(CACHED);
    end_left(MINE);
    atomic { member = NEW; out = false }
    fill(CACHED);
    if :: keeps(ALL_REGIONS) -> fill(MINE) :: else fi;
    is_in = true;
    running--
}

init {
    byte have;

    atomic {
        key[CACHED] = OLD; visible[CACHED] = true; key[MINE] = NONE; old = 1; running = 4;
        run get(); run get(); run register(); run replace()
    }
    timeout; /* no process can go on */
    assert(running == 0);
    have = (key[CACHED] == NEW) + (key[MINE] == NEW);
    assert(have + failed == 2);
    end_left(CACHED);
    end_left(MINE);
    assert(old == 0)
}
