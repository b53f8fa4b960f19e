//! The cluster that a server answers for.
//!
//! An address can come to mean another cluster, such as when the host of an external slurmctld is changed. Its nodes may have the same names, so each
//! answer would be plausible and wrong. Every answer carries the name of its cluster: the first one counts, and nothing is taken from any other.

use std::sync::{Mutex, PoisonError};

use super::error::RestError;

/// Name of the first cluster that answered, and of another one that answered last.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    first: Option<String>,
    other: Option<String>,
}

impl Cluster {
    /// Fails if the last answer with a name was from another cluster than the first. An answer that nothing changed has no name.
    pub(super) fn check(&self, name: &str) -> Result<(), RestError> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !name.is_empty() {
            let first = names.first.get_or_insert_with(|| name.to_owned());
            // Slurm has cluster names in lower case, whatever slurm.conf says.
            let is_first = first.eq_ignore_ascii_case(name);
            names.other = (!is_first).then(|| name.to_owned());
        }
        match (&names.first, &names.other) {
            (Some(first), Some(other)) => Err(RestError::AnotherCluster { first: first.clone(), other: other.clone() }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_from_another_cluster_than_the_first() {
        let cluster = Cluster::default();
        let is_taken = |name: &str| cluster.check(name).is_ok();
        assert!(is_taken(""), "an old server gives no name");
        assert!(is_taken("alpha") && is_taken("Alpha") && is_taken(""));
        assert!(!is_taken("beta"));
        assert!(!is_taken(""), "nothing changed there");
        assert!(is_taken("alpha") && is_taken(""), "it is back");
        assert_eq!(
            cluster.check("beta").unwrap_err().to_string(),
            "slurmrestd answers for the cluster `beta` now, and before for `alpha`: nothing is done about its nodes until that is so again; if it is \
             intended, delete the RestApi and create it again"
        );
    }
}
