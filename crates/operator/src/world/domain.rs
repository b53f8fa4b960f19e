//! The cluster's DNS domain.

const DEFAULT: &str = "cluster.local";

/// The domain in which this cluster's pods resolve names, read from the operator's own resolver configuration.
pub(crate) fn of_this_pod() -> String {
    of(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

fn of(resolv_conf: &str) -> String {
    let mut searches = resolv_conf.lines().filter_map(|line| line.strip_prefix("search")).flat_map(str::split_whitespace);
    searches.find_map(|domain| domain.strip_prefix("svc.")).unwrap_or(DEFAULT).trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    #[rstest]
    #[case::in_a_pod("nameserver 10.96.0.10\nsearch ns.svc.corp.example svc.corp.example corp.example\noptions ndots:5\n", "corp.example")]
    #[case::outside("nameserver 1.1.1.1\nsearch lan\n", "cluster.local")]
    #[case::nothing("", "cluster.local")]
    fn the_domain_follows_svc(#[case] resolv_conf: &str, #[case] domain: &str) {
        assert_eq!(super::of(resolv_conf), domain);
    }
}
