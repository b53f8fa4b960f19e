//! Calls about slurmctld itself.

use http::Method;

use super::{CallKind, Client, RestError, Version};
use crate::rest::model::{ConfInForce, Ping, Statistics};

impl Client {
    /// Whether the controllers answer slurmrestd. Proves no token.
    pub async fn ping(&self) -> Result<Vec<Ping>, RestError> {
        let mut pings = Vec::new();
        self.list(CallKind::Ping, "ping/", "pings", None, |ping| pings.push(ping)).await?;
        Ok(pings)
    }

    /// Which configuration slurmctld runs with, and since when. Needs v0.0.45.
    pub async fn conf(&self) -> Result<ConfInForce, RestError> {
        self.able("reading the configuration in force", Version::tells_its_configuration).await?;
        self.object(CallKind::GetConf, "conf", "slurm_conf_meta").await
    }

    /// What slurmctld counts about itself. Proves no right to write: every user may read it.
    pub async fn diag(&self) -> Result<Statistics, RestError> {
        self.object(CallKind::GetDiag, "diag/", "statistics").await
    }

    /// Makes slurmctld read its files again. A success says that it was told, not that the files are good: bad ones end it afterwards.
    pub async fn reconfigure(&self) -> Result<(), RestError> {
        self.write(CallKind::Reconfigure, Method::GET, "reconfigure/", None::<&()>).await.map(drop)
    }
}
