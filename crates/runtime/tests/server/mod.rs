//! A separate namespace for each test, on the shared API server or on the test's own.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(unreachable_pub, reason = "a module of tests")]

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use slipway_bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::turn::Turn;
use slipway_bed::up::{Wanted, up};

/// Name of the bed whose API server tests share.
const SHARED: &str = "SLIPWAY_SHARED_API";

/// An API server and a namespace.
pub struct Server {
    pub client: Client,
    pub namespace: String,
    bed: Bed,
    is_shared: bool,
    _turn: Turn,
}

impl Server {
    pub async fn new(name: &str) -> Self {
        let cache = Cache::open().unwrap();
        let namespace = format!("{name}-{}", std::process::id());
        let shared = std::env::var(SHARED).ok().filter(|name| !name.is_empty());
        let is_shared = shared.is_some();
        let turn = Turn::take(&cache, 0).await.unwrap();
        let bed = match shared {
            Some(name) => Bed::open(&cache, &name.parse().unwrap()).unwrap(),
            None => up(&cache, &Wanted::api_only(namespace.parse().unwrap())).await.unwrap(),
        };
        let client = bed.client().await.unwrap();
        let object =
            Namespace { metadata: kube::core::ObjectMeta { name: Some(namespace.clone()), ..Default::default() }, ..Default::default() };
        Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
        Self { client, namespace, bed, is_shared, _turn: turn }
    }

    /// Removes what belongs to the test.
    pub async fn end(self) {
        if self.is_shared {
            Api::<Namespace>::all(self.client).delete(&self.namespace, &DeleteParams::default()).await.unwrap();
        } else {
            self.bed.down().unwrap();
        }
    }
}
