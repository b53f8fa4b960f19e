#!/bin/sh
# Changes a template containerd root, in namespaces that end with this script: golden.sh ROOT [forget NAME | import FILE | expect NAME]...
# A throw-away containerd does it, because only containerd knows how its databases and snapshots belong together.
set -eu
root=$1
shift

mount -t tmpfs tmpfs /run
cat >/run/containerd.toml <<TOML
version = 2
root = "$root"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.native",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "/run/opt"
TOML
containerd --config /run/containerd.toml --log-level warn &
containerd=$!

images() {
    ctr --address /run/containerd.sock --namespace k8s.io images "$@"
}

until images ls -q >/run/names 2>/run/answer; do
    if ! kill -0 "$containerd"; then
        cat /run/answer
        exit 1
    fi
    sleep 0.05
done

while [ $# -gt 1 ]; do
    case $1 in
    forget) images rm --sync "$2" ;;
    import) images import --snapshotter overlayfs "$2" ;;
    expect)
        if ! images ls -q | grep -Fqx "$2"; then
            echo "$2 is not among the images that were imported"
            exit 1
        fi
        ;;
    esac
    shift 2
done

kill "$containerd"
wait "$containerd"
