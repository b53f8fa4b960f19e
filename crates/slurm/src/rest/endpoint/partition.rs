//! Calls about partitions.

use http::Method;
use serde_json::json;

use super::{CallKind, Client, Errno, Gate, Gated, RestError, Version, absent, segment};
use crate::rest::model::{Partition, PartitionWrite};

impl Client {
    pub async fn partitions(&self, since: Option<Gate>, take: impl FnMut(Partition) + Send) -> Result<Gated, RestError> {
        self.list(CallKind::ListPartitions, "partitions/", "partitions", since, take).await
    }

    pub async fn partition(&self, name: &str) -> Result<Partition, RestError> {
        let path = format!("partition/{}", segment(name));
        self.one(CallKind::GetPartition, &path, "partitions", || format!("partition `{name}`"), &[Errno::INVALID_PARTITION]).await
    }

    /// Creates or changes the partition until the next reconfigure, which restores the file's settings. Needs v0.0.45.
    pub async fn write_partition(&self, partition: &PartitionWrite) -> Result<(), RestError> {
        self.able("writing a partition", Version::writes_partitions).await?;
        self.write(CallKind::WritePartition, Method::POST, "partitions/", Some(&json!({ "partitions": [partition] }))).await.map(drop)
    }

    /// Deletes the partition until the next reconfigure. Needs v0.0.45.
    pub async fn delete_partition(&self, name: &str) -> Result<(), RestError> {
        self.able("deleting a partition", Version::writes_partitions).await?;
        let written = self.write(CallKind::DeletePartition, Method::DELETE, &format!("partition/{}", segment(name)), None::<&()>).await;
        written.map(drop).map_err(|error| absent(error, &[Errno::INVALID_PARTITION], || format!("partition `{name}`")))
    }
}
