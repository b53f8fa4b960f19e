//! Generated files are committed. These tests fail if one is older than the code.

use std::{collections::BTreeSet, path::Path};

use slipway_operator::generate;

#[test]
fn generated_files_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in generate::files().unwrap() {
        let committed = std::fs::read_to_string(root.join(&file.path)).unwrap_or_default();
        assert!(committed == file.content, "{} is stale: run `make generate`", file.path);
    }
}

#[test]
fn no_generated_folder_has_a_file_that_the_code_does_not_make() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["charts/slurm-operator-crds/templates", "docs/reference"] {
        let made: BTreeSet<String> =
            generate::files().unwrap().into_iter().map(|file| file.path).filter(|path| path.starts_with(folder)).collect();
        let found: BTreeSet<String> = std::fs::read_dir(root.join(folder))
            .unwrap()
            .map(|entry| format!("{folder}/{}", entry.unwrap().file_name().into_string().unwrap()))
            .collect();
        assert_eq!(found, made);
    }
}
