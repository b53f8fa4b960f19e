use proptest::prelude::*;

use super::*;

fn join(sources: &[(&str, &str)]) -> Union {
    let files: Vec<(&str, ConfFile)> = sources.iter().map(|(name, text)| (*name, ConfFile::parse(text))).collect();
    let sources: Vec<Source<'_>> = files.iter().map(|(name, file)| Source { name, file }).collect();
    union(&sources).unwrap()
}

#[test]
fn the_later_source_wins_and_the_report_says_over_what() {
    let union = join(&[("operator", "ClusterName=c\nKillWait=30\n"), ("user", "# mine\nkillwait=60\n")]);
    assert_eq!(union.file.to_string(), "ClusterName=c\nKillWait=60\n");
    let told: Vec<String> = union.overrides.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["KillWait: `60` of user line 2 wins over `30` of operator line 2"]);
}

#[test]
fn the_same_value_twice_is_no_override() {
    let union = join(&[("operator", "KillWait=30\n"), ("user", "KillWait=30\n")]);
    assert_eq!((union.file.to_string().as_str(), union.overrides.len()), ("KillWait=30\n", 0));
}

#[test]
fn lists_are_joined_word_by_word_and_keep_their_case() {
    let union = join(&[
        ("operator", "SlurmctldParameters=enable_configless,reconfig_on_restart\nAuthAltParameters=jwt_key=/etc/slurm/jwt.key\n"),
        ("user", "SlurmctldParameters=power_save_interval=5,Enable_Configless\nAuthAltParameters=jwks=/Etc/JWKS.json,jwt_key=/My/Key\n"),
    ]);
    let expected = "AuthAltParameters=jwks=/Etc/JWKS.json,jwt_key=/My/Key\n\
                    SlurmctldParameters=Enable_Configless,power_save_interval=5,reconfig_on_restart\n";
    assert_eq!(union.file.to_string(), expected);
    let told: Vec<String> = union.overrides.iter().map(|lost| format!("{} {}", lost.lost.value, lost.won.value)).collect();
    assert_eq!(told, ["enable_configless Enable_Configless", "jwt_key=/etc/slurm/jwt.key jwt_key=/My/Key"]);
}

#[test]
fn records_are_joined_by_name_and_defaults_come_before_what_they_are_for() {
    let union = join(&[
        ("operator", "PartitionName=gpu Nodes=gpu\nNodeSet=gpu Feature=gpu\nPartitionName=cpu Nodes=cpu MaxTime=60\n"),
        ("user", "PartitionName=DEFAULT MaxTime=30\nPartitionName=cpu MaxTime=90 Default=YES\n"),
    ]);
    let expected = "NodeSet=gpu Feature=gpu\n\
                    PartitionName=DEFAULT MaxTime=30\n\
                    PartitionName=cpu Default=YES MaxTime=90 Nodes=cpu\n\
                    PartitionName=gpu Nodes=gpu\n";
    assert_eq!(union.file.to_string(), expected);
    assert_eq!(union.overrides[0].key, "PartitionName=cpu MaxTime");
}

#[test]
fn hosts_and_scripts_may_repeat_and_keep_their_order() {
    let union = join(&[("a", "SlurmctldHost=b(1)\nSlurmctldHost=a(2)\nProlog=20-z\n"), ("b", "SlurmctldHost=a(2)\nProlog=10-a\n")]);
    assert_eq!(union.file.to_string(), "Prolog=20-z\nProlog=10-a\nSlurmctldHost=b(1)\nSlurmctldHost=a(2)\n");
}

#[test]
fn a_line_that_is_no_setting_is_refused_with_its_place() {
    let file = ConfFile::parse("KillWait=30\nInclude /etc/other.conf\n");
    let refused = union(&[Source { name: "user", file: &file }]).unwrap_err();
    assert!(refused.to_string().starts_with("user line 2: `/etc/other.conf`"), "{refused}");
}

/// Generates the lines of a source.
fn lines() -> impl Strategy<Value = String> {
    let value = prop::sample::select(vec!["a", "b", "1", "x,y", "y=2,Z"]);
    let plain = (prop::sample::select(vec!["KillWait", "killwait", "AuthInfo", "SlurmctldParameters", "MailDomain"]), value.clone());
    let record = (prop::sample::select(vec!["p", "q"]), prop::sample::select(vec!["Nodes", "MaxTime"]), value.clone());
    let host = prop::sample::select(vec!["h1", "h2", "h3"]);
    let line = prop_oneof![
        plain.prop_map(|(key, value)| format!("{key}={value}\n")),
        record.prop_map(|(name, key, value)| format!("PartitionName={name} {key}={value}\n")),
        host.prop_map(|host| format!("SlurmctldHost={host}\n")),
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.concat())
}

/// Topics of a file: its keys, and the keys and words inside.
fn topics(text: &str) -> std::collections::BTreeSet<String> {
    let mut topics = std::collections::BTreeSet::new();
    for entry in ConfFile::parse(text).entries {
        let head = entry.head();
        let record = if is_record(&head.key) { head.value.clone() } else { String::new() };
        for setting in &entry.settings {
            topics.insert(format!("{record}/{}", setting.key.to_ascii_lowercase()));
            if is_repeatable(&setting.key) {
                topics.insert(setting.to_string());
            } else if LISTS.iter().any(|list| setting.is(list)) {
                let words = setting.value.split(',').map(|word| word.split('=').next().unwrap_or_default().to_ascii_lowercase());
                topics.extend(words.map(|word| format!("{}:{word}", setting.key.to_ascii_lowercase())));
            }
        }
    }
    topics
}

proptest! {
    #[test]
    fn adding_a_source_never_removes_what_is_there(first in lines(), second in lines(), third in lines()) {
        let two = join(&[("1", &first), ("2", &second)]);
        let three = join(&[("1", &first), ("2", &second), ("3", &third)]);
        prop_assert!(topics(&two.file.to_string()).is_subset(&topics(&three.file.to_string())));
    }

    #[test]
    fn each_key_stands_once_and_a_second_pass_changes_nothing(first in lines(), second in lines()) {
        let once = join(&[("1", &first), ("2", &second)]).file.to_string();
        prop_assert_eq!(&join(&[("again", &once)]).file.to_string(), &once);
        let mut keys: Vec<String> = ConfFile::parse(&once).entries.iter().map(ToString::to_string).collect();
        keys.retain(|line| !line.starts_with("SlurmctldHost"));
        let mut heads: Vec<String> = keys.iter().map(|line| {
            if line.starts_with("PartitionName") { line.split(' ').next().unwrap().to_owned() } else { line.split('=').next().unwrap().to_ascii_lowercase() }
        }).collect();
        let count = heads.len();
        heads.sort();
        heads.dedup();
        prop_assert_eq!(heads.len(), count);
    }

    #[test]
    fn every_value_of_the_last_source_stands_in_the_result(first in lines(), last in lines()) {
        let union = join(&[("1", &first), ("2", &last)]);
        for entry in &ConfFile::parse(&join(&[("2", &last)]).file.to_string()).entries {
            for setting in entry.settings.iter().filter(|setting| !LISTS.iter().any(|list| setting.is(list))) {
                let found = union.file.entries.iter().any(|known| {
                    (!is_record(&entry.head().key) || known.head().value == entry.head().value)
                        && known.settings.iter().any(|known| known.is(&setting.key) && known.value == setting.value)
                });
                prop_assert!(found, "{} is lost", setting);
            }
        }
    }
}
