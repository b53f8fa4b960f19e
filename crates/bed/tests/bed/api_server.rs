use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use slipway_bed::cache::Cache;
use slipway_bed::turn::Turn;
use slipway_bed::up::{Wanted, up};

use crate::unique;

#[tokio::test]
async fn two_api_servers_share_one_etcd_and_write_down_every_write() {
    let cache = Cache::open().unwrap();
    let _turn = Turn::take(&cache, 0).await.unwrap();
    let bed = up(&cache, &Wanted { api_servers: 2, ..Wanted::api_only(unique("two")) }).await.unwrap();
    let first: Api<ConfigMap> = Api::namespaced(bed.client_of(0).await.unwrap(), "default");
    let second: Api<ConfigMap> = Api::namespaced(bed.client_of(1).await.unwrap(), "default");
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("written-once".into()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("key".to_owned(), "value".to_owned())])),
        ..ConfigMap::default()
    };
    first.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(second.get("written-once").await.unwrap().data, map.data);
    let audit = std::fs::read_to_string(bed.layout().audit_log()).unwrap();
    let writes = audit.lines().filter(|line| line.contains("written-once")).count();
    assert_eq!(writes, 1, "the read was written down too, or the write was not:\n{audit}");
    bed.down().unwrap();
}
