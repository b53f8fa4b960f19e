#!/bin/sh
# Starts the real slurmdbd, beside a real MariaDB, once for each case and prints `case TAB verdict TAB message`.
# Runs in mount and process namespaces of its own, inside the root of the unpacked images. Standard input has one line for each file
# of a case: `case file mode content`, the content as `printf %b` reads it.
set -eu

if [ "${1:-}" != one ]; then
    mount -t tmpfs tmpfs /lab
    printf '%s' "$SCRIPT" >/lab/script
    exec unshare --net --uts --ipc -- sh /lab/script one
fi

hostname dbd
ip link set lo up
# Without an address beside the loopback's own, slurmdbd's resolver finds nothing to listen on.
ip address add 10.9.8.7/32 dev lo
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /etc/slurm
printf '127.0.0.1 localhost\n10.9.8.7 dbd db\n' >/lab/hosts
mount --bind /lab/hosts /etc/hosts
# The database's client asks a name server that does not answer again and again, for longer than we wait.
printf 'passwd: files\ngroup: files\nhosts: files\n' >/lab/nsswitch.conf
mount --bind /lab/nsswitch.conf /etc/nsswitch.conf
mkdir /run/slurmdbd
printf 'a key for one machine, for as long as this script runs' | tee /lab/jwt.key >/etc/slurm/slurm.key
while read -r name file mode content; do
    mkdir -p "/lab/case/$name"
    printf '%b' "$content" >"/lab/case/$name/$file"
    chmod "$mode" "/lab/case/$name/$file"
done
chmod 600 /lab/jwt.key /etc/slurm/slurm.key
chown -R slurm:slurm /run/slurmdbd /lab/jwt.key /etc/slurm /lab/case

for folder in tmp run var/lib/mysql; do
    mount -t tmpfs -o mode=1777 tmpfs "/database/$folder"
done
mkdir -m 1777 /database/run/mysqld
mount --rbind /dev /database/dev
# The `#` has to be written `\#` in slurmdbd.conf.
MARIADB_PASSWORD='p#w' chroot --userspec=999:999 /database /usr/local/sbin/mariadb-entrypoint >/lab/mariadb 2>&1 &
database=$!

is_open() {
    bash -c "exec 3<>/dev/tcp/127.0.0.1/$1" 2>/dev/null
}

until is_open 3306; do
    if ! kill -0 "$database"; then
        cat /lab/mariadb >&2
        exit 1
    fi
    sleep 0.1
done

# What the machine is to blame for: the file belongs to another, and a small database is enough here.
NOISE='chown\(/dev/null|attempt number|Database settings not recommended'

verdict() {
    line=$(grep -aE "$2" /lab/log | grep -avE "$NOISE" | head -n 1 | sed -E "s/^\[[^]]*\] //; s#/etc/slurm/##g; s#/lab/case/$name/##g" | cut -c1-150)
    printf '%s\t%s\t%s\n' "$name" "$1" "$line"
}

# What slurmdbd says when it waits for something that will not come.
WAITS='database must be up|running in background mode'

find /lab/case -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort >/lab/names
# The first start makes the tables, which takes seconds and is nobody's verdict.
{ echo good-base; cat /lab/names; } | while read -r name; do
    rm -f /etc/slurm/slurmdbd.conf
    cp -p "/lab/case/$name/slurmdbd.conf" /etc/slurm/slurmdbd.conf
    : >/lab/log
    setpriv --reuid 401 --regid 401 --clear-groups slurmdbd -D >/lab/log 2>&1 &
    pid=$!
    tries=0
    while [ "$tries" -lt 500 ] && kill -0 "$pid" 2>/dev/null && ! is_open 6819 && ! grep -aqE "$WAITS" /lab/log && ! is_open 7819; do
        tries=$((tries + 1))
        sleep 0.02
    done
    if ! kill -0 "$pid" 2>/dev/null; then
        if grep -aq 'fatal:' /lab/log; then verdict F 'fatal:'; else verdict F 'error:'; fi
    elif ! is_open 6819; then
        verdict H 'error:|background'
    elif grep -a 'error:' /lab/log | grep -avqE "$NOISE"; then
        verdict E 'error:'
    else
        printf '%s\tU\t\n' "$name"
    fi
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
done
