//! `make demo`: a real cluster and a real Slurm job on it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use slipway_bed::bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::failure::Failure;
use slipway_bed::image::Image;
use slipway_bed::interrupt::until_interrupted;
use slipway_bed::name::BedName;
use slipway_bed::progress::{Progress, seconds};
use slipway_bed::up::{self, Wanted};
use slipway_tests::cluster::Cluster;
use slipway_tests::slurm::{Slurm, install_operator, restart_operator};

/// Bring up a real Kubernetes, the operator and a Slurm cluster, and run a job on two nodes of it.
#[derive(Parser)]
#[command(name = "slipway-demo", max_term_width = 100)]
struct Args {
    /// Name of the bed.
    #[arg(long, default_value = "demo")]
    name: BedName,
    /// Use this existing cluster instead of a bed.
    #[arg(long, env = "KUBECONFIG_DEMO")]
    kubeconfig: Option<PathBuf>,
    /// With an existing cluster: the registry and path its nodes pull our images from.
    #[arg(long, env = "IMAGES_DEMO")]
    images: Option<String>,
}

/// Durations of the parts.
struct Times {
    bed: Option<Duration>,
    slurm: Duration,
    whole: Duration,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match prepare(&args).and_then(|ground| until_interrupted(demo(ground))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The cluster that the demo runs on.
enum Ground {
    Existing(Cluster),
    Running(Bed),
    /// A bed that is not up yet; everything it needs is prepared.
    Coming(Cache, Wanted),
}

/// Prepares everything that takes minutes the first time.
fn prepare(args: &Args) -> Result<Ground, Failure> {
    if let Some(kubeconfig) = &args.kubeconfig {
        return existing_cluster(kubeconfig, args.images.as_deref()).map(Ground::Existing);
    }
    let cache = Cache::open()?;
    if let Ok(bed) = Bed::open(&cache, &args.name) {
        let archives = up::build_images(&cache, Progress::Shown, &Image::of_slurm())?;
        let step = Progress::Shown.step(format!("bed: `{}` is already up, its nodes get the newest images", args.name));
        bed.load_images(&archives, &step)?;
        restart_operator(&Cluster::of_bed(&bed))?;
        step.done();
        return Ok(Ground::Running(bed));
    }
    let wanted = Wanted { images: Image::of_slurm(), progress: Progress::Shown, ..Wanted::cluster(args.name.clone(), 2) };
    up::prepare(&cache, &wanted)?;
    Ok(Ground::Coming(cache, wanted))
}

async fn demo(ground: Ground) -> Result<(), Failure> {
    let started = Instant::now();
    let (cluster, bed, bed_time) = match ground {
        Ground::Existing(cluster) => (cluster, None, None),
        Ground::Running(bed) => (Cluster::of_bed(&bed), Some(bed), None),
        Ground::Coming(cache, wanted) => {
            let mut bed = up::up(&cache, &wanted).await?;
            bed.detach()?;
            (Cluster::of_bed(&bed), Some(bed), Some(started.elapsed()))
        }
    };
    let slurm_started = Instant::now();
    install_operator(&cluster, Progress::Shown).await?;
    let slurm = Slurm::bring_up(&cluster, "slurm", Progress::Shown).await?;
    let slurm_time = slurm_started.elapsed();
    let step = Progress::Shown.step("job: two nodes");
    let job = slurm.run_job(2, "echo submitted to $SLURM_JOB_NODELIST; srun --label hostname").await?;
    step.done();
    if job.state != "COMPLETED" {
        return Err(Failure::new(format!("job {} ended as {}: {}", job.id, job.state, job.output)));
    }
    println!("\n$ sbatch --nodes=2 --wrap='srun --label hostname'    # job {}\n{}", job.id, job.output.trim_end());
    println!("\n$ sinfo\n{}", slurm.on_controller(&["sinfo"])?.trim_end());
    let times = Times { bed: bed_time, slurm: slurm_time, whole: started.elapsed() };
    print_figures(bed.as_ref(), &times);
    print_next(bed.as_ref(), &slurm);
    Ok(())
}

fn existing_cluster(kubeconfig: &std::path::Path, images: Option<&str>) -> Result<Cluster, Failure> {
    let registry = images.ok_or_else(|| {
        Failure::new("an existing cluster pulls images from a registry, and none was named").advise(
            "push the images that `make images` built (see images/README.md), set IMAGES_DEMO=registry/path and run `make demo` again; \
             the cluster needs Kubernetes 1.29, two nodes and a default storage class",
        )
    })?;
    if !kubeconfig.exists() {
        return Err(Failure::new(format!("there is no kubeconfig {}", kubeconfig.display())).advise("KUBECONFIG_DEMO=path of yours"));
    }
    Ok(Cluster::existing(kubeconfig.to_owned(), registry))
}

fn print_figures(bed: Option<&Bed>, times: &Times) {
    let mut figures = Vec::new();
    if let Some(time) = times.bed {
        figures.push(format!("bed up in {}", seconds(time)));
    }
    figures.push(format!("Slurm ready in {}", seconds(times.slurm)));
    figures.push(format!("demo in {}", seconds(times.whole)));
    if let Some(bytes) = bed.and_then(Bed::memory) {
        figures.push(format!("memory {} MiB", bytes >> 20));
    }
    println!("\n{}", figures.join(", "));
}

fn print_next(bed: Option<&Bed>, slurm: &Slurm) {
    println!("\nWhat to try next:");
    if let Some(bed) = bed {
        for line in bed.exports() {
            println!("  {line}");
        }
    }
    let namespace = &slurm.namespace;
    println!("  kubectl -n {namespace} get controllers.slinky.slurm.net,restapis,nodesets,pods");
    println!("  kubectl -n {namespace} exec -it slurm-controller-0 -c slurmctld -- srun -N2 hostname");
    println!("  kubectl -n {namespace} describe nodeset worker");
    if bed.is_some() {
        println!("  slipway-bed status");
        println!("  make down");
    }
}
