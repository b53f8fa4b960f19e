//! Owner references to the resource that an object was created for, and is deleted with.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};

/// A reference that makes `owner` the only controller of an object.
pub fn controller_of<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference { controller: Some(true), ..one_of_many(owner) }
}

/// A reference for an object that several resources share: it is deleted with the last of them.
pub fn one_of_many<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: None,
        block_owner_deletion: Some(true),
    }
}
