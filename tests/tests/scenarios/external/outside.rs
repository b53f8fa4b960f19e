//! A slurmctld on its own machine beside the nodes: no pod, no Service, known to Kubernetes by its address alone.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use slipway_bed::bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::failure::{Context, Failure};
use slipway_bed::layout::CONTROL_PLANE;
use slipway_tests::lab::Lab;
use slipway_tests::slurm::Slurm;

/// Address on which it listens: in the bed's network, and on none of its nodes.
pub(crate) const ADDRESS: &str = "172.30.0.1";
pub(crate) const PORT: u16 = 7817;
/// Uid and gid of Slurm's user, the same in the images.
const SLURM: u32 = 401;

/// slurm.conf as the user of such a slurmctld writes it; its folder is /lab.
const CONF: &str = "ClusterName=demo
SlurmctldHost=outside(172.30.0.1)
SlurmctldPort=7817
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/lab/jwt.key
SlurmctldParameters=enable_configless
StateSaveLocation=/lab/state
SlurmctldPidFile=/lab/slurmctld.pid
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
MaxNodeCount=64
NodeSet=worker Feature=worker
PartitionName=worker Nodes=worker Default=YES State=UP
";

/// Sets up the machine for a command: the lab's files with a folder of its own, another hostname, no name server. A change of the user clears the
/// parent-death signal, so it is set again.
const MACHINE: &str = r#"set -e
echo outside >/proc/sys/kernel/hostname
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount --bind "$2" "$1/lab"
mount --bind "$2/run" "$1/run"
mount --bind "$2/resolv.conf" "$1/etc/resolv.conf"
root=$1
shift 2
exec chroot "$root" setpriv --reuid=401 --regid=401 --clear-groups --pdeathsig=KILL env SLURM_CONF=/lab/slurm.conf "$@"
"#;

/// A slurmctld that ends with the test.
pub(crate) struct Outside {
    network: String,
    root: PathBuf,
    folder: PathBuf,
    slurmctld: Child,
}

impl Outside {
    /// Starts slurmctld with the keys of the cluster's Secret.
    pub(crate) fn start(bed: &Bed, slurm: &Slurm) -> Result<Self, Failure> {
        assert_eq!(ADDRESS, CONTROL_PLANE.to_string());
        let root = Lab::open(&Cache::open()?)?.root().to_owned();
        let network = bed.enter(None)?.into_iter().find(|word| word.starts_with("--target=")).unwrap_or_default();
        let folder = bed.layout().root.join("outside");
        for folder in ["state", "run/slurmctld"].map(|part| folder.join(part)) {
            std::fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
            own(&folder, 0o755)?;
        }
        let key = |key: &str| {
            slurm.kubectl(&["get", "secret", "slurm-keys", &format!("--output=go-template={{{{index .data \"{key}\" | base64decode}}}}")])
        };
        let files = [
            ("slurm.conf", CONF.to_owned()),
            ("cgroup.conf", "CgroupPlugin=disabled\n".to_owned()),
            ("resolv.conf", String::new()),
            ("slurm.key", key("slurm.key")?),
            ("jwt.key", key("jwt.key")?),
        ];
        for (file, content) in files {
            let path = folder.join(file);
            std::fs::write(&path, content).context(|| format!("could not write {}", path.display()))?;
            own(&path, 0o400)?;
        }
        let log = bed.layout().log("outside");
        let log = std::fs::File::create(&log).context(|| format!("could not write {}", log.display()))?;
        let mut command = command(&network, &root, &folder);
        command.args(["slurmctld", "-D"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let slurmctld = command.spawn().context(|| "could not start slurmctld".to_owned())?;
        Ok(Self { network, root, folder, slurmctld })
    }

    /// Runs a Slurm client on that machine.
    pub(crate) fn run(&self, args: &[&str]) -> Result<String, Failure> {
        let mut command = command(&self.network, &self.root, &self.folder);
        let output = command.args(args).stdin(Stdio::null()).output().context(|| "could not start nsenter".to_owned())?;
        if !output.status.success() {
            return Err(Failure::new(format!("{args:?} outside: {}", String::from_utf8_lossy(&output.stderr))));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Submits a job on two nodes.
    pub(crate) fn submit(&self, script: &str) -> Result<u64, Failure> {
        let wrap = format!("--wrap={script}");
        let said = self.run(&["sbatch", "--parsable", "--nodes=2", "--exclusive", "--chdir=/tmp", "--output=/tmp/job-%j.out", &wrap])?;
        said.trim().parse().map_err(|_| Failure::new(format!("sbatch gave no number of a job but said `{}`", said.trim())))
    }

    /// Submits a job on two nodes that runs until it is released.
    pub(crate) fn submit_patient(&self) -> Result<u64, Failure> {
        self.submit(r#"srun --label sh -c "echo start; until [ -e /tmp/release-$SLURM_JOB_ID ]; do sleep 0.5; done; echo end""#)
    }

    /// Ok if a job is in this state.
    pub(crate) fn job_is(&self, job: u64, state: &str) -> Result<(), String> {
        let shown = self.run(&["scontrol", "--oneliner", "show", "job", &job.to_string()]).map_err(|failure| failure.to_string())?;
        if shown.contains(&format!("JobState={state} ")) { Ok(()) } else { Err(shown) }
    }

    /// A token of Slurm's own user.
    pub(crate) fn token(&self) -> Result<String, Failure> {
        let said = self.run(&["scontrol", "token", "lifespan=600"])?;
        said.trim().strip_prefix("SLURM_JWT=").map(str::to_owned).ok_or_else(|| Failure::new(format!("scontrol said `{said}`")))
    }

    /// True if slurmctld is still running.
    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.slurmctld.try_wait(), Ok(None))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.slurmctld.kill();
        let _ = self.slurmctld.wait();
    }
}

/// A command on the machine outside. It ends with its parent, and so does everything that it started.
fn command(network: &str, root: &Path, folder: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "nsenter", network, "--net", "--"]);
    command.args(["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child=KILL", "--", "sh", "-c", MACHINE, "outside"]);
    command.arg(root).arg(folder);
    command
}

fn own(path: &Path, mode: u32) -> Result<(), Failure> {
    let said = || format!("could not give {} to Slurm's user", path.display());
    chown(path, Some(SLURM), Some(SLURM)).context(said)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).context(said)
}
