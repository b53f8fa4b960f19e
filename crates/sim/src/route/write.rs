//! Requests that change the world.

use serde_json::{Map, Value, json};

use super::{Ask, Payload};
use crate::answer::Refusal;
use crate::update::words;
use crate::world::World;

impl Ask<'_> {
    pub(super) fn write(&self, method: &str, parts: &[&str], world: &mut World) -> Payload {
        let nothing = || Ok((Map::new(), Vec::new()));
        let once = |done: Result<(), Refusal>| done.map(|()| (Map::new(), Vec::new())).map_err(|refusal| vec![refusal]);
        match (method, parts) {
            ("GET", ["reconfigure"]) => {
                world.reconfigure();
                nothing()
            }
            ("POST", ["job", "submit"]) => self.submit(world),
            ("POST", ["job", id]) => {
                world.update_job(id.parse().unwrap_or_default(), &self.body).map_err(|refusal| vec![refusal])?;
                Ok((Map::from_iter([("results".to_owned(), Value::Null)]), Vec::new()))
            }
            ("GET", ["job", id, "requeue"]) => {
                world.requeue(id.parse().unwrap_or_default(), self.query.contains("Hold")).map_err(|refusal| vec![refusal])?;
                Ok((Map::from_iter([("status".to_owned(), json!([]))]), Vec::new()))
            }
            ("POST", ["partitions"]) => {
                self.body["partitions"].as_array().into_iter().flatten().for_each(|it| world.write_partition(it));
                nothing()
            }
            ("DELETE", ["partition", name]) => once(world.delete_partition(name)),
            ("POST", ["nodes"]) => {
                world.update_nodes(&words(&self.body["name"]).unwrap_or_default(), &self.body, &self.user).and_then(|()| nothing())
            }
            ("POST", ["node", name]) => world.update_nodes(&[(*name).to_owned()], &self.body, &self.user).and_then(|()| nothing()),
            ("POST", ["new", "node"]) => once(world.create_nodes(self.body["node_conf"].as_str().unwrap_or_default())),
            ("DELETE", ["node", name]) => once(world.delete_node(name)),
            ("DELETE", ["job", id]) => {
                let status = world.cancel(id.parse().unwrap_or_default());
                Ok((Map::from_iter([("status".to_owned(), Value::Array(status))]), Vec::new()))
            }
            ("POST", ["reservation"]) => {
                world.write_reservation(&self.body).map_err(|refusal| vec![refusal])?;
                let warning = "Slurm accounting storage is disabled. Could not query the following: [TRES].".to_owned();
                Ok((Map::from_iter([("reservations".to_owned(), json!([self.body]))]), vec![warning.clone(), warning]))
            }
            ("DELETE", ["reservation", name]) => once(world.delete_reservation(name)),
            _ => Err(Vec::new()),
        }
    }

    fn submit(&self, world: &mut World) -> Payload {
        let (id, is_held) = world.submit(&self.body["job"]).map_err(|refusal| vec![refusal])?;
        let held = "Job is in held state, pending scheduler release".to_owned();
        let warnings = if is_held { vec![format!("Job submission resulted in non-zero return code: {held}"), held] } else { Vec::new() };
        let payload = [("job_id", json!(id)), ("step_id", json!("batch")), ("job_submit_user_msg", json!(""))];
        Ok((payload.map(|(key, value)| (key.to_owned(), value)).into_iter().collect(), warnings))
    }
}
