//! Every string of the public API that other products match, against a copy of its tables in `well_known/strings.tsv`.

use std::collections::BTreeSet;

use slipway_api::{annotation, condition, env, event::action, event::reason, image, label, label::Component, slurm_node, volume};

fn ours() -> BTreeSet<(&'static str, String)> {
    let file = |name: &str| format!("{}/{name}", image::CONFIG_DIR);
    let pair = |name: &str, value: &str| format!("{name}={value}");
    let port = |name: &str, number: i32| format!("{name}={number}");
    let tables: Vec<(&'static str, Vec<String>)> = vec![
        (
            "label",
            texts(&[
                label::NAME,
                label::INSTANCE,
                label::COMPONENT,
                label::CLUSTER,
                label::CONTROLLER_ACTIVE,
                label::POD_NAME,
                label::POD_INDEX,
                label::POD_HOSTNAME,
                label::POD_PROTECT,
                label::SCALING_MODE,
                label::TEMPLATE_HASH,
            ]),
        ),
        ("daemon", texts(&Component::ALL.map(Component::daemon))),
        ("component", texts(&Component::ALL.map(Component::part))),
        (
            "annotation",
            texts(&[
                annotation::POD_CORDON,
                annotation::POD_DELETION_COST,
                annotation::POD_DEADLINE,
                annotation::NODE_CORDON_REASON,
                annotation::HOSTNAME_OVERRIDE,
                annotation::TOPOLOGY,
                annotation::FEATURES,
                annotation::DEFAULT_CONTAINER,
                annotation::SLURM_KEY_HASH,
                annotation::JWT_KEY_HASH,
                annotation::SLURM_CONFIG_HASH,
                annotation::SLURMDBD_CONF_HASH,
                annotation::SSHD_CONF_HASH,
                annotation::SSSD_CONF_HASH,
                annotation::SSH_HOST_KEYS_HASH,
            ]),
        ),
        ("finalizer", texts(&[annotation::RESERVATION_FINALIZER])),
        ("taint", texts(&[label::WORKER_TAINT])),
        ("feature prefix", texts(&[slurm_node::FEATURE_PREFIX])),
        ("reason prefix", texts(&[slurm_node::REASON_PREFIX])),
        ("pod condition prefix", texts(&[slurm_node::CONDITION_PREFIX, slurm_node::RESERVED_CONDITION_PREFIX])),
        ("base state", texts(&slurm_node::BASE_STATES)),
        ("state flag", texts(&slurm_node::STATE_FLAGS)),
        ("condition", texts(&[condition::RESERVATION_CREATED])),
        ("condition reason", texts(&[condition::CREATED, condition::NOT_EXISTS])),
        (
            "environment",
            vec![
                env::TOPOLOGY.to_owned(),
                env::POD_CPUS.to_owned(),
                env::POD_MEMORY.to_owned(),
                env::SACKD_OPTIONS.to_owned(),
                pair(env::SLURM_JWT, env::SLURM_JWT_VALUE),
                pair(env::SLURMRESTD_SECURITY, env::SLURMRESTD_SECURITY_VALUE),
                env::SOCKET.to_owned(),
                pair(env::SLURM_USER, image::SLURM_USER),
            ],
        ),
        (
            "port",
            vec![
                port(Component::Controller.daemon(), image::SLURMCTLD_PORT),
                port(Component::Worker.daemon(), image::SLURMD_PORT),
                port(Component::Accounting.daemon(), image::SLURMDBD_PORT),
                port(Component::RestApi.daemon(), image::SLURMRESTD_PORT),
                port(Component::Login.daemon(), image::SSH_PORT),
                port(image::WORKER_SSH_PORT_NAME, image::SSH_PORT),
                port("health", image::HEALTH_PORT),
                port("metrics", image::METRICS_PORT),
                port("webhook", image::WEBHOOK_PORT),
            ],
        ),
        ("user", vec![format!("{}={}", image::SLURM_USER, image::SLURM_UID), format!("nobody={}", image::NOBODY_UID)]),
        (
            "path",
            vec![
                image::CONFIG_DIR.to_owned(),
                file(image::SLURM_KEY_FILE),
                file(image::JWT_KEY_FILE),
                file(image::JWKS_FILE),
                image::STATE_DIR.to_owned(),
                image::SLURMD_SPOOL_DIR.to_owned(),
                image::SLURMCTLD_LOG.to_owned(),
                image::SLURMD_LOG.to_owned(),
                image::SACK_SOCKET.to_owned(),
            ],
        ),
        (
            "volume",
            vec![
                pair(volume::ETC, image::CONFIG_DIR),
                pair(volume::CONFIG, volume::CONFIG_PATH),
                pair(volume::RUN, volume::RUN_PATH),
                pair(volume::LOGFILE, image::LOG_DIR),
                pair(volume::AUTH_SOCKET, volume::AUTH_SOCKET_PATH),
                volume::STATESAVE.to_owned(),
                pair(volume::SACKD, volume::SACKD_PATH),
                volume::SSH_CONFIG.to_owned(),
                volume::SSH_HOST_KEYS.to_owned(),
                volume::SSSD_CONF.to_owned(),
            ],
        ),
        (
            "event reason",
            texts(&[
                reason::CREATE_SUCCEEDED,
                reason::CREATE_FAILED,
                reason::PATCH_FAILED,
                reason::DELETE_SUCCEEDED,
                reason::DELETE_FAILED,
                reason::SYNC_FAILED,
                reason::SYNC_FINALIZER_FAILED,
                reason::SCALING_UP,
                reason::SCALING_DOWN,
                reason::ROLLING_UPDATE,
                reason::SCHEDULED_UPDATE,
                reason::NODE_CORDON,
                reason::SLURM_NODE_NOT_REGISTERED,
                reason::DEFUNCT_SLURM_NODE_PRUNED,
                reason::CONTROLLER_REF_FAILED,
                reason::HOSTNAME_MISMATCH,
                reason::FAILED_DAEMON_POD,
                reason::SUCCEEDED_DAEMON_POD,
                reason::CONFLICTING_CONTROLLER,
                reason::SUCCESSFUL_CREATE,
                reason::FAILED_CREATE,
                reason::SUCCESSFUL_UPDATE,
                reason::FAILED_UPDATE,
                reason::SUCCESSFUL_DELETE,
                reason::FAILED_DELETE,
            ]),
        ),
        (
            "event action",
            texts(&[
                action::CREATE,
                action::DELETE,
                action::UPDATE,
                action::PATCH,
                action::SYNC,
                action::SYNC_FINALIZER,
                action::SCALE_UP,
                action::SCALE_DOWN,
                action::ROLLING_UPDATE,
                action::SCHEDULED_UPDATE,
                action::CORDON,
                action::INFO,
            ]),
        ),
    ];
    tables.into_iter().flat_map(|(kind, strings)| strings.into_iter().map(move |string| (kind, string))).collect()
}

fn texts(strings: &[&str]) -> Vec<String> {
    strings.iter().map(|string| (*string).to_owned()).collect()
}

#[test]
fn strings_are_those_of_the_public_api() {
    let public: BTreeSet<(&str, String)> = include_str!("well_known/strings.tsv")
        .lines()
        .skip(1)
        .map(|line| line.split_once('\t').unwrap())
        .map(|(kind, string)| (kind, string.to_owned()))
        .collect();
    let ours = ours();
    let missing: Vec<_> = public.difference(&ours).collect();
    let strange: Vec<_> = ours.difference(&public).collect();
    assert!(missing.is_empty() && strange.is_empty(), "not ours: {missing:?}; not the public API's: {strange:?}");
}

#[test]
fn selectors_are_written_as_status_shows_them() {
    assert_eq!(Component::Worker.selector_text("w"), "app.kubernetes.io/instance=w,app.kubernetes.io/name=slurmd");
    assert_eq!(Component::Login.selector_text("l"), "app.kubernetes.io/instance=l,app.kubernetes.io/name=login");
}
