use serde_json::json;

use super::*;

fn guard() -> Guard {
    watching(&Metrics::new().0)
}

fn watching(metrics: &Metrics) -> Guard {
    Guard::new(MonitorWatch::new(&Health::default(), metrics).monitors(), metrics.clone())
}

fn own(plural: &str) -> Value {
    crd::definitions().into_iter().find(|definition| definition["spec"]["names"]["plural"] == plural).unwrap()
}

fn take(guard: &Guard, definition: &Value) {
    let definition: Definition = serde_json::from_value(definition.clone()).unwrap();
    guard.take("nodesets", Some(&definition.shape));
}

fn properties<'a>(definition: &'a mut Value, part: &str) -> &'a mut serde_json::Map<String, Value> {
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]["properties"].as_object_mut().unwrap()
}

#[test]
fn nothing_is_written_before_the_definition_was_seen_and_after_it_is_gone() {
    let guard = guard();
    assert!(guard.pause("NodeSet").is_some());
    take(&guard, &own("nodesets"));
    assert_eq!(guard.pause("NodeSet"), None);
    assert_eq!(guard.condition_update("NodeSet"), None);
    guard.take("nodesets", None);
    assert!(guard.pause("NodeSet").is_some());
    assert!(!guard.prune_status("NodeSet", &mut json!({})));
}

#[test]
fn an_older_definition_pauses_its_kind_alone_and_says_what_to_do() {
    let guard = guard();
    guard.take("controllers", Some(&Shape::of(&own("controllers")["spec"])));
    let mut older = own("nodesets");
    properties(&mut older, "spec").remove("extraConf");
    take(&guard, &older);
    let wait = guard.pause("NodeSet").unwrap();
    assert_eq!(wait.reason, Reason::SchemaOlder);
    assert!(
        wait.why.contains("`nodesets.slinky.slurm.net`") && wait.why.contains("spec.extraConf") && wait.why.contains("apply"),
        "{}",
        wait.why
    );
    assert_eq!(guard.condition_update("NodeSet").unwrap().message, wait.why);
    assert_eq!(guard.pause("Controller"), None);
    take(&guard, &own("nodesets"));
    assert_eq!((guard.pause("NodeSet"), guard.condition_update("NodeSet")), (None, None));
}

#[test]
fn fields_that_the_status_lacks_are_left_out_and_nothing_pauses() {
    let guard = guard();
    let mut older = own("nodesets");
    properties(&mut older, "status").remove("slurmIdle");
    take(&guard, &older);
    assert_eq!(guard.pause("NodeSet"), None);
    assert_eq!(guard.condition_update("NodeSet").unwrap().type_, SCHEMA_CURRENT);
    let mut status = json!({ "slurmIdle": 1, "slurmDown": 2 });
    assert!(guard.prune_status("NodeSet", &mut status));
    assert_eq!(status, json!({ "slurmDown": 2 }));
}

#[test]
fn a_difference_is_counted_until_it_is_gone() {
    let (metrics, _) = Metrics::new();
    let guard = watching(&metrics);
    let differs = || metrics.schema_differs.get_or_create(&Watch { kind: "NodeSet".to_owned() }).get();
    let mut foreign = own("nodesets");
    properties(&mut foreign, "spec").insert("replicas".to_owned(), json!({ "type": "string" }));
    take(&guard, &foreign);
    assert_eq!((differs(), guard.pause("NodeSet").unwrap().reason), (1, Reason::SchemaForeign));
    take(&guard, &own("nodesets"));
    assert_eq!(differs(), 0);
}
