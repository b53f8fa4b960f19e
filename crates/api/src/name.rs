//! Every derived name, in one place. Children are found by name: renaming one breaks running clusters.
//!
//! Each kind has a `check_*` that checks all its derived names; it runs before any of them is used.

mod accounting;
mod controller;
mod form;
mod login;
mod restapi;
mod token;
mod worker;

pub use accounting::*;
pub use controller::*;
pub use form::{Form, Unfit, fit};
pub use login::*;
pub use restapi::*;
pub use token::*;
pub use worker::*;

#[cfg(test)]
mod tests;
