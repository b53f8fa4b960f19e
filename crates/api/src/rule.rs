//! Rules that the API server checks, in the CEL of Kubernetes 1.29, and its message if one is broken.
//!
//! Messages of the public API stay as they are, with the remedy appended, because tools may match their beginning. A rule about a field that a client
//! may send empty (`{"name": ""}`) checks it only if it is used.

use kube::core::Rule;

fn rule(expression: impl Into<String>, message: &str, field: &str) -> Rule {
    let rule = Rule::new(expression).message(message);
    if field.is_empty() { rule } else { rule.field_path(field) }
}

/// A text field of `object`, or an empty text if it is absent.
fn text(object: &str, field: &str) -> String {
    format!("(has({object}.{field}) ? {object}.{field} : '')")
}

/// A field of the effective JWT key reference: `jwtKeyRef`, else the older `jwtHs256KeyRef`.
fn jwt(object: &str, field: &str) -> String {
    format!("(has({object}.jwtKeyRef) ? {object}.jwtKeyRef.{field} : has({object}.jwtHs256KeyRef) ? {object}.jwtHs256KeyRef.{field} : '')")
}

/// Go's syntax of a duration.
const DURATION: &str = r"^[+-]?(0|([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$";

// Keys, of Controller and Accounting.

pub(crate) fn slurm_key_given() -> Rule {
    let message = "slurmKeyRef must be set when external is false: name the Secret, and the key in it, that holds the auth/slurm key";
    rule("self.external || has(self.slurmKeyRef)", message, "")
}

pub(crate) fn slurm_key_named() -> Rule {
    let message = "slurmKeyRef.name and slurmKeyRef.key must not be empty when external is false: name the Secret, and the key in it, that holds the auth/slurm key";
    let expression = "self.external || !has(self.slurmKeyRef) || (self.slurmKeyRef.name != '' && self.slurmKeyRef.key != '')";
    rule(expression, message, ".slurmKeyRef")
}

pub(crate) fn jwt_key_given() -> Rule {
    let message = "jwtKeyRef or jwtHs256KeyRef must be set when external is false: name the Secret, and the key in it, that holds the auth/jwt key, in jwtKeyRef";
    rule("self.external || has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)", message, "")
}

pub(crate) fn jwt_key_named() -> Rule {
    let message = "jwtKeyRef.name and jwtKeyRef.key must not be empty when external is false: name the Secret, and the key in it, that holds the auth/jwt key";
    let expression = format!(
        "self.external || !(has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)) || ({} != '' && {} != '')",
        jwt("self", "name"),
        jwt("self", "key")
    );
    rule(expression, message, ".jwtKeyRef")
}

pub(crate) fn slurm_key_stays() -> Rule {
    let message = "slurmKeyRef.name cannot change, because running daemons would no longer know each other: put the new key into the Secret that is named now, or make a new cluster";
    let name = |object: &str| format!("(has({object}.slurmKeyRef) ? {object}.slurmKeyRef.name : '')");
    rule(format!("{} == {}", name("self"), name("oldSelf")), message, "")
}

pub(crate) fn jwt_key_stays() -> Rule {
    let message = "jwtKeyRef cannot change, because tokens that are in use would become worthless: put the new key into the Secret that is named now, or make a new object";
    let same = |field: &str| format!("{} == {}", jwt("self", field), jwt("oldSelf", field));
    rule(format!("{} && {}", same("name"), same("key")), message, "")
}

pub(crate) fn external_given() -> Rule {
    let message = "externalConfig must be set when external is true: say on which host and port the daemon listens";
    rule("!self.external || has(self.externalConfig)", message, "")
}

pub(crate) fn external_reachable() -> Rule {
    let message = "externalConfig needs a host and a port from 1 to 65535 when external is true: say where the daemon listens";
    let expression = "!self.external || !has(self.externalConfig) || (self.externalConfig.host.matches('^[A-Za-z0-9:._-]+$') && self.externalConfig.port >= 1 && self.externalConfig.port <= 65535)";
    rule(expression, message, ".externalConfig")
}

// Controller.

pub(crate) fn ha_has_a_shared_claim() -> Rule {
    let message = "slurm high availability (HA) mode requires existing PVC with an access mode of ReadWriteMany: set persistence.enabled to true and persistence.existingClaim to its name";
    let expression = "!has(self.ha) || !self.ha.enabled || (has(self.persistence) && self.persistence.enabled && has(self.persistence.existingClaim) && self.persistence.existingClaim != '')";
    rule(expression, message, "")
}

pub(crate) fn cluster_name_is_slurms() -> Rule {
    let message = "clusterName must have at most 40 characters, letters, digits, `_`, `-` and `.`, and not begin with `-` or `.`: choose a shorter or plainer name";
    rule("self == '' || (size(self) <= 40 && self.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]*$'))", message, "")
}

/// Compares the effective names. An empty one stands for `<namespace>_<name>`. CEL sees only the name; the namespace before it is checked where it is
/// known.
pub(crate) fn cluster_name_stays() -> Rule {
    let message = "clusterName cannot change, because slurmctld refuses the state of a cluster with another name: leave it as it is, or make a new Controller";
    let (new, old) = (text("self.spec", "clusterName"), text("oldSelf.spec", "clusterName"));
    let expression = format!(
        "{new} == {old} || ({old} == '' && {new}.endsWith('_' + self.metadata.name)) || ({new} == '' && {old}.endsWith('_' + self.metadata.name))"
    );
    rule(expression, message, ".spec.clusterName")
}

pub(crate) fn persistence_stays() -> Rule {
    let message = "persistence.enabled cannot change, because the state of the cluster would stay behind: leave it as it is, or make a new Controller";
    let enabled = |object: &str| format!("(!has({object}.persistence) || {object}.persistence.enabled)");
    rule(format!("{} == {}", enabled("self"), enabled("oldSelf")), message, "")
}

pub(crate) fn state_claim_stays() -> Rule {
    let message = "persistence.existingClaim cannot change, because the state of the cluster would stay behind: leave it as it is, or make a new Controller";
    let claim = |object: &str| format!("(has({object}.persistence) ? {} : '')", text(&format!("{object}.persistence"), "existingClaim"));
    let expression = format!("(has(self.persistence) && !self.persistence.enabled) || {} == {}", claim("self"), claim("oldSelf"));
    rule(expression, message, "")
}

// References to a Controller, of NodeSet, LoginSet and RestApi.

pub(crate) fn controller_named() -> Rule {
    rule("self.controllerRef.name != ''", "controllerRef.name must not be empty: name a Controller of the same namespace", ".controllerRef")
}

pub(crate) fn controller_stays() -> Rule {
    let message = "controllerRef cannot change, because jobs of the cluster may run here: make a new object for the other Controller";
    rule("self.controllerRef.name == oldSelf.controllerRef.name", message, ".controllerRef")
}

pub(crate) fn not_negative(field: &str) -> Rule {
    rule("self >= 0", &format!("{field} must not be negative: use 0 or more"), "")
}

// NodeSet.

pub(crate) fn extra_conf_is_items() -> Rule {
    let message = "extraConf must be Key=Value items with blanks between them, without single quotes, `#` and backslashes, and double quotes only around a whole value without blanks: write `Weight=10 Gres=gpu:8`";
    rule(r##"self.matches('^\\s*([A-Za-z][A-Za-z0-9_]*=("[^\\s\'"#\\\\]+"|[^\\s\'"#\\\\]+)(\\s+|$))*$')"##, message, "")
}

pub(crate) fn extra_conf_includes_nothing() -> Rule {
    let message = "extraConf must not have an item called Include: put files into configFileRefs of the Controller";
    rule(r"!self.matches('(?i)(^|\\s)include(\\s|=|$)')", message, "")
}

pub(crate) fn partition_is_one_line() -> Rule {
    let message = "partition.config must be one line that does not end with a backslash, or it would swallow the next line of slurm.conf: remove the line break or the backslash";
    rule(r"!self.matches('[\\r\\n]') && !self.matches('\\\\\\s*$')", message, "")
}

pub(crate) fn hostname_is_a_prefix() -> Rule {
    let message = "template.spec.hostname must be the beginning of a host name, lower-case letters, digits and `-`, at most 62 characters and at most 13 digits at the end, because the number of the node follows: write `gpu-`";
    rule("self == '' || (size(self) <= 62 && self.matches('^[a-z0-9][-a-z0-9]*$') && !self.matches('[0-9]{14}$'))", message, "")
}

pub(crate) fn sssd_named_for_ssh() -> Rule {
    let message = "ssh.sssdConfRef.name must not be empty when ssh is enabled: name the Secret that holds sssd.conf";
    rule("!self.enabled || self.sssdConfRef.name != ''", message, ".sssdConfRef")
}

pub(crate) fn claims_stay() -> Rule {
    let message = "volumeClaimTemplates cannot change, because claims that exist would not follow: make a new NodeSet";
    let claims = |object: &str| format!("(has({object}.volumeClaimTemplates) ? {object}.volumeClaimTemplates : [])");
    rule(format!("{} == {}", claims("self"), claims("oldSelf")), message, "")
}

pub(crate) fn padding_fits_slurm() -> Rule {
    rule(
        "self >= 0 && self <= 18",
        "ordinalPadding must be from 0 to 18, because Slurm reads no longer number at the end of a name: use fewer digits",
        "",
    )
}

pub(crate) fn schedule_complete() -> Rule {
    let message = "scheduledUpdate.startTime and scheduledUpdate.duration are required when type is ScheduledUpdate: say when the maintenance begins and how long it may take";
    let expression = "self.type != 'ScheduledUpdate' || (has(self.scheduledUpdate) && has(self.scheduledUpdate.startTime) && has(self.scheduledUpdate.duration))";
    rule(expression, message, "")
}

pub(crate) fn schedule_long_enough() -> Rule {
    let message = "scheduledUpdate.duration must be a duration of at least one minute, or 0s: write `30m` or `2h`";
    let expression = format!("self.matches('{DURATION}') && (duration(self) == duration('0s') || duration(self) >= duration('1m'))");
    rule(expression, message, "")
}

pub(crate) fn may_lose_one() -> Rule {
    let message =
        "maxUnavailable must be a number from 1 on or a percentage above 0%, or no node could ever be updated: write `1` or `25%`";
    rule("string(self).matches('^0*[1-9][0-9]{0,8}%?$')", message, "")
}

// LoginSet.

pub(crate) fn sssd_named() -> Rule {
    rule("self.sssdConfRef.name != ''", "sssdConfRef.name must not be empty: name the Secret that holds sssd.conf", ".sssdConfRef")
}

pub(crate) fn strategy_is_known() -> Rule {
    let message = "strategy.type must be RollingUpdate or Recreate: use one of them or leave it out";
    rule("!has(self.type) || self.type in ['', 'RollingUpdate', 'Recreate']", message, ".type")
}

pub(crate) fn recreation_is_not_rolling() -> Rule {
    let message = "strategy.rollingUpdate must not be set when strategy.type is Recreate: remove one of them";
    rule("!has(self.type) || self.type != 'Recreate' || !has(self.rollingUpdate)", message, ".rollingUpdate")
}

pub(crate) fn share_of_pods(field: &str) -> Rule {
    let message = format!("{field} must be a number or a percentage: write `1` or `25%`");
    rule("string(self).matches('^[0-9]{1,9}%?$')", &message, "")
}

pub(crate) fn rolling_moves() -> Rule {
    let message =
        "strategy.rollingUpdate.maxSurge and maxUnavailable must not both be 0, or no pod could ever be replaced: raise one of them";
    let expression = "!has(self.maxSurge) || !has(self.maxUnavailable) || !string(self.maxSurge).matches('^0+%?$') || !string(self.maxUnavailable).matches('^0+%?$')";
    rule(expression, message, "")
}

// Accounting.

pub(crate) fn database_given() -> Rule {
    let message = "storageConfig must name a host and a passwordKeyRef when external is false: say where the database is, and which Secret holds its password";
    let expression = "self.external || (has(self.storageConfig) && self.storageConfig.host != '' && self.storageConfig.passwordKeyRef.name != '' && self.storageConfig.passwordKeyRef.key != '')";
    rule(expression, message, ".storageConfig")
}

// Token.

pub(crate) fn token_key_given() -> Rule {
    let message = "jwtKeyRef or jwtHs256KeyRef must be set: name the Secret, and the key in it, that signs tokens, in jwtKeyRef";
    rule("has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)", message, "")
}

pub(crate) fn token_secret_named() -> Rule {
    let message = "username cannot be a part of the name of the Secret, because it has other characters than lower-case letters, digits, `-` and `.`: set secretRef.name";
    let expression = "(has(self.secretRef) && self.secretRef.name != '') || self.username == '' || self.username.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')";
    rule(expression, message, ".username")
}

pub(crate) fn lifetime_is_a_duration() -> Rule {
    let message = "lifetime must be a duration and not negative: write `15m` or `1h`";
    rule(format!("self.matches('{DURATION}') && !self.startsWith('-')"), message, "")
}

// Services.

pub(crate) fn port(field: &str, remedy: &str) -> Rule {
    rule("self >= 0 && self <= 65535", &format!("{field} must be from 0 to 65535: {remedy}"), "")
}

/// A name from which others are derived: Kubernetes requires a Service name to be a DNS label.
pub(crate) fn name_leaves_room(kind: &str, longest: usize) -> Rule {
    let message = format!(
        "metadata.name of {kind} must have at most {longest} characters, lower-case letters, digits and `-`, because Services are named after it: choose another name"
    );
    let expression = format!("size(self.metadata.name) <= {longest} && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')");
    rule(expression, &message, "")
}
