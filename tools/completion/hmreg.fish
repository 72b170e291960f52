# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Completion of hmreg(1) and hmreg-simulated(1) for fish, installed as hmreg.fish and hmreg-simulated.fish: what bash's
# file of that name offers, which is installed beside this folder.

function __hmreg_complete # FILE
    set -l words (commandline -opc) (commandline -ct)
    bash $argv[1] $words 2>/dev/null
end

set -l name (basename (status filename) .fish)
set -l file (dirname (status filename))/../../bash-completion/completions/$name
complete -c $name -f -a "(__hmreg_complete "(string escape -- $file)")"
