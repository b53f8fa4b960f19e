#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{ConfigMapKeyRef, External, PodTemplate, Raw, SecretKeyRef, ServiceTemplate, rule, schema};

/// Slurm's accounting daemon (slurmdbd), which keeps the records of jobs in a database.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "slinky.slurm.net",
    version = "v1beta1",
    kind = "Accounting",
    plural = "accountings",
    singular = "accounting",
    shortname = "slurmdbd",
    namespaced,
    status = "AccountingStatus",
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "Accounting runs slurmdbd, which keeps the records of jobs in a database.",
    validation = rule::name_leaves_room("an Accounting", 52)
)]
#[x_kube(
    validation = rule::slurm_key_given(),
    validation = rule::slurm_key_named(),
    validation = rule::jwt_key_given(),
    validation = rule::jwt_key_named(),
    validation = rule::jwt_key_stays(),
    validation = rule::external_given(),
    validation = rule::external_reachable(),
    validation = rule::database_given()
)]
#[serde(rename_all = "camelCase")]
pub struct AccountingSpec {
    /// Secret key that holds the auth/slurm key: the one of the Controllers that report here. Required unless `external` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_key_ref: Option<SecretKeyRef>,
    /// Secret key that holds the auth/jwt (HS256) key. Required unless `external` is true; it cannot point elsewhere later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt_key_ref: Option<SecretKeyRef>,
    /// Deprecated: the former name of `jwtKeyRef`, used where that is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt_hs256_key_ref: Option<SecretKeyRef>,
    /// ConfigMap key that holds a JSON Web Key Set, by which slurmdbd accepts tokens of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_key_ref: Option<ConfigMapKeyRef>,
    /// Whether slurmdbd runs outside this Kubernetes. Then nothing is started, and `externalConfig` says where it listens.
    #[serde(default)]
    pub external: bool,
    /// Where slurmdbd listens when `external` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_config: Option<External>,
    /// The slurmdbd container: a Kubernetes Container, merged over the one that the operator generates. `image` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurmdbd: Option<Raw>,
    /// Pod template of slurmdbd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
    /// The database. Required unless `external` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_config: Option<Storage>,
    /// Lines appended to slurmdbd.conf as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_conf: Option<String>,
    /// The Service of slurmdbd, `<name>-accounting`, on port 6819.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTemplate>,
}

/// The database of slurmdbd: MariaDB or MySQL.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Host name or address of the database.
    pub host: String,
    /// Port of the database.
    #[serde(default = "mysql")]
    #[schemars(schema_with = "schema::integer")]
    #[x_kube(validation = rule::port("storageConfig.port", "leave it out for 3306"))]
    pub port: i64,
    /// Name of the database.
    #[serde(default = "slurm_acct_db")]
    pub database: String,
    /// User of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Secret key that holds the password of that user.
    pub password_key_ref: SecretKeyRef,
}

fn mysql() -> i64 {
    3306
}

fn slurm_acct_db() -> String {
    "slurm_acct_db".to_owned()
}

/// What was last seen of an Accounting.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountingStatus {
    /// Whether slurmdbd is up, and what it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
