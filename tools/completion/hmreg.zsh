#compdef hmreg hmreg-simulated
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Completion of hmreg(1) and hmreg-simulated(1) for zsh, installed as _hmreg and _hmreg-simulated: what bash's file of
# that name offers, which is installed beside this folder.

local file=${${(%):-%x}:A} word
local -a plain folders
file=${file:h}/../../bash-completion/completions/${${file:t}#_}
for word in "${(@f)$(bash "$file" "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
    if [[ $word == */ ]]; then folders+=("$word"); elif [[ $word ]]; then plain+=("$word"); fi
done
(($#plain == 0)) || compadd -- $plain
(($#folders == 0)) || compadd -S '' -- $folders
