//! The sidecar that turns a daemon's log file into container output.

use serde_json::{Value, json};
use slipway_api::{Raw, env, image, volume};

use crate::merge;

/// The daemon writes into a FIFO. The FIFO is made once and never replaced, or the daemon would go on writing into a deleted one;
/// `cat` ends when the last writer closes, so it is started again. `cat` runs in the background because a shell heeds a signal
/// only between foreground commands.
const SCRIPT: &str = r#"trap 'exit 0' TERM
trap 'exit 1' HUP INT
[ -p "$SOCKET" ] || mkfifo -m 777 "$SOCKET"
while :; do
  cat "$SOCKET" &
  wait $!
done
"#;

/// Prints `fifo`. Runs in the daemon's own image unless the user names another: any with sh, mkfifo and cat will do.
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
