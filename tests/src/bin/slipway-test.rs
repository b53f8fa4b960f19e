//! `make test`, `make test SCENARIO=...`, `make flakes` and `make soak`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use clap::Parser;
use slipway_bed::bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::failure::{Context, Failure};
use slipway_bed::interrupt::{run_interruptibly, until_interrupted};
use slipway_bed::turn::{CROWD, WAITS};
use slipway_tests::cluster::project_root;
use slipway_tests::ground::SHARED_BED;
use slipway_tests::run::load::{Load, SPIN, spin};
use slipway_tests::run::report::{Ran, failures, read, slowest};
use slipway_tests::run::shared;
use slipway_tests::run::timeline::Timeline;
use slipway_tests::soak::soak;

/// Environment variable with the name of the API server that tests share.
const SHARED_API: &str = "SLIPWAY_SHARED_API";
/// The bed that stays up between runs of one scenario.
const LASTING: &str = "scenarios";
/// Number of concurrent heavy tests under artificial load.
const CROWDED: &str = "4";
const SLOWEST: usize = 10;
/// Tests that need an API server or a cluster.
const ON_REAL_PARTS: &str = "kind(test) & package(/^slipway-(tests|operator|runtime|bed)$/)";

/// Run the checks and the tests, and report where the time went.
#[derive(Parser)]
#[command(name = "slipway-test", max_term_width = 100)]
struct Args {
    /// Path of the program cargo-nextest.
    #[arg(long)]
    nextest: PathBuf,
    /// Run only tests with this word in their name or in that of their file, such as `scaling`, on a bed that stays up.
    #[arg(long)]
    scenario: Option<String>,
    /// Look for flaky tests: run those on real parts this many times, on a machine that is kept busy.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    flakes: Option<u16>,
    /// Disturb a cluster for this many minutes while jobs run on it.
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    soak: Option<u64>,
    /// Seed of the soak's faults and jobs; random by default.
    #[arg(long, requires = "soak")]
    seed: Option<u64>,
    /// Start of the command in Unix seconds: what was built before this program counts as a phase.
    #[arg(long)]
    began: Option<u64>,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(SPIN) {
        spin();
        return ExitCode::SUCCESS;
    }
    let args = Args::parse();
    let timeline = Timeline::start(args.began.map(|began| ("building the programs", since(began))));
    let outcome = match (&args.scenario, args.flakes, args.soak) {
        (Some(scenario), ..) => one(&args, scenario),
        (None, Some(runs), _) => flakes(&args, runs),
        (None, None, Some(minutes)) => disturb(minutes, args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000))),
        (None, None, None) => all(&args, &timeline),
    };
    eprint!("\n{timeline}");
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "make tells by the real clock when it began")]
fn since(began: u64) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(began))
}

/// Runs everything: checks the code and builds the tests while the parts of beds are built, then runs the tests, then the remaining checks.
fn all(args: &Args, timeline: &Timeline) -> Result<(), Failure> {
    let cache = Cache::open()?;
    timeline.phase("formatting", || make("lint-format"))?;
    let (clippy, beds) = std::thread::scope(|scope| {
        let beds = scope.spawn(|| {
            timeline.phase("Kubernetes, images and other parts of beds", || shared::prepare_beds(&cache))?;
            timeline.phase("beds that tests share", || until_interrupted(Shared::up(&cache, &format!("{}", std::process::id()))))
        });
        let built = timeline
            .phase("cargo-nextest", || make("nextest"))
            .and_then(|()| timeline.phase("building the tests", || nextest(args, &[], &["--no-run"])));
        // Reported at the end, together with the test results.
        let clippy = built.is_ok().then(|| timeline.phase("clippy", || make("lint-clippy")));
        let beds = join(beds);
        built.and(beds).map(|beds| (clippy.unwrap_or(Ok(())), beds))
    })?;
    let ran = timeline.phase("tests", || nextest(args, &beds.environment(), &[]));
    let down = timeline.phase("beds down", || beds.down());
    eprint!("\n{}", slowest(&results(&cache), SLOWEST));
    // An interruption also ends the run here: a user who stopped the tests does not want the rest.
    ran.and(down).and(clippy)?;
    timeline.phase("dependencies, charts and scripts", || make("lint-rest"))
}

/// Runs one scenario on a bed that stays up; a bed that is already up is reused.
fn one(args: &Args, scenario: &str) -> Result<(), Failure> {
    let cache = Cache::open()?;
    make("nextest")?;
    let chosen = format!("({ON_REAL_PARTS}) & test({scenario})");
    check_for_tests(args, &chosen, scenario)?;
    let bed = until_interrupted(shared::lasting_cluster(&cache, LASTING.parse()?))?;
    let ran = nextest(args, &[(SHARED_BED, bed.name().as_str())], &["--no-capture", "-E", &chosen]);
    eprintln!("the bed `{LASTING}` stays up for the next one; `make down NAME={LASTING}` takes it down");
    ran
}

/// Runs the tests on real parts repeatedly on a busy machine, and reports how often each failed.
fn flakes(args: &Args, runs: u16) -> Result<(), Failure> {
    let cache = Cache::open()?;
    make("nextest")?;
    shared::prepare_beds(&cache)?;
    nextest(args, &[], &["--no-run"])?;
    let mut all = Vec::new();
    for run in 1..=runs {
        eprintln!("\nrun {run} of {runs}, with half of every core taken away");
        let beds = until_interrupted(Shared::up(&cache, &format!("{}-{run}", std::process::id())))?;
        let load = Load::start()?;
        let mut environment = beds.environment();
        environment.push((CROWD, CROWDED));
        // A failed run is what this looks for.
        let outcome = nextest(args, &environment, &["-E", ON_REAL_PARTS]);
        drop(load);
        let ran = results(&cache);
        eprint!("run {run}: {} tests, {}\n{}", ran.len(), if outcome.is_ok() { "all green" } else { "RED" }, slowest(&ran, SLOWEST));
        all.push(ran);
        beds.down()?;
    }
    match failures(&all) {
        failed if failed.is_empty() => {
            eprintln!("{runs} runs in a row on a busy machine, and no test failed");
            Ok(())
        }
        failed => Err(Failure::new(format!("tests failed on a busy machine:\n{failed}"))),
    }
}

/// Runs the soak and prints its report.
fn disturb(minutes: u64, seed: u64) -> Result<(), Failure> {
    shared::prepare_beds(&Cache::open()?)?;
    let report = until_interrupted(soak(seed, Duration::from_mins(minutes)))?;
    eprintln!("{report}");
    Ok(())
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    thread.join().unwrap_or_else(|_| Err(Failure::new("a phase panicked")))
}

/// The beds of one run; they are taken down with this process, however it ends.
struct Shared {
    cluster: Bed,
    api_server: Bed,
}

impl Shared {
    async fn up(cache: &Cache, name: &str) -> Result<Self, Failure> {
        let cluster = shared::cluster(cache, format!("shared-{name}").parse()?).await?;
        let api_server = shared::api_server(cache, format!("shared-api-{name}").parse()?).await?;
        Ok(Self { cluster, api_server })
    }

    fn environment(&self) -> Vec<(&'static str, &str)> {
        vec![(SHARED_BED, self.cluster.name().as_str()), (SHARED_API, self.api_server.name().as_str())]
    }

    fn down(self) -> Result<(), Failure> {
        self.cluster.down()?;
        self.api_server.down()
    }
}

/// Runs a Makefile target that belongs to a phase.
fn make(target: &str) -> Result<(), Failure> {
    let mut command = Command::new("make");
    run(command.args(["--no-print-directory", target]), &format!("`make {target}`"))
}

fn nextest(args: &Args, environment: &[(&str, &str)], more: &[&str]) -> Result<(), Failure> {
    let cache = Cache::open()?;
    // Left over from an earlier run.
    for file in [waits(&cache), junit()] {
        let _ = std::fs::remove_file(file);
    }
    let mut command = Command::new(&args.nextest);
    command.args(["nextest", "run", "--workspace", "--locked"]).args(more);
    command.env(WAITS, waits(&cache)).envs(environment.iter().copied());
    run(&mut command, "cargo nextest")
}

/// Fails if no test matches, before a bed is brought up for none.
fn check_for_tests(args: &Args, chosen: &str, scenario: &str) -> Result<(), Failure> {
    let list = ["nextest", "list", "--workspace", "--locked", "--message-format", "oneline", "-E", chosen];
    let listed = Command::new(&args.nextest).args(list).current_dir(project_root()).stderr(Stdio::inherit()).output();
    let listed = listed.context(|| "could not start cargo nextest".to_owned())?;
    if !listed.status.success() {
        return Err(Failure::new(format!("cargo nextest could not list the tests ({})", listed.status)));
    }
    if listed.stdout.trim_ascii().is_empty() {
        return Err(Failure::new(format!("no test on real parts has `{scenario}` in its name or in that of its file"))
            .advise("SCENARIO=scaling, or another file of tests/tests/scenarios"));
    }
    Ok(())
}

fn run(command: &mut Command, name: &str) -> Result<(), Failure> {
    let status = run_interruptibly(command.current_dir(project_root())).context(|| format!("could not start {name}"))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{name} failed ({status})"))) }
}

/// Results of the last run of nextest.
fn results(cache: &Cache) -> Vec<Ran> {
    let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    read(&text(&junit()), &text(&waits(cache)))
}

fn waits(cache: &Cache) -> PathBuf {
    cache.path("waits")
}

/// Path of nextest's results: in the checkout, wherever cargo builds.
fn junit() -> PathBuf {
    project_root().join("target/nextest/default/junit.xml")
}
