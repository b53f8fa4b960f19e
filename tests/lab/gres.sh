#!/bin/sh
# Starts the real slurmctld and a slurmd once for each case and prints `case TAB Gres TAB state TAB reason TAB job TAB what slurmd found`.
# Runs in mount and process namespaces of its own, inside the root of the unpacked images. Standard input has one line for each case:
# `case GresTypes gres.conf Gres job`, each as `printf %b` reads it and `-` for none; a job is asked for with that --gres.
set -eu

if [ "${1:-}" != one ]; then
    mount -t proc proc /proc
    mount -t tmpfs tmpfs /lab
    printf '127.0.0.1 localhost\n10.9.8.7 ctl w1\n' >/lab/hosts
    mount --bind /lab/hosts /etc/hosts
    mount -t tmpfs tmpfs /etc/slurm
    printf '%s' "$SCRIPT" >/lab/script
    printf 'a key for one machine, for as long as this script runs' >/etc/slurm/slurm.key
    while read -r name types conf gres job; do
        mkdir -p "/lab/case/$name"
        cat >"/lab/case/$name/slurm.conf" <<CONF
ClusterName=c
SlurmUser=slurm
SlurmctldHost=ctl
SlurmctldPort=6817
StateSaveLocation=/var/spool/slurmctld/c
SlurmdUser=root
SlurmdPort=6818
SlurmdSpoolDir=/var/spool/slurmd
MaxNodeCount=64
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
SlurmctldParameters=enable_configless
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
ReturnToService=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
NodeSet=x Feature=x
PartitionName=x Nodes=x Default=YES
CONF
        if [ "$types" != - ]; then printf 'GresTypes=%b\n' "$types" >>"/lab/case/$name/slurm.conf"; fi
        if [ "$conf" != - ]; then printf '%b\n' "$conf" >"/lab/case/$name/gres.conf"; fi
        printf 'CgroupPlugin=disabled\n' >"/lab/case/$name/cgroup.conf"
        printf '%b' "$gres" >"/lab/case/$name/gres"
        printf '%b' "$job" >"/lab/case/$name/job"
        cp /etc/slurm/slurm.key "/lab/case/$name/slurm.key"
    done
    chown -R slurm:slurm /lab /etc/slurm
    chmod 600 /etc/slurm/slurm.key /lab/case/*/slurm.key
    find /lab/case -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort |
        xargs -P 4 -I '{}' unshare --net --pid --mount --propagation unchanged --uts --ipc --fork --kill-child=KILL -- sh /lab/script one '{}'
    exit 0
fi

name=$2
hostname ctl
ip link set lo up
ip address add 10.9.8.7/32 dev lo
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/spool
mkdir -p /run/slurmctld /var/spool/slurmctld/c /var/spool/slurmd
printf c >/var/spool/slurmctld/c/clustername
chown -R slurm:slurm /run/slurmctld /var/spool/slurmctld

export SLURM_CONF="/lab/case/$name/slurm.conf"
setpriv --reuid 401 --regid 401 --clear-groups slurmctld -D -f "$SLURM_CONF" >/run/log 2>&1 &
slurmctld=$!
# A busy machine needs long for what takes an instant otherwise; whoever ends is not waited for.
tries=0
while [ "$tries" -lt 1000 ] && kill -0 "$slurmctld" 2>/dev/null && ! timeout 1 scontrol ping 2>/dev/null | grep -q UP; do
    tries=$((tries + 1))
    sleep 0.05
done

gres=$(cat "/lab/case/$name/gres")
items=Feature=x
if [ "$gres" != - ]; then items="$items Gres=$gres"; fi
(unset SLURM_CONF && exec slurmd -D -v -Z --conf-server ctl -N w1 --conf "$items") >/run/worker 2>&1 &
slurmd=$!
tries=0
while [ "$tries" -lt 1000 ] && kill -0 "$slurmd" 2>/dev/null && ! timeout 1 scontrol show node w1 >/dev/null 2>&1; do
    tries=$((tries + 1))
    sleep 0.05
done
# A node is known before what it reported was judged.
tries=0
while [ "$tries" -lt 10 ] && ! timeout 1 scontrol show node w1 2>/dev/null | grep -q INVALID_REG; do
    tries=$((tries + 1))
    sleep 0.05
done
timeout 1 scontrol show node w1 >/run/node 2>&1 || true
field() {
    sed -nE "s/^.*[[:blank:]]$1=([^ ]*).*\$/\1/p" /run/node | head -n 1
}
reason=$(sed -nE 's/^ *Reason=(.*) \[.*$/\1/p' /run/node)
job=$(cat "/lab/case/$name/job")
ran=-
if [ "$job" != - ]; then
    ran=no
    if timeout 10 srun --immediate=3 --gres="$job" true >/run/job 2>&1; then ran=yes; fi
fi
found=$(sed -nE 's/^.*Gres Name=([^ ]*) Type=([^ ]*) Count=([0-9]*) .*$/\1 \2 \3/p' /run/worker | sed 's/(null)/-/' | tr '\n' ' ')
if grep -aqE 'fatal: |Bad GRES|Invalid GRES' /run/worker; then found='!'; fi
printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$(field Gres)" "$(field State)" "${reason:--}" "$ran" "${found% }"
