//! Daemons of a bed: their command lines and configuration files. Pure.

pub mod control_plane;
pub mod node;

/// Formats pairs as `--name=value` flags.
fn flags<const N: usize>(pairs: [(&str, String); N]) -> Vec<String> {
    pairs.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}
