#!/bin/bash
# One task of a job: writes the time into a journal of its own each second, and whether it came to its end.
journal=/soak/$1.${SLURM_ARRAY_TASK_ID:-0}.${SLURM_PROCID:-0}.$SLURMD_NODENAME.${EPOCHREALTIME/[.,]/}
trap 'echo killed >>"$journal"; exit 1' TERM
for ((second = 0; second < $2; second++)); do
  echo "${EPOCHREALTIME/[.,]/}" >>"$journal"
  sleep 1
done
printf '%s\nend\n' "${EPOCHREALTIME/[.,]/}" >>"$journal"
