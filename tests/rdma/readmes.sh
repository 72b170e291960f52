#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: the commands of the examples' READMEs that begin in it. `./run guest COMMAND` as they have it runs the
# command here, which is where the real one would; nothing else of their text differs.
. "$SOURCE_DIR/tests/package/cases.sh"
. "$SOURCE_DIR/tests/package/shown.sh"
printf '#!/bin/sh\n[ "$1" = guest ] && shift && exec "$@"\n' >"$work/run"
chmod +x "$work/run"

for readme in "$SOURCE_DIR"/examples/*/README.md; do
    name=${readme%/*}
    for ((number = 1; number <= $(shown_count "$readme"); number++)); do
        # Several processes print in any order.
        [[ $(shown_command "$readme" "$number") != *'./run guest '* ]] ||
            check "readme__of_${name##*/}__command_$number" prints_what_is_shown "$readme" "$number" sort
    done
done
finish
