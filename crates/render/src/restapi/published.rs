//! The configuration published by a Controller, as far as slurmrestd reads it.

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_api::{annotation, digest, image};
use slipway_slurm::conf_check::file::ConfFile;

/// The slurm.conf in a Controller's ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// As the Controller published it.
    Conf {
        hash: String,
        /// True if it names a slurmdbd.
        has_accounting: bool,
    },
    /// Edited by others. The edit is about to be undone.
    Edited,
    /// Not published yet.
    Nothing,
}

impl Published {
    /// Reads a live ConfigMap.
    pub fn of_config_map(body: &Value) -> Self {
        let published = body["metadata"]["annotations"][annotation::SLURM_CONF_HASH].as_str();
        match (published, body["data"][image::SLURM_CONF].as_str()) {
            (Some(hash), Some(conf)) if hash == hash_of(conf) => {
                let storage = ConfFile::parse(conf).last("AccountingStorageType").map(|(_, value)| value.to_ascii_lowercase());
                let has_accounting = storage.is_some_and(|storage| storage.ends_with("slurmdbd"));
                Self::Conf { hash: hash.to_owned(), has_accounting }
            }
            (Some(_), _) => Self::Edited,
            (None, _) => Self::Nothing,
        }
    }
}

/// The hash of the slurm.conf among `files`.
pub(crate) fn conf_hash(files: &BTreeMap<String, Vec<u8>>) -> String {
    hash_of(files.get(image::SLURM_CONF).map(Vec::as_slice).unwrap_or_default())
}

fn hash_of(conf: impl AsRef<[u8]>) -> String {
    digest::of_map(&BTreeMap::from([(image::SLURM_CONF.to_owned(), conf)]))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn config_map(conf: &str) -> Value {
        json!({ "metadata": { "annotations": { annotation::SLURM_CONF_HASH: hash_of(conf) } }, "data": { "slurm.conf": conf, "gres.conf": "" } })
    }

    #[rstest]
    #[case::none("AccountingStorageType=accounting_storage/none", false)]
    #[case::slurmdbd("AccountingStorageType=accounting_storage/slurmdbd", true)]
    #[case::last_counts("AccountingStorageType=accounting_storage/slurmdbd\naccountingstoragetype=accounting_storage/none", false)]
    #[case::default("ClusterName=a", false)]
    fn a_published_configuration_says_whether_there_is_a_slurmdbd(#[case] conf: &str, #[case] has_accounting: bool) {
        let hash = hash_of(conf);
        assert_eq!(Published::of_config_map(&config_map(conf)), Published::Conf { hash, has_accounting });
    }

    #[test]
    fn only_slurm_conf_counts() {
        let before = config_map("ClusterName=a");
        let mut after = before.clone();
        after["data"]["gres.conf"] = "AutoDetect=nvidia".into();
        assert_eq!(Published::of_config_map(&before), Published::of_config_map(&after));
        assert_ne!(Published::of_config_map(&before), Published::of_config_map(&config_map("ClusterName=b")));
    }

    #[test]
    fn an_edit_by_others_is_seen_as_such() {
        let mut edited = config_map("ClusterName=a");
        edited["data"]["slurm.conf"] = "ClusterName=b".into();
        assert_eq!(Published::of_config_map(&edited), Published::Edited);
        edited["data"] = json!({});
        assert_eq!(Published::of_config_map(&edited), Published::Edited);
        assert_eq!(Published::of_config_map(&json!({ "metadata": {}, "data": { "slurm.conf": "" } })), Published::Nothing);
    }
}
