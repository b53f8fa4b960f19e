//! The sidecar that asks slurmctld to read its files again when they changed.

use serde_json::{Value, json};
use slipway_api::{Raw, env, image, volume};

use crate::merge;

/// Runs in bash. Its first look at the files is before slurmctld's, because the kubelet starts it first.
const SCRIPT: &str = include_str!("reconfigure.sh");

/// The file in [`volume::APPLIED`].
const APPLIED_FILE: &str = "hash";

/// Runs in slurmctld's own image unless the user names another: any with tini, bash, sha256sum and scontrol will do.
pub(super) fn container(user: Option<&Raw>, daemon_image: &str, replicas: i32) -> Value {
    let mut variables = vec![
        json!({ "name": env::CONFIG_DIR, "value": image::CONFIG_DIR }),
        json!({ "name": env::APPLIED_FILE, "value": format!("{}/{APPLIED_FILE}", volume::APPLIED_PATH) }),
    ];
    if replicas > 1 {
        let own = format!("127.0.0.1/{}", image::SLURMCTLD_PORT);
        variables.push(json!({ "name": env::SLURMCTLD, "value": own }));
    }
    let base = json!({
        "name": "reconfigure",
        "image": daemon_image,
        "command": ["tini", "-g", "--", "bash", "-c", SCRIPT],
        "restartPolicy": "Always",
        "env": variables,
        "volumeMounts": [
            { "name": volume::ETC, "mountPath": image::CONFIG_DIR, "readOnly": true },
            { "name": volume::AUTH_SOCKET, "mountPath": volume::AUTH_SOCKET_PATH, "readOnly": true },
            { "name": volume::APPLIED, "mountPath": volume::APPLIED_PATH },
        ],
    });
    merge::container(base, user)
}

pub(super) fn volume() -> Value {
    json!({ "name": volume::APPLIED, "emptyDir": {} })
}

#[cfg(test)]
mod tests;
