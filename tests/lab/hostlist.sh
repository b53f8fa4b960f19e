#!/bin/sh
# Asks the real scontrol what each expression on standard input stands for: `expression TAB names TAB list TAB sorted`, or
# `expression TAB !reason`. Names are separated by blanks; `list` is made of them in that order, `sorted` of each once.
set -eu
mount -t tmpfs tmpfs /lab
printf 'ClusterName=c\nSlurmctldHost=ctl\n' >/lab/slurm.conf
export SLURM_CONF=/lab/slurm.conf
while IFS= read -r line; do
    expression=$(printf '%b.' "$line")
    expression=${expression%.}
    code=0
    timeout -s KILL 3 scontrol show hostnames "$expression" >/lab/names 2>/lab/errors || code=$?
    if [ "$code" -ne 0 ] || [ -s /lab/errors ]; then
        printf '%s\t!%s\n' "$line" "$(head -n 1 /lab/errors | sed 's/^scontrol: error: //' | cut -c1-100)"
        continue
    fi
    names=$(tr '\n' ' ' </lab/names)
    # Names that Slurm made of nested brackets it cannot read again.
    list=$(scontrol show hostlist "$(tr '\n' ',' </lab/names)" 2>/dev/null || echo '?')
    sorted=$(scontrol show hostlistsorted "$(sort -u /lab/names | tr '\n' ',')" 2>/dev/null || echo '?')
    printf '%s\t%s\t%s\t%s\n' "$line" "${names% }" "$list" "$sorted"
done
