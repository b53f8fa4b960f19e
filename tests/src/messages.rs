//! Every sentence of ours that users read in conditions, events and logs, as one text, so that it can be read and edited like one.
//!
//! The text is a snapshot of the string literals in the crates that word them. It changes with them: accept it with `INSTA_UPDATE=always`, after
//! reading the difference aloud.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

use crate::cluster::project_root;

/// Crates whose strings reach users.
const CRATES: [&str; 5] = ["api", "plan", "render", "slurm", "operator"];

/// The source files of a crate in the order of their paths; test modules are left out.
fn files(src: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![src.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()) {
            let is_test = path.file_stem().is_some_and(|name| name == "tests");
            match path.extension() {
                _ if is_test => {}
                None if path.is_dir() => folders.push(path),
                Some(extension) if extension == "rs" => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The sentences among the string literals of `code`: those with at least three words, outside attributes, comments and test modules.
fn sentences(code: TokenStream, found: &mut Vec<String>) {
    let mut tokens = code.into_iter().peekable();
    let mut is_test = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                // An inner attribute, `#![...]`, such as a comment about the whole file.
                let _ = tokens.next_if(|next| matches!(next, TokenTree::Punct(punct) if punct.as_char() == '!'));
                if let Some(TokenTree::Group(attribute)) = tokens.next_if(|next| matches!(next, TokenTree::Group(_))) {
                    is_test |= attribute.stream().to_string().replace(' ', "") == "cfg(test)";
                }
            }
            // The body of the item after `#[cfg(test)]`, or its end.
            TokenTree::Group(_) if is_test => is_test = false,
            TokenTree::Punct(punct) if is_test && punct.as_char() == ';' => is_test = false,
            TokenTree::Group(group) => sentences(group.stream(), found),
            TokenTree::Literal(literal) => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    found.extend(Some(text.value()).filter(|text| is_sentence(text)));
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

fn is_sentence(text: &str) -> bool {
    let is_word = |word: &&str| word.chars().filter(char::is_ascii_lowercase).count() > 1;
    text.split_whitespace().filter(is_word).count() > 2
}

#[test]
fn every_sentence_for_users_is_in_one_text() {
    let mut text = String::new();
    for name in CRATES {
        let root = project_root().join("crates").join(name);
        for file in files(&root.join("src")) {
            let mut found = Vec::new();
            sentences(fs::read_to_string(&file).unwrap().parse().unwrap(), &mut found);
            if !found.is_empty() {
                writeln!(text, "\n{name}/{}", file.strip_prefix(root.join("src")).unwrap().display()).unwrap();
                for sentence in found {
                    writeln!(text, "  {}", sentence.replace('\n', "\n  ")).unwrap();
                }
            }
        }
    }
    insta::assert_snapshot!("messages", text);
}

#[test]
fn a_sentence_is_found_in_macros_and_not_in_comments_attributes_and_tests() {
    let code = r#"
        //! A comment about all of it.
        /// A comment with many words.
        #[must_use = "a hint with many words"]
        fn one() -> String { format!("two words and `{}`", "short one") }
        #[cfg(test)]
        mod tests { const TEST: &str = "a test with words"; }
        const LAST: &str = "a line that \
                            goes on";
    "#;
    let mut found = Vec::new();
    sentences(code.parse().unwrap(), &mut found);
    assert_eq!(found, ["two words and `{}`", "a line that goes on"]);
}
