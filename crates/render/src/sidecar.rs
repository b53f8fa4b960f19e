//! Sidecar that prints a daemon's log file as container output.

use serde_json::{Value, json};
use slipway_api::{Raw, env, image, volume};

use crate::merge;

/// The daemon writes into a FIFO. The FIFO is created once and never replaced, or the daemon would keep writing into a deleted one. `cat` exits
/// when the last writer closes, so it is restarted. `cat` runs in the background because a shell handles a signal only between foreground commands.
const SCRIPT: &str = r#"trap 'exit 0' TERM
trap 'exit 1' HUP INT
[ -p "$SOCKET" ] || mkfifo -m 777 "$SOCKET"
while :; do
  cat "$SOCKET" &
  wait $!
done
"#;

/// The sidecar container, which prints `fifo`. It runs in the daemon's image unless the user names another: any image with sh, mkfifo and cat
/// works.
pub(crate) fn container(user: Option<&Raw>, daemon_image: &str, fifo: &str) -> Value {
    let base = json!({
        "name": "logfile",
        "image": daemon_image,
        "command": ["sh", "-c", SCRIPT],
        "restartPolicy": "Always",
        "env": [{ "name": env::SOCKET, "value": fifo }],
        "volumeMounts": [{ "name": volume::LOGFILE, "mountPath": image::LOG_DIR }],
    });
    merge::container(base, user)
}

pub(crate) fn volume() -> Value {
    json!({ "name": volume::LOGFILE, "emptyDir": { "medium": "Memory" } })
}

pub(crate) fn mount() -> Value {
    json!({ "name": volume::LOGFILE, "mountPath": image::LOG_DIR })
}
