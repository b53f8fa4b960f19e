# shellcheck shell=bash
# Asks slurmctld to read its configuration again when the files in $CONFIG_DIR changed.
#
# $APPLIED_FILE remembers the files that slurmctld runs with: a restart of this script causes nothing, and what could not be done, or was not
# this slurmctld's to do, is done later. $SLURMCTLD is host/port of the slurmctld beside, set where there are several.
set -u -o pipefail
child=
trap '[[ -z $child ]] || kill "$child"; exit 0' TERM
trap 'exit 1' HUP INT

# In the background, because a shell heeds a signal only between foreground commands.
run() {
  "$@" &
  child=$!
  wait "$child"
}

# The kubelet swaps the link ..data, so its target has all files of one moment, or goes away as a whole. Keys are left out: a new key
# replaces the pod.
digest() (
  cd "$1" || exit
  shopt -s dotglob nullglob
  names=()
  for file in *; do
    case $file in slurm.key | jwt.key) ;; *) names+=("$file") ;; esac
  done
  sha256sum -- "${names[@]}" | sha256sum
)

# Whether the slurmctld beside is in charge: 0 yes, 1 no, 2 unknown. One alone always is.
ask() {
  [[ -n ${SLURMCTLD:-} ]] || return 0
  { exec 3<>"/dev/tcp/$SLURMCTLD"; } || return 2
  printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
  read -r -t 5 _ status _ <&3 || return 2
  case $status in 204) return 0 ;; 500) return 1 ;; *) return 2 ;; esac
} 2>/dev/null

remember() {
  applied=$1
  printf '%s\n' "$applied" >"$APPLIED_FILE.new" && mv "$APPLIED_FILE.new" "$APPLIED_FILE"
}

applied=
[[ ! -s $APPLIED_FILE ]] || applied=$(<"$APPLIED_FILE")
files=$applied
looked_at=/nonexistent
noes=0
while :; do
  if ! [[ $CONFIG_DIR/..data -ef $looked_at ]]; then
    now=$(cd -P "$CONFIG_DIR/..data" && pwd) && found=$(digest "$now") && files=$found && looked_at=$now && noes=0
    [[ -n $applied || -z $files ]] || remember "$files"
  fi
  if [[ $files != "$applied" ]]; then
    run ask
    case $? in
    0)
      noes=0
      echo 'the configuration changed: asking slurmctld to read it'
      if run timeout 60 scontrol reconfigure; then
        remember "$files"
        echo 'slurmctld reads it'
      else
        echo 'slurmctld did not take it: trying again'
        run sleep 1
      fi
      ;;
    1)
      # A slurmctld in standby reads the files when it takes over, so there is nothing to ask of it. One in charge says no as well, for the
      # moment that a reconfigure takes: hence the patience.
      noes=$((noes + 1))
      [[ $noes -lt 10 ]] || remember "$files"
      ;;
    *) noes=0 ;;
    esac
  fi
  run sleep 1
done
