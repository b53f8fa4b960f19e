//! Kubernetes quantities, as far as they are read here.

/// CPUs, rounded up, or `None` if it is not a quantity.
pub fn cpus(quantity: &str) -> Option<u64> {
    whole(parse(quantity)?.ceil())
}

/// Mebibytes, rounded down, or `None` if it is not a quantity.
pub fn mebibytes(quantity: &str) -> Option<u64> {
    whole((parse(quantity)? / f64::from(1 << 20)).floor())
}

/// A number of indivisible things, or `None` if it is not a whole number.
pub fn count(quantity: &str) -> Option<u64> {
    let value = parse(quantity)?;
    whole(value).filter(|_| value.fract() == 0.0)
}

/// True if two quantities are equal: the server stores `1Gi` for `1024Mi`, and `100m` for `0.1`.
pub fn is_same(one: &str, other: &str) -> bool {
    match (parse(one), parse(other)) {
        // Most tenths have no exact binary form.
        (Some(one), Some(other)) => (one - other).abs() <= one.abs().max(other.abs()) * 1e-9,
        _ => one == other,
    }
}

/// Canonical text of a quantity, in thousandths; other text stays as it is.
pub fn canonical(quantity: &str) -> String {
    parse(quantity).map_or_else(|| quantity.to_owned(), |amount| format!("{:.0}m", amount * 1000.0))
}

fn parse(quantity: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 14] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    let (number, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| quantity.strip_suffix(suffix).map(|number| (number, *factor)))
        .unwrap_or((quantity, 1.0));
    number.trim().parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| value * factor)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked: whole, not negative, far below 2^63
fn whole(value: f64) -> Option<u64> {
    (0.0..9e15).contains(&value).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1024Mi", "1Gi", true)]
    #[case("0.1", "100m", true)]
    #[case("1", "1000m", true)]
    #[case("1G", "1Gi", false)]
    #[case("0", "1n", false)]
    #[case("one", "one", true)]
    #[case("one", "1", false)]
    fn amounts_are_compared_by_their_meaning(#[case] one: &str, #[case] other: &str, #[case] expected: bool) {
        assert_eq!(is_same(one, other), expected);
    }

    #[rstest]
    #[case("2", Some(2))]
    #[case("1500m", Some(2))]
    #[case("0.5", Some(1))]
    #[case("1e1", Some(10))]
    #[case("-1", None)]
    #[case("four", None)]
    fn cpus_are_rounded_up(#[case] quantity: &str, #[case] expected: Option<u64>) {
        assert_eq!(cpus(quantity), expected);
    }

    #[rstest]
    #[case("8", Some(8))]
    #[case("1k", Some(1000))]
    #[case("0", Some(0))]
    #[case("500m", None)]
    #[case("-1", None)]
    #[case("eight", None)]
    fn what_cannot_be_split_is_a_whole_number(#[case] quantity: &str, #[case] expected: Option<u64>) {
        assert_eq!(count(quantity), expected);
    }

    #[rstest]
    #[case("4Gi", Some(4096))]
    #[case("4194304Ki", Some(4096))]
    #[case("1G", Some(953))]
    #[case("1048576", Some(1))]
    #[case("", None)]
    fn memory_is_counted_in_mebibytes(#[case] quantity: &str, #[case] expected: Option<u64>) {
        assert_eq!(mebibytes(quantity), expected);
    }
}
