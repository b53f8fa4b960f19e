//! How the operator is put together: command line, watches and their routes ([`scope`]), the served API, rights and generated files.

pub(crate) mod args;
pub mod generate;
pub(crate) mod guarded;
pub mod logs;
pub(crate) mod manifest;
pub(crate) mod rights;
pub mod run;
pub(crate) mod scope;
pub(crate) mod served;
