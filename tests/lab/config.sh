#!/bin/sh
# Starts the real slurmctld, and a slurmd, once for each case and prints `case TAB verdict TAB message`.
# Runs in mount and process namespaces of its own, inside the root of the unpacked images. Standard input has one line for each file
# of a case: `case file mode content`, the content as `printf %b` reads it.
set -eu

if [ "${1:-}" != one ]; then
    mount -t proc proc /proc
    mount -t tmpfs tmpfs /lab
    printf '127.0.0.1 localhost\n10.9.8.7 ctl\n' >/lab/hosts
    mount --bind /lab/hosts /etc/hosts
    printf '%s' "$SCRIPT" >/lab/script
    while read -r name file _ content; do
        mkdir -p "/lab/case/$name"
        printf '%b' "$content" >"/lab/case/$name/$file"
    done
    printf 'a key for one machine, for as long as this script runs' | tee /lab/jwt.key >/lab/slurm.key
    # slurmctld takes the key beside its file; slurmd, which has no file yet, the one in the usual place.
    mount -t tmpfs tmpfs /etc/slurm
    for folder in /etc/slurm /lab/case/*; do
        cp /lab/slurm.key "$folder/slurm.key"
    done
    chown -R slurm:slurm /lab /etc/slurm
    chmod 600 /lab/jwt.key /etc/slurm/slurm.key /lab/case/*/slurm.key
    find /lab/case -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort |
        xargs -P 4 -I '{}' unshare --net --pid --mount --propagation unchanged --uts --ipc --fork --kill-child=KILL -- sh /lab/script one '{}'
    exit 0
fi

name=$2
conf=/lab/case/$name/slurm.conf
hostname ctl
ip link set lo up
ip address add 10.9.8.7/32 dev lo
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/spool
mkdir -p /run/slurmctld /var/spool/slurmctld/c /var/spool/slurmd
printf c >/var/spool/slurmctld/c/clustername
chown -R slurm:slurm /run/slurmctld /var/spool/slurmctld

# Lines that say nothing, or that a busy machine makes.
NOISE='Unable to process configuration file|attempt number|High latency for|System GPU detection'

verdict() {
    # The line that says it best: what is fatal, else the first error. Time stamps and the names of folders differ from run to run.
    line=$(tr -d '\000\t' <"$2" | grep -aE "$3" | grep -avE "$NOISE" | head -n 1 |
        sed -E "s/^\[[^]]*\] //; s/^(scontrol|slurmctld|slurmd): //; s#/lab/case/$name/##g" | cut -c1-150)
    printf '%s\t%s\t%s\n' "$name" "$1" "$line"
    exit 0
}

answers() {
    timeout 1 bash -c "exec 3<>/dev/tcp/10.9.8.7/$1 && printf 'GET $2 HTTP/1.1\r\nHost: ctl\r\n\r\n' >&3 && read -r status <&3 &&
        [[ \$status == *' 204 '* ]]" 2>/dev/null
}

# Waits until process $1 answers on port $2 (0), has ended (1) or has done neither in time (2).
until_ready() {
    tries=0
    while [ "$tries" -lt 60 ]; do
        if answers "$2" "$3"; then return 0; fi
        if ! kill -0 "$1" 2>/dev/null; then return 1; fi
        tries=$((tries + 1))
        sleep 0.04
    done
    return 2
}

code=0
SLURM_CONF=$conf timeout -k 1 2 scontrol --version >/run/parse 2>&1 || code=$?
case $code in
0) ;;
124 | 137 | 139) verdict H /run/parse . ;;
*) verdict P /run/parse 'rror|nvalid|fatal|not|No ' ;;
esac

setpriv --reuid 401 --regid 401 --clear-groups slurmctld -D -f "$conf" >/run/log 2>&1 &
state=0
until_ready $! 6817 /readyz || state=$?
case $state in
1)
    if grep -aq 'fatal:' /run/log; then verdict F /run/log 'fatal:'; else verdict F /run/log 'error:'; fi
    ;;
2) verdict H /run/log 'error:|etry' ;;
esac

slurmd -D -Z --conf-server ctl -N w1 --conf Feature=x >/run/worker 2>&1 &
state=0
until_ready $! 6818 /livez || state=$?
# It answers before it has asked to join.
tries=0
while [ "$state" -eq 0 ] && [ "$tries" -lt 60 ] && ! SLURM_CONF=$conf timeout 1 scontrol show node w1 >/dev/null 2>&1; do
    if ! kill -0 $! 2>/dev/null; then state=1; fi
    tries=$((tries + 1))
    sleep 0.02
done
if [ "$state" -eq 1 ]; then
    if grep -aq 'fatal:' /run/worker; then verdict W /run/worker 'fatal:'; else verdict W /run/worker 'error:'; fi
fi
if grep -a 'error:' /run/log | grep -avqE "$NOISE"; then verdict E /run/log 'error:'; fi
printf '%s\tU\t\n' "$name"
