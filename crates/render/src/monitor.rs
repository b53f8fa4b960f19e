//! ServiceMonitor that leads Prometheus to each slurmctld of a Controller.

use serde_json::{Value, json};
use slipway_api::{
    Endpoint, Metadata, ServiceMonitor, SlurmController,
    child::{Child, ChildKind},
    label::{self, Component},
    name, owner,
};

use crate::metadata::{Marks, selector};

/// Metrics paths of slurmctld, if the user names none.
const PATHS: [&str; 4] = ["/metrics/jobs", "/metrics/nodes", "/metrics/partitions", "/metrics/scheduler"];

/// The ServiceMonitor of a Controller, or `None` if it or metrics are disabled, or if slurmctld is external and has no Service here.
pub fn monitor(controller: &SlurmController) -> Option<Child> {
    let wanted = wanted(controller)?;
    let (namespace, name) = crate::identity(&controller.metadata);
    let user = Metadata { labels: wanted.labels.clone(), annotations: wanted.annotations.clone() };
    let marks = Marks::inherited(&controller.metadata).with(Some(&user)).of(Component::Controller, name);
    // All Services of a Controller have its labels. Only one of them leads to every slurmctld, so that each is scraped once.
    let mut services = selector(Component::Controller.selector(name));
    services[label::SCRAPED] = "true".into();
    let body = json!({
        "metadata": marks.of_object(&[owner::controller_of(controller)]),
        "spec": {
            "endpoints": endpoints(wanted),
            "namespaceSelector": { "matchNames": [namespace] },
            "selector": { "matchLabels": services },
        },
    });
    Some(Child::new(ChildKind::ServiceMonitor, namespace, &name::controller_workload(name), body))
}

fn wanted(controller: &SlurmController) -> Option<&ServiceMonitor> {
    let metrics = controller.spec.metrics.as_ref().filter(|metrics| metrics.enabled && !controller.spec.external)?;
    metrics.service_monitor.as_ref().filter(|monitor| monitor.enabled)
}

fn endpoints(monitor: &ServiceMonitor) -> Vec<Value> {
    let usual = || PATHS.map(|path| Endpoint { path: path.to_owned(), ..Endpoint::default() }).to_vec();
    let endpoints = monitor.endpoints.clone().filter(|endpoints| !endpoints.is_empty()).unwrap_or_else(usual);
    let filled = |text: Option<String>, default: &Option<String>| text.or_else(|| default.clone()).filter(|text| !text.is_empty());
    let endpoint = |Endpoint { path, interval, scrape_timeout }: Endpoint| {
        let mut endpoint = json!({ "port": Component::Controller.daemon(), "scheme": "http", "path": path });
        if let Some(interval) = filled(interval, &monitor.interval) {
            endpoint["interval"] = interval.into();
        }
        if let Some(timeout) = filled(scrape_timeout, &monitor.scrape_timeout) {
            endpoint["scrapeTimeout"] = timeout.into();
        }
        endpoint
    };
    endpoints.into_iter().map(endpoint).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{controller::services, fixture};

    fn controller(metrics: &Value) -> SlurmController {
        let mut controller = fixture::controller();
        controller.spec.metrics = serde_json::from_value(metrics.clone()).unwrap();
        controller
    }

    #[test]
    fn a_controller_with_metrics_becomes_this_object() {
        let metrics = json!({ "enabled": true, "serviceMonitor": {
            "enabled": true, "labels": { "release": "prometheus" }, "interval": "30s", "scrapeTimeout": "25s",
        }});
        insta::assert_yaml_snapshot!(monitor(&controller(&metrics)).unwrap().body);
    }

    #[rstest]
    #[case::nothing(json!(null))]
    #[case::metrics_alone(json!({ "enabled": true }))]
    #[case::monitor_off(json!({ "enabled": true, "serviceMonitor": { "enabled": false } }))]
    #[case::metrics_off(json!({ "enabled": false, "serviceMonitor": { "enabled": true } }))]
    fn both_switches_have_to_be_on(#[case] metrics: Value) {
        assert_eq!(monitor(&controller(&metrics)), None);
    }

    #[test]
    fn a_slurmctld_outside_has_none() {
        let mut controller = controller(&json!({ "enabled": true, "serviceMonitor": { "enabled": true } }));
        assert!(monitor(&controller).is_some());
        controller.spec.external = true;
        assert_eq!(monitor(&controller), None);
    }

    #[rstest]
    #[case::defaults(json!({ "interval": "30s", "endpoints": [{ "path": "/a" }] }), json!({ "path": "/a", "interval": "30s" }))]
    #[case::own(json!({ "interval": "30s", "scrapeTimeout": "9s", "endpoints": [{ "path": "/a", "interval": "1m" }] }),
        json!({ "path": "/a", "interval": "1m", "scrapeTimeout": "9s" }))]
    #[case::neither(json!({ "interval": "", "endpoints": [{ "path": "/a" }] }), json!({ "path": "/a" }))]
    fn an_endpoint_without_its_own_times_has_the_common_ones(#[case] given: Value, #[case] mut expected: Value) {
        let monitor: ServiceMonitor = serde_json::from_value(given).unwrap();
        expected["port"] = "slurmctld".into();
        expected["scheme"] = "http".into();
        assert_eq!(endpoints(&monitor), [expected]);
    }

    /// Prometheus makes a target of each address behind each port of this name of each Service that the selector matches.
    #[rstest]
    #[case::alone(json!(null))]
    #[case::with_backups(json!({ "enabled": true, "backups": 2 }))]
    fn each_slurmctld_is_one_target(#[case] ha: Value) {
        let mut controller = controller(&json!({ "enabled": true, "serviceMonitor": { "enabled": true } }));
        controller.spec.ha = serde_json::from_value(ha).unwrap();
        let monitor = monitor(&controller).unwrap().body;
        let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
        let is_found = |service: &Child| wanted.iter().all(|(label, value)| service.body["metadata"]["labels"][label] == *value);
        let found: Vec<_> = services(&controller).unwrap().into_iter().filter(is_found).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].body["spec"]["clusterIP"], "None", "a target for each pod");
        let ports = found[0].body["spec"]["ports"].as_array().unwrap();
        assert_eq!(ports.iter().filter(|port| port["name"] == monitor["spec"]["endpoints"][0]["port"]).count(), 1);
    }
}
