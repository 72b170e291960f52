# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Sourced by tests of examples: runs the commands that a README shows, as "$ COMMAND" and its output, in a folder in
# which build/dev is the build. … stands for what may differ, to the end of the output too.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/build"
ln -s "$BUILD_DIR" "$work/build/dev"

shown_count() { # README
    grep -cE '^\$ ' "$1"
}

# Its own text; a line that ends in \ goes on in the next.
shown_command() { # README NUMBER
    awk -v number="$2" '/^\$ / { on = ++count == number; sub(/^\$ /, "") } on { print } !/\\$/ { on = 0 }' "$1" |
        sed 's/ *# or: .*//'
}

shown_output() { # README NUMBER
    awk -v number="$2" '/^```/ { on = command = 0 } on && !command { print } command && !/\\$/ { command = 0 }
                        /^\$ / { on = ++count == number; command = on && /\\$/ }' "$1" | sed '/^\$ /,$d'
}

# FILTER: a command through which both outputs go, as sort does for those of several processes.
prints_what_is_shown() { # README NUMBER [FILTER]
    local filter=${3-cat} output shown pattern
    shown=$(shown_output "$1" "$2" | $filter)
    pattern=$(sed 's/[][\\*?]/\\&/g; s/…/*/g' <<<"$shown")
    output=$(cd "$work" && bash -c "$(shown_command "$1" "$2")" 2>&1) || { echo "$output"; return 1; }
    output=$($filter <<<"$output")
    printf 'printed:\n%s\nshown:\n%s\n' "$output" "$shown"
    # shellcheck disable=SC2053
    [[ $pattern && $output == $pattern ]]
}
