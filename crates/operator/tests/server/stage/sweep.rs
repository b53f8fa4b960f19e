//! Deletes what a test leaves on a shared API server, as far as possible: no test waits for that or fails because of it.

use http::Request;
use kube::Client;
use serde_json::json;
use slipway_sim::kubelet::HOST_LABEL;

use super::world::list;

/// Our kinds with a finalizer of the operator.
const HELD: [&str; 2] = ["controllers", "nodesets"];
const OTHERS: [&str; 4] = ["accountings", "loginsets", "restapis", "tokens"];

/// Deletes these namespaces, their content and their hosts. No controller runs here to empty a namespace.
pub async fn sweep(client: &Client, namespaces: &[String]) {
    for namespace in namespaces {
        let ours = |plural: &str| format!("/apis/slinky.slurm.net/v1beta1/namespaces/{namespace}/{plural}");
        // From now on nothing new can be created in it.
        delete(client, &format!("/api/v1/namespaces/{namespace}")).await;
        for plural in HELD {
            for object in list(client, &ours(plural)).await {
                let path = format!("{}/{}", ours(plural), object["metadata"]["name"].as_str().unwrap_or_default());
                release(client, &path).await;
            }
        }
        for plural in HELD.iter().chain(&OTHERS) {
            delete(client, &ours(plural)).await;
        }
        delete(client, &format!("/api/v1/namespaces/{namespace}/pods")).await;
        delete(client, &format!("/api/v1/nodes?labelSelector={}%3D{namespace}", HOST_LABEL.replace('/', "%2F"))).await;
    }
}

/// Removes all finalizers.
async fn release(client: &Client, path: &str) {
    let patch = json!({ "metadata": { "finalizers": null } }).to_string().into_bytes();
    let request = Request::patch(path).header("content-type", "application/merge-patch+json").body(patch);
    if let Ok(request) = request {
        let _ = client.request_text(request).await;
    }
}

/// Deletes an object or a collection, pods without a grace period.
async fn delete(client: &Client, path: &str) {
    let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "gracePeriodSeconds": 0 });
    let request = Request::delete(path).header("content-type", "application/json").body(options.to_string().into_bytes());
    if let Ok(request) = request {
        let _ = client.request_text(request).await;
    }
}
