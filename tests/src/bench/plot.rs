//! Figures as a picture and as a page.

use std::fmt::Write as _;

use super::figure::Figure;

const WIDTH: f64 = 1_040.0;
const ROW: f64 = 26.0;
/// Start of the bars, and their length if a goal is just met.
const START: f64 = 660.0;
const FULL: f64 = 240.0;
/// Bars end here, however far a goal was missed.
const MOST: f64 = 1.5;

/// Bars of all figures with a goal, as parts of that goal.
pub fn svg(figures: &[Figure]) -> String {
    let shown: Vec<(&Figure, f64)> = figures.iter().filter_map(|figure| Some((figure, figure.goal?))).collect();
    let height = ROW * (f64::from(u32::try_from(shown.len()).unwrap_or_default()) + 1.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (row, (figure, goal)) in (0_u32..).zip(&shown) {
        let middle = ROW * (f64::from(row) + 0.5);
        let part = if *goal > 0.0 { (figure.value / goal).min(MOST) } else { MOST * f64::from(u8::from(figure.value > 0.0)) };
        let colour = if figure.is_met() { "#3a7d44" } else { "#b3392f" };
        let label = escaped(&format!("{}: {}", figure.scenario, figure.what));
        let value = escaped(&format!("{:.2} {}", figure.value, figure.unit));
        let _ = writeln!(text, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>", START - 8.0, middle + 4.0);
        let _ = writeln!(
            text,
            "<rect x=\"{START}\" y=\"{}\" width=\"{:.1}\" height=\"14\" fill=\"{colour}\"/>",
            middle - 7.0,
            (part * FULL).max(1.0)
        );
        let _ = writeln!(text, "<text x=\"{:.1}\" y=\"{}\">{value}</text>", START + part.max(0.0) * FULL + 6.0, middle + 4.0);
    }
    let (goal, end) = (START + FULL, height - ROW);
    let _ = writeln!(text, "<line x1=\"{goal}\" y1=\"0\" x2=\"{goal}\" y2=\"{end}\" stroke=\"#444\" stroke-dasharray=\"4 3\"/>");
    let _ = writeln!(text, "<text x=\"{goal}\" y=\"{}\" text-anchor=\"middle\" fill=\"#444\">goal</text>", height - 8.0);
    text.push_str("</svg>\n");
    text
}

/// The table of a page in Markdown.
pub fn markdown(figures: &[Figure]) -> String {
    let mut text = String::from("| scenario | figure | result | goal |\n|---|---|---|---|\n");
    for Figure { scenario, what, value, unit, goal } in figures {
        let goal = goal.map_or_else(String::new, |goal| format!("{goal:.2}{}", if *value <= goal { "" } else { ", missed" }));
        let _ = writeln!(text, "| {scenario} | {what} | {value:.2} {unit} | {goal} |");
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_goal_is_red_and_ends_within_the_picture() {
        let figures = [
            Figure::new("a", "met <&>", 1.0, "s").goal(2.0),
            Figure::new("a", "missed", 900.0, "s").goal(2.0),
            Figure::new("a", "none wanted", 0.0, "").goal(0.0),
            Figure::new("a", "without a goal", 3.0, ""),
        ];
        let text = svg(&figures);
        assert_eq!((text.matches("#3a7d44").count(), text.matches("#b3392f").count()), (2, 1));
        assert!(text.contains("met &lt;&amp;&gt;") && text.contains("width=\"360.0\""), "{text}");
        assert!(!text.contains("without a goal"));
        assert_eq!(markdown(&figures).lines().count(), 6);
        assert!(markdown(&figures).contains("| a | missed | 900.00 s | 2.00, missed |"));
    }
}
