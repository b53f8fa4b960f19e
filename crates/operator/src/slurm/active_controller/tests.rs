use futures::StreamExt;
use std::net::Ipv4Addr;

use futures::channel::mpsc;
use kube::runtime::{reflector, watcher::Event};
use serde_json::json;
use slipway_runtime::clock::SystemClock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

use super::*;

/// Behavior of a simulated slurmctld.
#[derive(Clone, Copy)]
enum Manner {
    Answers(&'static str),
    /// The kernel accepts connections, the process does not.
    Frozen,
    Hangs,
    Closes,
}

/// Serves on its own address; the pods of a test share a port, as real ones do.
async fn serve(address: IpAddr, port: u16, manner: Manner) -> (SocketGuard, u16) {
    let listener = TcpListener::bind((address, port)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        if matches!(manner, Manner::Frozen) {
            std::future::pending::<()>().await;
        }
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = vec![0; 1024];
            let length = stream.read(&mut question).await.unwrap();
            assert!(question[..length].starts_with(b"GET /readyz "));
            match manner {
                Manner::Answers(status) => {
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
                Manner::Hangs => {
                    tokio::spawn(async move {
                        std::future::pending::<()>().await;
                        drop(stream);
                    });
                }
                Manner::Closes | Manner::Frozen => {}
            }
        }
    });
    (SocketGuard(task), port)
}

struct SocketGuard(JoinHandle<()>);

impl Drop for SocketGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 77, last).into()
}

#[tokio::test]
async fn each_manner_of_a_slurmctld_has_its_sign() {
    let manners = [
        (Manner::Answers("204 No Content"), Role::Active),
        (Manner::Answers("500 Internal Server Error"), Role::Standby),
        (Manner::Answers("404 Not Found"), Role::Standby),
        (Manner::Closes, Role::Absent),
        (Manner::Hangs, Role::Silent),
        (Manner::Frozen, Role::Silent),
    ];
    for (manner, expected) in manners {
        let (_guard, port) = serve(address(1), 0, manner).await;
        assert_eq!(Probe::new(port).unwrap().ask(address(1)).await, expected);
    }
    // Nothing listens on a port that was just closed.
    let (guard, port) = serve(address(1), 0, Manner::Frozen).await;
    drop(guard);
    timeout(Duration::from_secs(5), async { while Probe::new(port).unwrap().ask(address(1)).await != Role::Absent {} })
        .await
        .expect("a refused connection is an absent slurmctld");
}

fn controller(ha: bool) -> SlurmController {
    serde_json::from_value(json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "Controller",
        "metadata": {"name": "x", "namespace": "n", "uid": "u"}, "spec": {"ha": {"enabled": ha, "backups": 1}},
    }))
    .unwrap()
}

fn pod(index: u8, ip: Option<IpAddr>) -> PodView {
    serde_json::from_value(json!({
        "metadata": {"name": format!("x-controller-{index}"), "namespace": "n", "uid": format!("p{index}"),
            "labels": {label::NAME: "slurmctld", label::INSTANCE: "x"}},
        "status": {"phase": "Running", "podIP": ip.map(|ip| ip.to_string())},
    }))
    .unwrap()
}

#[tokio::test]
async fn every_pod_is_asked_and_each_change_wakes_the_controller() {
    let (first, port) = serve(address(2), 0, Manner::Answers("204 No Content")).await;
    let _second = serve(address(3), port, Manner::Answers("500 Internal Server Error")).await;
    let (controllers, mut controllers_writer) = reflector::store();
    let (pods, mut pods_writer) = reflector::store();
    controllers_writer.apply_watcher_event(&Event::Apply(controller(true)));
    for view in [pod(0, Some(address(2))), pod(1, Some(address(3)))] {
        pods_writer.apply_watcher_event(&Event::Apply(view));
    }
    let (active_controllers, mut wakes) = ActiveControllers::on_port(port, controllers, pods, Arc::new(SystemClock)).unwrap();
    let (changes, changed) = mpsc::unbounded();
    let stop = CancellationToken::new();
    let following = tokio::spawn(active_controllers.clone().follow(changed, Vec::new(), stop.clone()));

    let roles = |active_controllers: &ActiveControllers| -> Vec<Role> {
        active_controllers.roles("n", "x").by_pod.values().map(|record| record.role).collect()
    };
    let mut next = async || timeout(Duration::from_secs(20), wakes.next()).await.expect("a wake").unwrap();
    assert_eq!(next().await.name, "x");
    assert_eq!(roles(&active_controllers), [Role::Active, Role::Standby]);

    // The process ends: its kernel refuses connections. Then the pod is deleted, and another one is created that has no address yet.
    drop(first);
    next().await;
    assert_eq!(roles(&active_controllers), [Role::Absent, Role::Standby]);
    pods_writer.apply_watcher_event(&Event::Delete(pod(0, None)));
    next().await;
    assert_eq!(roles(&active_controllers), [Role::Standby]);
    pods_writer.apply_watcher_event(&Event::Apply(pod(0, None)));
    next().await;
    assert_eq!(roles(&active_controllers), [Role::Absent, Role::Standby]);

    controllers_writer.apply_watcher_event(&Event::Apply(controller(false)));
    changes.unbounded_send(()).unwrap();
    timeout(Duration::from_secs(5), async {
        while !roles(&active_controllers).is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("without backups nobody is asked");
    stop.cancel();
    following.await.unwrap();
}
