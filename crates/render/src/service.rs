//! Services, as all components make them.

use serde_json::{Value, json};
use slipway_api::ServiceTemplate;

/// A Service spec: the user's as a base, with our selector and our port.
///
/// `externalIPs` is dropped: it would let a user of one namespace catch the traffic of another.
pub(crate) fn spec(user: Option<&ServiceTemplate>, selector: &Value, port_name: &str, default_port: i32) -> Value {
    let mut spec = user.and_then(|user| user.spec.clone()).unwrap_or_default().0;
    spec.remove("externalIPs");

    let mut selected = spec.remove("selector").unwrap_or_else(|| json!({}));
    for (key, value) in selector.as_object().into_iter().flatten() {
        selected[key] = value.clone();
    }

    let number = user.and_then(|user| user.port).filter(|port| *port != 0).unwrap_or(default_port);
    let mut port = json!({ "name": port_name, "port": number, "targetPort": port_name, "protocol": "TCP" });
    if let Some(node_port) = user.and_then(|user| user.node_port) {
        port["nodePort"] = node_port.into();
    }
    let mut ports = spec.remove("ports").and_then(|ports| ports.as_array().cloned()).unwrap_or_default();
    ports.push(port);

    spec.insert("selector".to_owned(), selected);
    spec.insert("ports".to_owned(), ports.into());
    spec.into()
}

/// A headless Service: DNS names for pods, also before they are ready.
pub(crate) fn headless(selector: &Value, port_name: &str, port: i32) -> Value {
    json!({
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": selector,
        "ports": [{ "name": port_name, "port": port, "targetPort": port_name, "protocol": "TCP" }],
    })
}
