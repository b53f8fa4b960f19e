//! The programs a bed needs and does not bring itself: from the distribution's packages and from Go modules.

pub mod apt;
pub mod go;

use crate::cache::Cache;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::spec::Programs;

/// Installs and builds whatever is missing; in seconds when nothing is.
pub fn ensure(cache: &Cache, progress: Progress) -> Result<Programs, Failure> {
    apt::ensure_packages(cache, progress)?;
    let distribution = apt::ensure_foreign_programs(cache, progress)?;
    let kubernetes = go::ensure_kubernetes(cache, progress)?;
    Ok(Programs { kubernetes, distribution })
}
