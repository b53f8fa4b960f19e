//! Programs that a bed needs from elsewhere: from the distribution's packages and from Go modules.

pub mod apt;
pub mod go;

use crate::cache::Cache;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::spec::Programs;

/// Installs and builds whatever is missing; takes seconds if nothing is.
pub fn ensure(cache: &Cache, progress: Progress) -> Result<Programs, Failure> {
    apt::ensure_packages(cache, progress)?;
    let distribution = apt::ensure_foreign_programs(cache, progress)?;
    let kubernetes = go::ensure_kubernetes(cache, progress)?;
    Ok(Programs { kubernetes, distribution })
}
