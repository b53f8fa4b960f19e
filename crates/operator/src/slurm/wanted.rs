//! Sessions that should exist.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube::ResourceExt;
use slipway_api::{RestApi, SecretKeyRef};

use super::{Address, Sources};

/// Key of a Controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub controller: String,
}

impl Key {
    pub fn new(namespace: &str, controller: &str) -> Self {
        Self { namespace: namespace.to_owned(), controller: controller.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.controller)
    }
}

/// Parameters of a session. If they change, a new session replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// A Controller recreated under the same name is another cluster.
    pub(super) uid: Option<String>,
    pub(super) server: String,
    /// The key that signs tokens, and the field that names it.
    pub(super) jwt_key: Option<SecretKeyRef>,
    pub(super) jwt_field: &'static str,
}

/// One session for each Controller that has a RestApi.
pub(super) fn wanted(sources: &Sources, address: &Address) -> BTreeMap<Key, Wanted> {
    let mut chosen: BTreeMap<Key, Arc<RestApi>> = BTreeMap::new();
    for restapi in sources.restapis.state() {
        let key = Key::new(restapi.metadata.namespace.as_deref().unwrap_or_default(), &restapi.spec.controller_ref.name);
        match chosen.get(&key) {
            Some(known) if rank(known) <= rank(&restapi) => {}
            _ => drop(chosen.insert(key, restapi)),
        }
    }
    let controllers = sources.controllers.state();
    let sessions = controllers.iter().filter_map(|controller| {
        let key = Key::new(controller.metadata.namespace.as_deref().unwrap_or_default(), controller.metadata.name.as_deref()?);
        let server = address.of(&key.namespace, chosen.get(&key)?);
        let (jwt_key, jwt_field) = controller.spec.jwt_key();
        Some((key, Wanted { uid: controller.uid(), server, jwt_key: jwt_key.cloned(), jwt_field }))
    });
    sessions.collect()
}

/// Rank of a RestApi: the oldest counts, so that a second one changes nothing. A terminating one counts only if there is no other.
fn rank(restapi: &RestApi) -> impl Ord {
    let metadata = &restapi.metadata;
    (metadata.deletion_timestamp.is_some(), metadata.creation_timestamp.as_ref().map(|time| time.0), metadata.name.clone())
}

#[cfg(test)]
mod tests;
