//! Calls about slurmctld itself.

use http::Method;

use super::{CallKind, Client, RestError, Version};
use crate::rest::model::{ConfInForce, Ping, Statistics};

impl Client {
    /// Pings the controllers through slurmrestd. Does not verify the token.
    pub async fn ping(&self) -> Result<Vec<Ping>, RestError> {
        let mut pings = Vec::new();
        self.list(CallKind::Ping, "ping/", "pings", None, |ping| pings.push(ping)).await?;
        Ok(pings)
    }

    /// The configuration that slurmctld runs, and since when. Needs v0.0.45.
    pub async fn conf(&self) -> Result<ConfInForce, RestError> {
        self.able("reading the configuration in force", Version::tells_its_configuration).await?;
        self.object(CallKind::GetConf, "conf", "slurm_conf_meta").await
    }

    /// slurmctld's statistics. Does not prove permission to write: every user may read them.
    pub async fn diag(&self) -> Result<Statistics, RestError> {
        self.object(CallKind::GetDiag, "diag/", "statistics").await
    }

    /// Makes slurmctld reread its files. Success means that it received the request, not that the files are valid: invalid ones make it exit
    /// afterwards.
    pub async fn reconfigure(&self) -> Result<(), RestError> {
        self.write(CallKind::Reconfigure, Method::GET, "reconfigure/", None::<&()>).await.map(drop)
    }
}
