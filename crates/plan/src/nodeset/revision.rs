//! Revisions: the stored templates, the current one, and the pods created from it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use slipway_api::{digest, name};

use super::{Kubernetes, Observed, Policy};
use crate::{Action, Plan};

/// A stored template.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    pub name: String,
    pub uid: String,
    /// Label value of the pods created from it.
    pub hash: String,
    /// Higher is newer.
    pub number: i64,
    /// The part of the template that determines the pods.
    pub meaning: Value,
}

/// The templates of one NodeSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Revisions {
    /// The part of the NodeSet's current template that determines the pods.
    pub meaning: Value,
    /// The same, in the stored form.
    pub data: Value,
    pub stored: Vec<Revision>,
    /// Number of former revisions to keep.
    pub keep: usize,
}

/// A hash, and the number of collisions with other templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash {
    pub text: String,
    pub collisions: i32,
}

impl Revisions {
    /// Hash label of pods created now. If a stored revision has the same meaning, its hash is used, whoever computed it: taking over from another
    /// operator replaces no worker.
    pub fn current(&self) -> Hash {
        if let Some(stored) = self.newest_alike() {
            return Hash { text: stored.hash.clone(), collisions: 0 };
        }
        let mut hash = Hash { text: digest::short_of_json(&self.meaning), collisions: 0 };
        while self.stored.iter().any(|stored| stored.hash == hash.text) {
            let collisions = hash.collisions + 1;
            hash = Hash { text: digest::short_of_json(&json!([self.meaning, collisions])), collisions };
        }
        hash
    }

    /// True if a pod with this hash was created from a template with the current meaning.
    pub fn is_current(&self, hash: &str) -> bool {
        match self.stored.iter().find(|stored| stored.hash == hash) {
            Some(stored) => stored.meaning == self.meaning,
            None => hash == self.current().text,
        }
    }

    fn newest_alike(&self) -> Option<&Revision> {
        self.stored.iter().filter(|stored| stored.meaning == self.meaning).max_by_key(|stored| (stored.number, stored.name.clone()))
    }
}

/// Stores the current template as the newest revision, and deletes old revisions without pods, the oldest first.
pub(super) fn plan_revisions(observed: &Observed<'_>, plan: &mut Plan) {
    let Observed { workers, policy: Policy { nodeset, .. }, kubernetes: Kubernetes { revisions, .. }, .. } = observed;
    let in_use: BTreeSet<&str> = workers.iter().map(|worker| worker.hash.as_str()).collect();
    let Revisions { data, stored, keep, .. } = revisions;
    let newest = stored.iter().map(|stored| stored.number).max().unwrap_or(0);
    let current = revisions.current().text;
    match revisions.newest_alike() {
        None => plan.actions.push(Action::StoreRevision {
            name: name::worker_revision(nodeset, &current),
            hash: current.clone(),
            number: newest + 1,
            data: Box::new(data.clone()),
        }),
        // Rollback to an earlier template.
        Some(alike) if alike.number < newest => {
            plan.actions.push(Action::RenumberRevision { name: alike.name.clone(), uid: alike.uid.clone(), number: newest + 1 });
        }
        Some(_) => {}
    }
    let former: BTreeMap<(i64, &str), &Revision> = stored
        .iter()
        .filter(|stored| stored.hash != current && !in_use.contains(stored.hash.as_str()))
        .map(|stored| ((stored.number, stored.name.as_str()), stored))
        .collect();
    let surplus = former.len().saturating_sub(*keep);
    for stored in former.into_values().take(surplus) {
        plan.actions.push(Action::DropRevision { name: stored.name.clone(), uid: stored.uid.clone() });
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{
        super::{
            Stage, Worker,
            tests::{idle, observed, worker},
        },
        *,
    };

    fn stored(hash: &str, number: i64, meaning: &str) -> Revision {
        Revision { name: format!("w-{hash}"), uid: format!("uid-{hash}"), hash: hash.into(), number, meaning: json!(meaning) }
    }

    fn revisions(meaning: &str, stored: &[Revision], keep: usize) -> Revisions {
        Revisions { meaning: json!(meaning), data: json!({ "spec": meaning }), stored: stored.to_vec(), keep }
    }

    fn words(revisions: &Revisions, in_use: &[&str]) -> Vec<String> {
        let with = |hash: &&str| Worker { hash: (*hash).to_owned(), ..worker(0, Stage::Ready, idle()) };
        let workers: Vec<Worker> = in_use.iter().map(with).collect();
        let mut plan = Plan::default();
        plan_revisions(&observed(&workers, 1).with(|it| it.kubernetes.revisions = revisions), &mut plan);
        plan.actions.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_first_template_is_stored() {
        let first = revisions("a", &[], 0);
        let hash = first.current().text;
        assert_eq!(words(&first, &[]), [format!("store revision `w-{hash}` as number 1")]);
    }

    #[test]
    fn the_hash_of_another_operator_is_taken_over_and_nothing_is_written() {
        let theirs = revisions("a", &[stored("5f7d", 1, "a")], 0);
        assert_eq!(theirs.current().text, "5f7d");
        assert_eq!(words(&theirs, &["5f7d"]), [""; 0]);
        assert!(theirs.is_current("5f7d"));
    }

    #[rstest]
    #[case::same_meaning_under_another_hash(&[stored("x", 1, "a"), stored("y", 2, "a")], "x", true)]
    #[case::another_meaning(&[stored("x", 1, "b"), stored("y", 2, "a")], "x", false)]
    #[case::nobody_knows_it(&[stored("y", 2, "a")], "x", false)]
    fn a_pod_is_current_by_the_meaning_of_its_template(#[case] known: &[Revision], #[case] hash: &str, #[case] expected: bool) {
        assert_eq!(revisions("a", known, 0).is_current(hash), expected);
    }

    #[test]
    fn a_rollback_makes_the_earlier_one_the_newest() {
        let back = revisions("a", &[stored("x", 1, "a"), stored("y", 2, "b")], 5);
        assert_eq!(words(&back, &[]), ["renumber revision `w-x` to 3"]);
    }

    #[test]
    fn former_ones_go_the_oldest_first_unless_a_pod_has_them() {
        let many = [stored("1", 1, "p"), stored("2", 2, "q"), stored("3", 3, "r"), stored("4", 4, "s"), stored("5", 5, "a")];
        assert_eq!(words(&revisions("a", &many, 1), &["1"]), ["drop revision `w-2`", "drop revision `w-3`"]);
        assert_eq!(words(&revisions("a", &many, 9), &[]), [""; 0]);
    }

    #[test]
    fn two_templates_never_share_a_hash() {
        let taken = revisions("a", &[], 0).current().text;
        let other = Revision { meaning: json!("another"), ..stored(&taken, 1, "") };
        let hash = revisions("a", &[other], 0).current();
        assert_ne!(hash.text, taken);
        assert_eq!(hash.collisions, 1);
    }
}
