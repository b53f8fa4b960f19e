# shellcheck shell=sh
# Sourced by the entry points that run more than their main process.

say() {
    echo "$(basename "$0"): $*" >&2
}

# companion COMMAND...: runs it for as long as the container lives, and again when it ends, less and less eagerly.
#
# Forked twice, so that tini inherits the loop: as a child of the entry point it would become a child of the main process,
# which does not expect one. It stays in the process group to which tini passes signals.
companion() {
    (
        (
            pause=1
            while :; do
                status=0
                "$@" || status=$?
                say "'$*' ended with status $status, starting it again in $pause s"
                sleep "$pause"
                pause=$((pause < 60 ? pause * 2 : 60))
            done
        ) &
    )
}

# Starts sssd where the image has it and the pod configures it. Its absence is no fault: users may come with the job.
start_sssd() {
    if command -v sssd >/dev/null && [ -s /etc/sssd/sssd.conf ]; then
        mkdir -p /run/dbus
        # shellcheck disable=SC2086 # several words by contract
        companion sssd -i ${SSSD_OPTIONS:-}
    fi
}

# Makes what sshd needs; host keys that are mounted stay as they are. False where sshd could not run.
prepare_sshd() {
    mkdir -p /run/sshd && ssh-keygen -A >/dev/null && /usr/sbin/sshd -t
}
