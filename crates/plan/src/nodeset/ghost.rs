//! Records in Slurm whose pod is gone: jobs would be sent there, and wait for nobody.

use super::Observed;
use crate::Plan;

pub(super) fn plan_ghosts(_observed: &Observed<'_>, _plan: &mut Plan) {}
