//! Imports between the files of each crate: no circles.
//!
//! A file may use the module it is part of, where types that its siblings share are defined. Every other import counts, and the files of a crate must be
//! readable in one order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::cluster::project_root;

/// A module by its path below the crate, such as `nodeset::scale_in`.
type Module = Vec<String>;

/// Source files by module; test modules are left out.
fn modules(src: &Path) -> BTreeMap<Module, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(src).unwrap().with_extension("");
                let mut module: Module = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                if module.last().is_some_and(|last| last == "mod") || module == ["lib"] || module == ["main"] {
                    module.pop();
                }
                if !module.iter().any(|part| part == "tests") {
                    found.insert(module, path);
                }
            }
        }
    }
    found
}

/// The code of a file without comments and without its test module.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.split(" as ").next().unwrap_or_default().to_owned()] };
    let body = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start, mut branches) = (0_usize, 0, Vec::new());
    for (index, letter) in body.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                branches.push(&body[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    branches.push(&body[start..]);
    let branches = branches.into_iter().filter(|branch| !branch.trim().is_empty());
    branches.flat_map(expand).map(|branch| format!("{}{branch}", prefix.trim())).collect()
}

/// Paths in `use` statements and in the code itself.
fn paths(code: &str) -> Vec<Vec<String>> {
    let (mut paths, mut rest) = (Vec::new(), String::new());
    for statement in code.split(';') {
        let tree =
            statement.rfind("use ").map(|at| &statement[at + 4..]).filter(|tree| tree.contains("::") && !tree.contains(['(', '=', '"']));
        match tree {
            Some(tree) => paths.extend(expand(&tree.split_whitespace().collect::<Vec<_>>().join(" "))),
            None => rest.push_str(statement),
        }
    }
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    paths.extend(rest.split(|letter| !is_path(letter)).filter(|word| word.contains("::")).map(str::to_owned));
    paths.iter().map(|path| path.replace(' ', "").split("::").map(str::to_owned).collect()).collect()
}

/// The file that defines what a path names, as far as it is in this crate.
fn resolve(path: &[String], from: &Module, modules: &BTreeMap<Module, PathBuf>) -> Option<Module> {
    let mut base = from.clone();
    let mut rest = path;
    match path.first().map(String::as_str)? {
        "crate" => {
            base = Module::new();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        first if modules.contains_key(&[base.as_slice(), &[first.to_owned()]].concat()) => {}
        _ => return None,
    }
    let mut found = base.clone();
    for part in rest {
        base.push(part.clone());
        if !modules.contains_key(&base) {
            break;
        }
        found.clone_from(&base);
    }
    Some(found)
}

/// Imports of each file, except those of modules that it is part of.
fn imports(src: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules = modules(src);
    let imports_of = |module: &Module, path: &PathBuf| {
        let text = code(&fs::read_to_string(path).unwrap());
        let targets = paths(&text).into_iter().filter_map(|path| resolve(&path, module, &modules));
        targets.filter(|target| target != module && !module.starts_with(target)).collect()
    };
    modules.iter().map(|(module, path)| (module.clone(), imports_of(module, path))).collect()
}

/// A circle of imports, if there is one.
fn circle(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<Module>> {
    fn visit(
        at: &Module,
        imports: &BTreeMap<Module, BTreeSet<Module>>,
        way: &mut Vec<Module>,
        done: &mut BTreeSet<Module>,
    ) -> Option<Vec<Module>> {
        if let Some(start) = way.iter().position(|before| before == at) {
            return Some(way[start..].to_vec());
        }
        if done.contains(at) {
            return None;
        }
        way.push(at.clone());
        let found = imports.get(at).into_iter().flatten().find_map(|next| visit(next, imports, way, done));
        way.pop();
        done.insert(at.clone());
        found
    }
    let mut done = BTreeSet::new();
    imports.keys().find_map(|module| visit(module, imports, &mut Vec::new(), &mut done))
}

#[test]
fn files_of_a_crate_import_each_other_in_no_circle() {
    let mut crates: Vec<PathBuf> = fs::read_dir(project_root().join("crates")).unwrap().flatten().map(|entry| entry.path()).collect();
    crates.push(project_root().join("tests"));
    let mut circles = Vec::new();
    for folder in crates {
        let imports = imports(&folder.join("src"));
        assert!(imports.values().any(|targets| !targets.is_empty()), "{} has no imports: are they read?", folder.display());
        if let Some(circle) = circle(&imports) {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            circles.push(format!("{}: {}", folder.display(), names.join(" -> ")));
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

#[test]
fn a_use_tree_is_a_list_of_paths() {
    assert_eq!(expand("crate::{a, b::{c, d as e}}"), ["crate::a", "crate::b::c", "crate::b::d"]);
    let found = paths("use crate::{a::B, c};\nfn f() { super::d::g(); }");
    assert_eq!(found, [vec!["crate", "a", "B"], vec!["crate", "c"], vec!["super", "d", "g"]]);
}

#[test]
fn a_circle_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let imports = |pairs: &[(&str, &str)]| {
        let mut imports: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, to) in pairs {
            imports.entry(module(from)).or_default().insert(module(to));
        }
        imports
    };
    assert_eq!(circle(&imports(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    assert_eq!(circle(&imports(&[("a", "b"), ("b", "c"), ("c", "b")])), Some(vec![module("b"), module("c")]));
}
