//! Programs of a build that leave nothing behind.

use crate::program::Program;

/// A program in its own mount and PID namespaces that is killed when this process ends for any reason. An interrupted build leaves neither mounts nor
/// processes on the machine.
pub(super) fn contained(program: &str) -> Program {
    Program::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"])
        .arg(program)
}
