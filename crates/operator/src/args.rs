use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, Subcommand};

/// Runs Slurm clusters on Kubernetes.
#[derive(Parser, Debug)]
#[command(name = "slipway", version, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Kubeconfig file, to run outside a cluster
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Look after these namespaces only, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub namespaces: Vec<String>,

    /// Address for /livez and /readyz
    #[arg(long, default_value = ":8081", value_parser = address)]
    pub health_addr: SocketAddr,

    /// Address for /metrics; 0 for none
    #[arg(long, default_value = ":8080", value_parser = optional_address)]
    pub metrics_addr: OptionalAddress,

    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What else the binary can do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Write the generated files of the project: CustomResourceDefinitions and the operator's manifest
    Generate {
        /// Root of the project
        #[arg(long, default_value = ".")]
        dir: PathBuf,
    },
}

/// An address, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionalAddress(pub Option<SocketAddr>);

fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse().map_err(|_| format!("`{text}` is no address: write it like `:8081` or `127.0.0.1:8081`"))
}

fn optional_address(text: &str) -> Result<OptionalAddress, String> {
    if text == "0" { Ok(OptionalAddress(None)) } else { address(text).map(Some).map(OptionalAddress) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn flags_are_read() {
        let args = Args::parse_from(["slipway", "--namespaces", "a,b", "--health-addr", ":9", "--metrics-addr", "0"]);
        assert_eq!(args.namespaces, ["a", "b"]);
        assert_eq!(args.health_addr, "0.0.0.0:9".parse().unwrap());
        assert_eq!(args.metrics_addr, OptionalAddress(None));
    }

    #[rstest]
    #[case("nonsense")]
    #[case("")]
    #[case(":")]
    fn a_bad_address_is_explained(#[case] text: &str) {
        assert!(address(text).unwrap_err().contains("write it like"));
    }
}
