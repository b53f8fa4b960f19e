//! Measured values and their goals.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub scenario: String,
    pub what: String,
    pub value: f64,
    pub unit: &'static str,
    /// The value should not exceed this.
    pub goal: Option<f64>,
}

impl Figure {
    pub fn new(scenario: &str, what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { scenario: scenario.to_owned(), what: what.into(), value, unit, goal: None }
    }

    #[must_use]
    pub fn goal(self, goal: f64) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// False if the goal was missed.
    pub fn is_met(&self) -> bool {
        self.goal.is_none_or(|goal| self.value <= goal)
    }
}

/// The figures as text, one a line.
pub fn table(figures: &[Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        let Figure { scenario, what, value, unit, goal } = figure;
        let goal = goal.map_or_else(String::new, |goal| format!("{goal:>10.2}  {}", if figure.is_met() { "met" } else { "MISSED" }));
        let _ = writeln!(text, "{scenario:<14} {what:<62} {value:>12.2} {unit:<8} {goal}");
    }
    text
}

pub fn as_json(figures: &[Figure]) -> Value {
    let figures = figures.iter().map(|figure| {
        let Figure { scenario, what, value, unit, goal } = figure;
        json!({ "scenario": scenario, "what": what, "value": value, "unit": unit, "goal": goal })
    });
    json!({ "figures": figures.collect::<Vec<_>>() })
}

#[expect(clippy::cast_precision_loss, reason = "counts and bytes of a benchmark are far below 2^52")]
pub(super) fn as_float(count: u64) -> f64 {
    count as f64
}

/// Bytes in MB.
pub(super) fn mega(bytes: u64) -> f64 {
    as_float(bytes) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_which_goals_were_missed() {
        let figures = [Figure::new("churn", "CPU", 0.2, "cores").goal(0.1), Figure::new("churn", "pods", 3.0, "")];
        let text = table(&figures);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("MISSED"), "{text}");
        assert!(!lines[1].contains("met"), "it has no goal: {text}");
        assert_eq!(as_json(&figures)["figures"][0]["goal"], 0.1);
    }
}
