//! What reconciles share: caches and clients ([`context`]), what this process remembers ([`memory`]), owners, status, and how actions are executed.

pub(crate) mod act;
pub(crate) mod context;
pub(crate) mod domain;
pub(crate) mod error;
mod map;
pub(crate) mod memory;
pub(crate) mod monitor;
pub(crate) mod node;
pub(crate) mod observe;
pub(crate) mod obstacle;
pub(crate) mod owner;
pub(crate) mod secret;
pub(crate) mod secret_cache;
pub(crate) mod status;
pub(crate) mod step;
