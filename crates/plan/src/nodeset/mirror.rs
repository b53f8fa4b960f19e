//! What a pod shows of its node in Slurm, and what the node says of its pod.

use super::Observed;
use crate::Plan;

pub(super) fn plan_mirror(_observed: &Observed<'_>, _plan: &mut Plan) {}
