/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model for spin(1) of a file that is loaded beside memhooks (core/monitor/memhooks/memhooks.c,
 * core/patch/modules.c, monitor_look()). There are the dynamic linker, which loads and unloads a
 * file whose calls no hook hears, and a thread that gets memory, looks for such files, and in some
 * scenes installs the hooks. check.sh lets spin visit every state, then breaks one rule at a time.
 * In every state
 *
 *     a get hits no region whose memory the file had changed before the get began;
 *     once the linker has ended, a look ends too.
 *
 * A look that finds the file in a list gives memhooks up.
 *
 * Assumptions about the dynamic linker, and the C that relies on them:
 *
 *  - It maps a file's first segment, which reserves the place of all, and its code into that. Then
 *    it enters the file in a list, and only then runs code of the file. The list says that it is
 *    not whole from before the file is entered; before glibc 2.35 from before anything is mapped
 *    (modules_are_settled()).
 *  - From glibc 2.35 on (FIND) _dl_find_object() knows the file before its code runs, and until
 *    before it is unmapped. It is in the list as long as that (is_listed()).
 *  - No mmap of the linker's that began before the hooks were installed is still in the kernel when
 *    the first look after that searches the mappings.
 *  - dl_iterate_phdr(3) is one step: it locks the lists.
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define CODE_TOLD      1 /* load       a hook shuts the gate when a file's code is mapped */
#define NOTED_FIRST    2 /* load       it notes what is mapped before it counts the load */
#define ENTERED        3 /* load       a look fails until the linker has entered what it mapped */
#define GONE           4 /* load       ... unless that is unmapped: then it forgets the note */
#define SAME_NOTE      5 /* load       ... but not another note of that place */
#define LOADS_FIRST    6 /* load       it reads the number of loads before the lists */
#define LOADS_AGAIN    7 /* load       ... and compares it when it has opened the gate */
#define STAYS_SHUT     8 /* load       the gate stays shut when a look has failed */
#define CAME_AND_WENT  9 /* load       a file that came and went has changed all memory */
#define LOOK_AGAIN    10 /* install    the first get after the hooks are installed looks again */
#define WALKED        11 /* install    that look searches the mappings for a file in no list */
#define SAME_FILES    12 /* install    a look before the hooks holds only if no file came since */
#define ENTERED_FIRST 13 /* install    a look asks what is entered before it reads the lists */
#define WHOLE         14 /* load_older a look fails while a list is not whole */
#define keeps(rule) (BREAK != rule)

/* The file: its place is mapped, its code is, it is in the list, _dl_find_object() knows it. The
 * list is whole. */
bool place, code, listed, entered, whole = true;
byte added; /* entries in the list so far */

/* memhooks.c: the hooks, walked. monitor.c: GATE_LOOKING, another monitor. hook_call.c:
 * linker_mapped, as the number of loads when it was noted. */
bool hooked = INSTALLED, walked = INSTALLED, looking, gave_up;
byte noted, loads, looked = INSTALLED; /* loads at the last look, and one; 0: none */
byte looked_added, looked_listed;      /* looked_at */

/* For the assertions: changes by the file; those before the region was made. */
byte memory, made;
bool cached, ended;

/* ---- the dynamic linker, and the hook in its mmap: hook_call.c, on_file() ---- */

inline map_file() {
    place = true;
    if
    :: atomic { !hooked -> code = true }
    :: hooked ->
        note = loads + 1;
        if :: keeps(NOTED_FIRST) -> noted = note :: else fi;
        loads++;
        looking = keeps(CODE_TOLD);
        if :: keeps(NOTED_FIRST) :: else -> noted = note fi;
        code = true
    fi
}

inline enter() {
    atomic { listed = true; added++ }
    if
    :: entered = FIND; whole = true
    :: whole = true; entered = FIND
    fi
}

inline unmap() { atomic { code = false; place = false } }

inline unload() {
    whole = false;
    entered = false;
    if
    :: unmap(); listed = false
    :: listed = false; unmap()
    fi;
    whole = true
}

proctype linker() {
    byte left = LOADS, note;

    do
    :: left == 0 -> break
    :: left > 0 && listed -> left--; unload()
    :: left > 0 && listed -> memory++; left-- /* the file's call */
    :: left > 0 && !listed ->
        left--;
        if
        :: whole = false
        :: FIND
        fi;
        map_file();
        if
        :: whole = false; enter()
        :: unmap(); whole = true /* it cannot be loaded */
        fi
    od;
    ended = true
}

/* ---- looks ---- */

/* has_entered() */
inline ask_entered() {
    note = noted;
    was_entered = !note || entered || !FIND || !keeps(ENTERED);
    if
    :: !was_entered && !place && keeps(GONE) ->
        atomic { noted = (noted == note || !keeps(SAME_NOTE) -> 0 : noted); was_entered = true }
    :: else
    fi;
    note = 0
}

/* check_settled() */
inline settle(files, present) {
    if :: keeps(ENTERED_FIRST) -> ask_entered() :: else fi;
    atomic { was_whole = whole || !keeps(WHOLE); files = added; present = listed }
    if :: keeps(ENTERED_FIRST) :: else -> ask_entered() fi;
    settled = settled && was_whole && was_entered;
    was_whole = false; was_entered = false
}

/* check_unlisted(): reads no list, asks _dl_find_object() of each mapping */
inline search() { settled = settled && !(code && !entered && FIND) }

inline walk() {
    if
    :: walked || !keeps(WALKED)
    :: else -> search()
    fi;
    walked = settled
}

/* check_bypass() */
inline look_for_calls() {
    if
    :: listed -> gave_up = true; cached = false
    :: else
    fi
}

/* memhooks_open(), take_first_look() */
inline install() {
    settled = true;
    settle(files, present);
    if :: settled -> search() :: else fi;
    if :: settled -> look_for_calls() :: else fi;
    if
    :: settled && !gave_up ->
        looked_added = files; looked_listed = present;
        atomic { noted = 0; walked = false; looked = 0; hooked = true }
        looking = keeps(LOOK_AGAIN);
        saw = loads;
        walk();
        settle(files_now, present_now);
        if
        :: settled && (files_now == files && present_now == present || !keeps(SAME_FILES)) ->
            looked = saw + 1
        :: else
        fi;
        settled = true
    :: else
    fi
}

/* memhooks_look() */
inline look() {
    settled = true;
    saw = (keeps(LOADS_FIRST) -> loads : 0);
    if
    :: looked == saw + 1 && keeps(LOADS_FIRST)
    :: else ->
        walk();
        if :: settled -> settle(files, present) :: else fi;
        if :: settled -> look_for_calls() :: else fi;
        if
        :: settled && !gave_up ->
            atomic { files_now = added; present_now = listed } /* modules_are_settled() */
            if
            :: keeps(CAME_AND_WENT) && files_now != looked_added &&
               files_now - looked_added != present_now - looked_listed -> cached = false
            :: else
            fi;
            looked_added = files; looked_listed = present;
            saw = (keeps(LOADS_FIRST) -> saw : loads);
            looked = saw + 1
        :: else
        fi
    fi
}

/* monitor_look() */
inline look_while_shut() {
    settled = true;
    do
    :: !looking || gave_up || !settled -> break
    :: else ->
        look();
        if
        :: settled || !keeps(STAYS_SHUT) ->
            looking = false;
            if :: loads != saw && keeps(LOADS_AGAIN) -> looking = true :: else fi
        :: else
        fi
    od
}

inline get() {
    began = memory;
    settled = true;
    if :: !hooked && !gave_up -> install() :: else fi;
    if :: hooked && !gave_up -> look_while_shut() :: else fi;
    if
    :: gave_up || !hooked || !settled /* uncached, or another monitor's */
    :: else ->
        if
        :: cached -> assert(made >= began)
        :: else -> made = memory; cached = true
        fi
    fi;
    atomic {
        files = 0; present = 0; files_now = 0; present_now = 0; saw = 0; began = 0
    }
}

init {
    byte began, saw, files, present, files_now, present_now, left = GETS;
    byte note;
    bool settled, was_whole, was_entered;

    run linker();
    do
    :: left == 0 -> break
    :: else -> left--; get()
    od;
    ended;
    get();
    assert(gave_up || settled)
}
