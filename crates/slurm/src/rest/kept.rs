//! Elements of a list, up to a total size: a server that sends without end must not exhaust the memory of all clusters.

use std::mem::size_of;

use super::error::RestError;
use super::model::flag::Flag;
use super::model::{Flags, Node, QueuedJob, Reservation};

/// Maximum memory for one list. Slurm's limit of 65,536 nodes takes about half of it, and so do 200,000 jobs.
const MOST: usize = 128 << 20;
/// Overhead of an allocation, in bytes.
const ALLOCATION: usize = 16;

/// Memory that an element takes.
pub trait Weight {
    fn weight(&self) -> usize;
}

/// The elements so far.
#[derive(Debug)]
pub struct Kept<T> {
    list: Vec<T>,
    weight: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { list: Vec::new(), weight: 0 }
    }
}

impl<T: Weight> Kept<T> {
    /// Adds an element, unless they are too many already.
    pub fn push(&mut self, element: T) {
        self.weight = self.weight.saturating_add(size_of::<T>() + element.weight());
        if self.weight <= MOST {
            self.list.push(element);
        }
    }

    /// All elements; fails if they were too many.
    pub fn finish(self) -> Result<Vec<T>, RestError> {
        if self.weight > MOST {
            return Err(RestError::Unreadable(format!("its list takes more than {} MiB of memory", MOST >> 20)));
        }
        Ok(self.list)
    }
}

fn text(text: &str) -> usize {
    text.len() + ALLOCATION
}

fn words(words: &[String]) -> usize {
    words.iter().map(|word| size_of::<String>() + text(word)).sum()
}

fn flags<F: Flag>(flags: &Flags<F>) -> usize {
    flags.iter().map(|flag| size_of::<F>() + text(flag.as_word())).sum()
}

impl Weight for Node {
    fn weight(&self) -> usize {
        let texts = [
            &self.name,
            &self.hostname,
            &self.address,
            &self.reason,
            &self.reason_set_by_user,
            &self.comment,
            &self.extra,
            &self.gres,
            &self.gres_used,
            &self.reservation,
            &self.instance_id,
            &self.topology,
            &self.version,
        ];
        let lists = [&self.features, &self.active_features, &self.partitions];
        let states = flags(&self.state) + flags(&self.next_state_after_reboot);
        states + texts.iter().map(|it| text(it)).sum::<usize>() + lists.iter().map(|it| words(it)).sum::<usize>()
    }
}

impl Weight for QueuedJob {
    fn weight(&self) -> usize {
        flags(&self.job_state) + [&self.partition, &self.nodes, &self.required_nodes].iter().map(|it| text(it)).sum::<usize>()
    }
}

impl Weight for Reservation {
    fn weight(&self) -> usize {
        let texts = [&self.name, &self.node_list, &self.users, &self.accounts, &self.partition];
        words(&self.flags) + texts.iter().map(|it| text(it)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_end_takes_no_more_than_its_share() {
        let mut kept = Kept::default();
        for _ in 0..300 {
            kept.push(QueuedJob { nodes: "n".repeat(1 << 20), ..QueuedJob::default() });
        }
        assert!(kept.list.len() < 128, "{}", kept.list.len());
        let error = kept.finish().unwrap_err().to_string();
        assert_eq!(error, "slurmrestd's answer makes no sense: its list takes more than 128 MiB of memory");
    }

    #[test]
    fn the_largest_cluster_fits() {
        let name = |index: usize| Node { name: format!("worker-{index}"), partitions: vec!["all".into(), "gpu".into()], ..Node::default() };
        let mut kept = Kept::default();
        (0..1 << 16).for_each(|index| kept.push(name(index)));
        assert_eq!(kept.finish().unwrap().len(), 1 << 16);
    }

    #[test]
    fn small_parts_count_with_what_each_takes() {
        let node = Node { features: vec!["f".to_owned(); 1_000], ..Node::default() };
        assert!(node.weight() > 40_000, "{}", node.weight());
    }
}
