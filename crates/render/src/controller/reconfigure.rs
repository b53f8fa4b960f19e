//! Sidecar that runs `scontrol reconfigure` when the configuration files have changed.

use serde_json::{Value, json};
use slipway_api::{Raw, env, image, volume};

use crate::merge;

/// Bash script. It reads the files before slurmctld does, because the kubelet starts it first.
const SCRIPT: &str = include_str!("reconfigure.sh");

/// Name of the file in [`volume::APPLIED`].
const APPLIED_FILE: &str = "hash";

/// The sidecar container. It runs in slurmctld's image unless the user names another: any image with tini, bash, sha256sum and scontrol works.
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
