//! Services, shared by all components.

use serde_json::{Value, json};
use slipway_api::{Raw, ServiceTemplate};

use crate::merge;

/// A Service spec: the user's spec with our selector and our port. A user's port with the same number becomes ours and keeps its other fields: two
/// would be refused.
///
/// `externalIPs` is dropped: it would let a user of one namespace intercept the traffic of another.
pub(crate) fn spec(user: Option<&ServiceTemplate>, selector: &Value, port_name: &str, default_port: i32) -> Value {
    let mut spec = user.and_then(|user| user.spec.as_ref()).map(|Raw(spec)| merge::without_nulls(spec)).unwrap_or_default();
    spec.remove("externalIPs");

    let mut selected = spec.remove("selector").unwrap_or_else(|| json!({}));
    for (key, value) in selector.as_object().into_iter().flatten() {
        selected[key] = value.clone();
    }

    let mut port = json!({ "name": port_name, "port": number(user, default_port), "targetPort": port_name, "protocol": "TCP" });
    if let Some(node_port) = user.and_then(|user| user.node_port).filter(|port| *port != 0) {
        port["nodePort"] = node_port.into();
    }
    let mut ports = spec.remove("ports").and_then(|ports| ports.as_array().cloned()).unwrap_or_default();
    let is_ours = |theirs: &Value| theirs["port"] == port["port"] && theirs.get("protocol").is_none_or(|protocol| protocol == "TCP");
    match ports.iter().position(is_ours) {
        Some(index) => {
            for (field, value) in ports[index].as_object().into_iter().flatten().filter(|(field, _)| *field != "name") {
                port[field] = value.clone();
            }
            ports[index] = port;
        }
        None => ports.push(port),
    }

    spec.insert("selector".to_owned(), selected);
    spec.insert("ports".to_owned(), ports.into());
    spec.into()
}

/// The number of our port.
pub(crate) fn number(user: Option<&ServiceTemplate>, default_port: i32) -> i32 {
    user.and_then(|user| user.port).filter(|port| *port != 0).unwrap_or(default_port)
}

/// A headless Service: DNS names for pods, even before they are ready.
pub(crate) fn headless(selector: &Value, port_name: &str, port: i32) -> Value {
    json!({
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": selector,
        "ports": [{ "name": port_name, "port": port, "targetPort": port_name, "protocol": "TCP" }],
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing(json!({}), json!([{"name": "x", "port": 6817, "targetPort": "x", "protocol": "TCP"}]))]
    #[case::another_number(json!({"port": 80, "nodePort": 30080}), json!([{"name": "x", "port": 80, "targetPort": "x", "protocol": "TCP", "nodePort": 30080}]))]
    #[case::zero_is_none(json!({"port": 0, "nodePort": 0}), json!([{"name": "x", "port": 6817, "targetPort": "x", "protocol": "TCP"}]))]
    #[case::theirs_stay(json!({"spec": {"ports": [{"port": 80, "appProtocol": null}]}}), json!([{"port": 80}, {"name": "x", "port": 6817, "targetPort": "x", "protocol": "TCP"}]))]
    #[case::theirs_is_ours(json!({"spec": {"ports": [{"port": 6817, "name": "y", "nodePort": 30817}]}}),
        json!([{"name": "x", "port": 6817, "targetPort": "x", "protocol": "TCP", "nodePort": 30817}]))]
    #[case::another_protocol(json!({"spec": {"ports": [{"port": 6817, "protocol": "UDP", "name": "u"}]}}),
        json!([{"port": 6817, "protocol": "UDP", "name": "u"}, {"name": "x", "port": 6817, "targetPort": "x", "protocol": "TCP"}]))]
    fn our_port_is_there_once(#[case] user: Value, #[case] ports: Value) {
        let user: ServiceTemplate = serde_json::from_value(user).unwrap();
        assert_eq!(spec(Some(&user), &json!({}), "x", 6817)["ports"], ports);
    }

    #[test]
    fn the_selector_is_ours_and_external_addresses_are_dropped() {
        let user = json!({"spec": {"externalIPs": ["1.2.3.4"], "selector": {"a": "theirs", "b": "theirs"}, "type": "NodePort", "sessionAffinity": null}});
        let user: ServiceTemplate = serde_json::from_value(user).unwrap();
        let expected = json!({"selector": {"a": "ours", "b": "theirs"}, "type": "NodePort"});
        let mut spec = spec(Some(&user), &json!({"a": "ours"}), "x", 1);
        spec.as_object_mut().unwrap().remove("ports");
        assert_eq!(spec, expected);
    }
}
