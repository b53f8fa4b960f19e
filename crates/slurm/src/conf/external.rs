//! slurm.conf for clients of a slurmctld that has its own.

use super::{AccountingHost, Layout, Text};
use crate::name::{ClusterName, HostName};

/// The settings that slurmrestd needs for an external slurmctld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalConf {
    pub cluster_name: ClusterName,
    pub host: HostName,
    pub port: u16,
    pub accounting: Option<AccountingHost>,
}

impl ExternalConf {
    /// The file's text.
    pub fn text(&self, layout: &Layout) -> String {
        let Self { cluster_name, host, port, accounting } = self;
        let mut file = Text::default();
        file.section("GENERAL");
        file.set("ClusterName", &[cluster_name]);
        file.set("SlurmUser", &[&layout.slurm_user]);
        file.set("SlurmctldHost", &[host]);
        file.set("SlurmctldPort", &[port]);
        file.addresses([Some(host), accounting.as_ref().map(|accounting| &accounting.host)]);
        file.plugins();
        file.accounting(accounting.as_ref());
        file.0
    }
}
