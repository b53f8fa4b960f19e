//! The kinds, each with its reconcile: observe, render, plan, act, report.

pub(crate) mod controller;
pub(crate) mod nodeset;
pub(crate) mod restapi;
pub(crate) mod unserved;
