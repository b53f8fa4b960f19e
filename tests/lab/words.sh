#!/bin/sh
# Prints each line `key severity word` of standard input whose word the real programs do not know.
# A key that refuses or tells of unknown words is asked by setting it. One that takes any word in silence cannot be asked: there the word
# has to stand among the strings of the programs, as a word or as the end of one, since the linker keeps one copy of equal endings.
set -eu
mount -t tmpfs tmpfs /lab
export SLURM_CONF=/lab/slurm.conf
cd /usr/lib/*/slurm-wlm
for program in ./*.so /usr/sbin/slurmctld-wlm /usr/sbin/slurmd-wlm /usr/sbin/slurmstepd-wlm /usr/sbin/slurmdbd /usr/bin/srun /usr/bin/sbatch /usr/bin/salloc; do
    tr -c '[:print:]' '\n' <"$program"
done | LC_ALL=C tr '[:upper:]' '[:lower:]' | grep -E '.{3}' | LC_ALL=C sort -u >/lab/strings
while read -r key severity word; do
    if [ "$severity" = silent ]; then
        pattern=$(printf '%s' "${word%=}" | tr '[:upper:]' '[:lower:]')
        if ! LC_ALL=C grep -qE "(^|[^a-z0-9_])$pattern([^a-z0-9_]|\$)|$pattern=?\$" /lab/strings; then
            printf '%s %s: in no program\n' "$key" "$word"
        fi
        continue
    fi
    printf 'ClusterName=c\nSlurmctldHost=ctl\n%s=%s\n' "$key" "$word" >/lab/slurm.conf
    scontrol --version >/lab/answer 2>&1 || true
    # What only lacks another key beside it is known.
    if grep -E 'Invalid|Bad|invalid$' /lab/answer >/lab/refusal; then
        printf '%s %s: %s\n' "$key" "$word" "$(head -n 1 /lab/refusal)"
    fi
done
