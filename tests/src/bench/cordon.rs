//! Many Kubernetes nodes are cordoned at once.

use std::time::Instant;

use slipway_bed::failure::Failure;

use super::figure::{Figure, as_float};
use super::yard::{Yard, until};

pub(super) async fn measure(yard: &Yard, workers: u32) -> Result<Vec<Figure>, Failure> {
    let cordoned = workers / 10;
    let figure = |what: &str, value: f64, unit| Figure::new("cordon", format!("{cordoned} of {workers} nodes: {what}"), value, unit);
    let cluster = yard.cluster("cordon", workers as usize).await?;
    let operator = yard.operator()?;
    yard.scale(&cluster, workers).await?;
    yard.until_settled(&operator, &cluster, workers).await?;
    yard.until_described(&operator, &cluster).await?;
    let (posts, lists) = (cluster.sim.requests("POST node"), cluster.sim.whole_lists("nodes"));
    yard.cordon(&cluster.kubelet.hosts()[..cordoned as usize]).await?;
    let began = Instant::now();
    until("the workers there to be drained", async || {
        let drained = cluster.sim.world(|world| world.nodes.values().filter(|node| node.is_draining).count());
        Ok(if drained >= cordoned as usize { Ok(()) } else { Err(format!("{drained} of {cordoned} are")) })
    })
    .await?;
    let took = began.elapsed();
    drop(operator);
    let reasons = cluster.sim.world(|world| {
        world.nodes.values().filter(|node| node.is_draining).map(|node| node.reason.clone()).collect::<std::collections::BTreeSet<_>>()
    });
    eprintln!("  {} reasons, such as {:?}", reasons.len(), reasons.first());
    Ok(vec![
        figure("all drained", took.as_secs_f64(), "s").goal(10.0),
        // Slurm sets one reason in a call, and each node has its own.
        figure("writes to Slurm", as_float(cluster.sim.requests("POST node") - posts), "").goal(f64::from(cordoned)),
        figure("whole node tables read", as_float(cluster.sim.whole_lists("nodes") - lists), "").goal(5.0),
    ])
}
