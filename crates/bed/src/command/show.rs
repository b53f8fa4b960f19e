//! Output of `status`, `images` and `logs`.

use std::fmt::Write;

use slipway_bed::bed::{Bed, not_up};
use slipway_bed::cache::Cache;
use slipway_bed::control::Life;
use slipway_bed::failure::{Failure, tail};
use slipway_bed::image::{Daemon, Image, Release};
use slipway_bed::keeper;
use slipway_bed::layout::Layout;
use slipway_bed::name::BedName;
use slipway_bed::progress::Progress;
use slipway_bed::{doctor, tool, up};

/// Beds that have a folder, running or not.
pub(crate) fn bed_names(cache: &Cache) -> Result<Vec<BedName>, Failure> {
    let folder = cache.folder("beds")?;
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<BedName> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    names.sort();
    Ok(names)
}

pub(crate) fn status(cache: &Cache, json: bool) -> Result<(), Failure> {
    let mut beds = Vec::new();
    for name in bed_names(cache)? {
        let layout = Layout::new(cache, &name);
        beds.push((name.clone(), keeper::lives(&layout).then(|| Bed::open(cache, &name)), layout));
    }
    if json {
        let list: Vec<_> = beds
            .iter()
            .map(|(name, bed, layout)| {
                let bed = bed.as_ref().and_then(|bed| bed.as_ref().ok());
                serde_json::json!({
                    "name": name,
                    "state": state_word(bed, layout),
                    "nodes": bed.map(|bed| bed.spec().extent.nodes()),
                    "memory": bed.and_then(Bed::memory),
                    "kubeconfig": layout.kubeconfig(),
                    "parts": bed.and_then(|bed| bed.parts().ok()),
                })
            })
            .collect();
        println!("{:#}", serde_json::Value::from(list));
        return Ok(());
    }
    if beds.is_empty() {
        println!("no beds");
    }
    for (name, bed, layout) in beds {
        match bed {
            Some(bed) => print!("{}", describe(&bed?, &layout)?),
            None => println!("{name}: {}", not_up(&layout)),
        }
    }
    Ok(())
}

fn state_word(bed: Option<&Bed>, layout: &Layout) -> &'static str {
    match (bed, layout.up_marker().exists()) {
        (None, _) => "died",
        (Some(_), false) => "coming up",
        (Some(_), true) => "up",
    }
}

fn describe(bed: &Bed, layout: &Layout) -> Result<String, Failure> {
    let mut text = String::new();
    let memory = bed.memory().map(|bytes| format!(", {} MiB", bytes >> 20)).unwrap_or_default();
    let _ = writeln!(text, "{}: {}, {} nodes{memory}", bed.name(), state_word(Some(bed), layout), bed.spec().extent.nodes());
    let _ = writeln!(text, "  kubeconfig {}", bed.kubeconfig().display());
    for part in bed.parts()? {
        let life = match part.life {
            Life::Running { pid } => format!("running, pid {pid} inside"),
            Life::Restarting => "about to be started again".to_owned(),
            Life::Killed => "killed on request".to_owned(),
            Life::Ended(how) => format!("ENDED ({how}), log {}", part.log.display()),
        };
        let _ = writeln!(text, "  {:<26} {life}", part.name);
    }
    Ok(text)
}

/// Builds missing images and lists every image with its archive.
pub(crate) fn images(cache: &Cache, all: bool) -> Result<(), Failure> {
    doctor::check(cache)?;
    tool::ensure(cache, Progress::Shown)?;
    let mut images = vec![Image::Pause, Image::CoreDns, Image::Mariadb];
    images.extend(Image::of_slurm());
    if all {
        images.extend(Daemon::ALL.map(|daemon| Image::Slurm(daemon, Release::Slurm24_11)));
    }
    for archive in up::build_images(cache, Progress::Shown, &images)? {
        let size = std::fs::metadata(&archive.path).map_or(0, |meta| meta.len() >> 20);
        println!("{:<40} {size:>5} MiB  {}", archive.reference, archive.path.display());
    }
    Ok(())
}

pub(crate) fn logs(bed: &Bed, part: Option<&str>, lines: usize) -> Result<(), Failure> {
    let parts = bed.parts()?;
    let Some(wanted) = part else {
        for part in parts {
            println!("{:<26} {}", part.name, part.log.display());
        }
        return Ok(());
    };
    let names = || parts.iter().map(|part| part.name.clone()).collect::<Vec<_>>().join(" ");
    let found = parts
        .iter()
        .find(|part| part.name == wanted)
        .ok_or_else(|| Failure::new(format!("bed `{}` has no part `{wanted}`", bed.name())).advise(format!("one of: {}", names())))?;
    for line in tail(&found.log, lines) {
        println!("{line}");
    }
    Ok(())
}
