//! Time and memory needed to read 10,000 nodes: `make bench`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use slipway_slurm::rest::token::FixedToken;
use slipway_slurm::rest::transport::{Body, Later, Request, Response, Transport, Trouble};
use slipway_slurm::rest::{Client, Limits, Version};
use slipway_slurm::snapshot::{Handle, Keeper, Pace};

const NODES: usize = 10_000;
/// Size of one read from a socket.
const CHUNK: usize = 64 << 10;
const RUNS: usize = 5;

/// Sends a list of nodes in the text of a real server, generated in chunks so that the whole list is never in memory.
struct Generated {
    node: String,
}

struct Pieces {
    node: Option<String>,
    sent: usize,
}

impl Body for Pieces {
    fn next(&mut self) -> Later<'_, Result<Option<Bytes>, Trouble>> {
        let mut piece = String::with_capacity(CHUNK + 4096);
        let nodes = if self.node.is_some() { NODES } else { 0 };
        if self.sent == 0 {
            piece.push_str("{\n  \"nodes\": [");
        }
        while piece.len() < CHUNK && self.sent < nodes {
            piece.push_str(if self.sent == 0 { "" } else { "," });
            let node = self.node.as_deref().unwrap_or_default();
            piece.push_str(&node.replace("\"worker-0\"", &format!("\"worker-{}\"", self.sent)));
            self.sent += 1;
        }
        if self.sent == nodes {
            self.sent += 1;
            let key = if self.node.is_some() { "" } else { "], \"jobs\": [], \"reservations\": [" };
            piece.push_str(key);
            piece.push_str("],\"last_update\":{\"set\":true,\"infinite\":false,\"number\":1800000000},\"errors\":[],\"warnings\":[]}");
        } else if self.sent > nodes {
            return Box::pin(async { Ok(None) });
        }
        Box::pin(async move { Ok(Some(Bytes::from(piece))) })
    }
}

impl Transport for Generated {
    fn send(&self, request: Request) -> Later<'_, Result<Response, Trouble>> {
        let node = request.path.contains("/nodes/").then(|| self.node.clone());
        Box::pin(async move { Ok(Response { status: 200, is_json: true, body: Box::new(Pieces { node, sent: 0 }) }) })
    }
}

/// One field of `/proc/self/status`, in MB.
fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim_matches(|character: char| !character.is_ascii_digit()).parse::<f64>().unwrap_or_default() / 1000.0
}

async fn first_reading(node: &str) -> (Handle, Duration) {
    let transport = Arc::new(Generated { node: node.to_owned() });
    let client = Client::new(transport, Arc::new(FixedToken::new("t")), Arc::new(()), Limits::default()).pinned(Version::V45);
    let (keeper, mut handle) = Keeper::new(Arc::new(client), Pace::default());
    let started = Instant::now();
    let keeper = tokio::spawn(keeper.run());
    while handle.latest().nodes().is_empty() {
        if handle.changed().await.is_err() {
            break;
        }
    }
    let took = started.elapsed();
    keeper.abort();
    (handle, took)
}

#[tokio::main]
async fn main() {
    let recorded: serde_json::Value = serde_json::from_str(include_str!("../../slurm/tests/fixtures/v45-nodes.json")).unwrap_or_default();
    let node = recorded["body"]["nodes"].as_array().and_then(|nodes| nodes.iter().find(|node| node["name"] == "worker-0")).cloned();
    let node = serde_json::to_string_pretty(&node).unwrap_or_default();
    println!("{NODES} nodes, {} MB of text", node.len() * NODES / 1_000_000);
    let before = memory("VmRSS:");
    // Resets the kernel's peak memory counter.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let (handle, first) = first_reading(&node).await;
    let (peak, after) = (memory("VmHWM:"), memory("VmRSS:"));
    println!("memory: result {:.1} MB, {:.1} MB above it at the highest (at most 20)", after - before, peak - after);
    let mut times = vec![first];
    for _ in 1..RUNS {
        times.push(first_reading(&node).await.1);
    }
    times.sort();
    println!(
        "{} nodes into a snapshot: median {:.0} ms (at most 150)",
        handle.latest().nodes().len(),
        times[RUNS / 2].as_secs_f64() * 1000.0
    );
}
