use std::{convert::Infallible, net::SocketAddr, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use clap::{Parser, Subcommand};
use jiff::SignedDuration;

use crate::slurm::Address;

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

    /// Where slurmrestd of a RestApi is found, with the parts {service}, {namespace} and {port}; another than this for an operator outside the
    /// cluster, such as http://127.0.0.1:{port}
    #[arg(long, default_value = Address::IN_CLUSTER, value_name = "PATTERN")]
    pub slurm_url_template: Address,

    /// Conditions of Kubernetes nodes, separated by commas: while one of them is True, the workers there are drained with its words as the reason
    #[arg(long, default_value = "", value_name = "TYPES")]
    pub propagated_node_conditions: Names,

    #[command(flatten)]
    pub webhook: WebhookArgs,

    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The admission webhook.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Admission webhook")]
pub struct WebhookArgs {
    /// Address for the API server's questions; 0 for none. Outside a cluster there is none either, unless --webhook-url is given
    #[arg(long = "webhook-addr", default_value = ":9443", value_parser = optional_address)]
    pub addr: OptionalAddress,

    /// Where the API server finds this process when it runs outside the cluster, such as https://192.0.2.1:9443
    #[arg(long = "webhook-url", value_name = "URL")]
    pub url: Option<String>,

    /// Use tls.crt and tls.key of this folder, which somebody else keeps fresh, and leave the registration's caBundle to them
    #[arg(long = "webhook-cert-dir", value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,

    /// The cert-manager Certificate, as namespace/name, whose authority cert-manager is to put into the registration
    #[arg(long = "webhook-inject-ca-from", value_name = "CERTIFICATE", requires = "cert_dir")]
    pub inject_ca_from: Option<String>,

    /// How long the webhook's own authority lasts; the next one follows after two thirds of it
    #[arg(long = "webhook-ca-life", default_value = "8760h", value_parser = duration, value_name = "TIME")]
    pub ca_life: Duration,

    /// How long the webhook's certificate lasts; the next one follows after two thirds of it
    #[arg(long = "webhook-certificate-life", default_value = "720h", value_parser = duration, value_name = "TIME")]
    pub certificate_life: Duration,
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

/// Names, separated by commas; an empty text is none, as a chart writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Arc<[String]>);

impl FromStr for Names {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()))
    }
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

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<SignedDuration> = text.parse().ok();
    parsed
        .and_then(|parsed| Duration::try_from(parsed).ok())
        .ok_or_else(|| format!("`{text}` is no length of time: write it like `720h` or `90m`"))
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
    #[case::not_given(&[], &[])]
    #[case::empty(&["--propagated-node-conditions="], &[])]
    #[case::two(&["--propagated-node-conditions", "GpuBroken, DiskPressure,"], &["GpuBroken", "DiskPressure"])]
    fn conditions_are_named_with_commas_between(#[case] flags: &[&str], #[case] expected: &[&str]) {
        let args = Args::parse_from([&["slipway"], flags].concat());
        assert_eq!(args.propagated_node_conditions.0.as_ref(), expected);
    }

    #[rstest]
    #[case("720h", Some(Duration::from_hours(720)))]
    #[case("1h30m", Some(Duration::from_mins(90)))]
    #[case("30", None)]
    #[case("-1h", None)]
    fn a_length_of_time_has_a_unit(#[case] text: &str, #[case] expected: Option<Duration>) {
        assert_eq!(duration(text).ok(), expected);
    }

    #[rstest]
    #[case("nonsense")]
    #[case("")]
    #[case(":")]
    fn a_bad_address_is_explained(#[case] text: &str) {
        assert!(address(text).unwrap_err().contains("write it like"));
    }
}
