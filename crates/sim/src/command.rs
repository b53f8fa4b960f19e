//! Commands to the stand-in over HTTP: `POST /_sim/<command>` with a JSON body.
//!
//! | command | body |
//! |---|---|
//! | `fault` | a [`Fault`]: `{"kind": "stall", "path": "nodes", "times": 1}` |
//! | `heal`, `forget`, `expire-tokens` | none |
//! | `flip` | `{"down": true, "reason": "switch"}` |
//! | `register` | `{"name": "w[1-3]", "cpus": 4, "features": ["worker"], "topology": "tree:s1"}` |
//! | `topology` | `{"name": "tree", "units": ["s1", "s2"]}` |
//! | `turn` | `{"seconds": 60}` |

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use slipway_slurm::hostlist::Hostlist;

use crate::answer::Answer;
use crate::fault::Fault;
use crate::sim::{Incoming, Sim};

#[derive(Deserialize)]
struct Flip {
    down: bool,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
struct Register {
    name: String,
    #[serde(default = "two")]
    cpus: u64,
    #[serde(default)]
    features: Vec<String>,
    /// Position in a topology that `topology` has created.
    #[serde(default)]
    topology: String,
}

#[derive(Deserialize)]
struct Topology {
    name: String,
    units: Vec<String>,
}

fn two() -> u64 {
    2
}

#[derive(Deserialize)]
struct Turn {
    seconds: u64,
}

/// Carries out the request if it is a command; `None` if it is not.
pub fn obey(sim: &Sim, request: &Incoming) -> Option<Answer> {
    let command = request.path.strip_prefix("/_sim/")?;
    let done = match command {
        _ if request.method != "POST" => Err("commands are POSTs"),
        "fault" => body::<Fault>(request).map(|fault| sim.fail(fault)),
        "heal" => {
            sim.heal();
            Ok(())
        }
        "forget" => {
            sim.world(crate::world::World::forget);
            Ok(())
        }
        "expire-tokens" => {
            sim.expire_tokens();
            Ok(())
        }
        "flip" => body::<Flip>(request).map(|flip| sim.flip(flip.down, &flip.reason)),
        "turn" => body::<Turn>(request).map(|turn| sim.turn(Duration::from_secs(turn.seconds))),
        "topology" => body::<Topology>(request).map(|new| {
            sim.world(|world| world.topologies.insert(new.name, new.units));
        }),
        "register" => body::<Register>(request).and_then(|new| {
            let names = Hostlist::parse(&new.name).map_err(|_| "the name is no hostlist")?;
            sim.world(|world| names.names().take(65_536).for_each(|name| world.register_at(&name, new.cpus, &new.features, &new.topology)));
            Ok(())
        }),
        _ => Err("there is no such command"),
    };
    Some(match done {
        Ok(()) => Answer::plain(204, ""),
        Err(why) => Answer::plain(400, why),
    })
}

fn body<T: DeserializeOwned>(request: &Incoming) -> Result<T, &'static str> {
    serde_json::from_slice(&request.body).map_err(|_| "the body is not what the command needs")
}
