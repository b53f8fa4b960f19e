//! Disturbances.

use std::fmt;

use fastrand::Rng;

/// One kind of disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    Scale,
    Roll,
    Configure,
    Cordon,
    Drain,
    Evict,
    KillOperator,
    FreezeOperator,
    KillSlurmctld,
    FreezeSlurmctld,
    KillSlurmrestd,
    FreezeSlurmrestd,
    KillSlurmd,
    FreezeSlurmd,
    KillKubelet,
    FreezeKubelet,
    KillContainerd,
    FreezeContainerd,
    FreezeNode,
    CutNode,
    FillDisk,
    LoseState,
}

impl Fault {
    const ALL: [Self; 22] = [
        Self::Scale,
        Self::Roll,
        Self::Configure,
        Self::Cordon,
        Self::Drain,
        Self::Evict,
        Self::KillOperator,
        Self::FreezeOperator,
        Self::KillSlurmctld,
        Self::FreezeSlurmctld,
        Self::KillSlurmrestd,
        Self::FreezeSlurmrestd,
        Self::KillSlurmd,
        Self::FreezeSlurmd,
        Self::KillKubelet,
        Self::FreezeKubelet,
        Self::KillContainerd,
        Self::FreezeContainerd,
        Self::FreezeNode,
        Self::CutNode,
        Self::FillDisk,
        Self::LoseState,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Scale => "NodeSet scaled",
            Self::Roll => "template of the NodeSet changed",
            Self::Configure => "slurm.conf changed",
            Self::Cordon => "Kubernetes node cordoned or uncordoned",
            Self::Drain => "Slurm node drained or resumed by an administrator",
            Self::Evict => "worker evicted, if its budget allows",
            Self::KillOperator => "operator killed",
            Self::FreezeOperator => "operator frozen",
            Self::KillSlurmctld => "slurmctld killed",
            Self::FreezeSlurmctld => "slurmctld frozen",
            Self::KillSlurmrestd => "slurmrestd killed",
            Self::FreezeSlurmrestd => "slurmrestd frozen",
            Self::KillSlurmd => "slurmd killed",
            Self::FreezeSlurmd => "slurmd frozen",
            Self::KillKubelet => "kubelet killed",
            Self::FreezeKubelet => "kubelet frozen",
            Self::KillContainerd => "containerd killed",
            Self::FreezeContainerd => "containerd frozen",
            Self::FreezeNode => "Kubernetes node frozen",
            Self::CutNode => "Kubernetes node cut off",
            Self::FillDisk => "disk of a worker filled",
            Self::LoseState => "state of slurmctld lost and restored",
        })
    }
}

/// Draws faults: each kind once, in random order, before any comes again.
#[derive(Debug)]
pub(super) struct Bag {
    rng: Rng,
    left: Vec<Fault>,
}

impl Bag {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), left: Vec::new() }
    }

    pub(super) fn draw(&mut self) -> Fault {
        loop {
            if let Some(fault) = self.left.pop() {
                return fault;
            }
            self.left = Fault::ALL.to_vec();
            self.rng.shuffle(&mut self.left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_comes_before_any_comes_again_and_a_seed_fixes_the_order() {
        let draw = |seed| {
            let mut bag = Bag::new(seed);
            Fault::ALL.map(|_| bag.draw())
        };
        assert_eq!(draw(1).into_iter().collect::<BTreeSet<_>>().len(), Fault::ALL.len());
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
