//! Certificates: a CA of our own, and what it signs.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context, anyhow};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, parse_x509_pem};

/// Certificates are backdated by this much, for machines whose clocks are behind.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);

/// A certificate and its key, as PEM. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Validity and names of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Time of creation.
    pub(super) made: Timestamp,
    /// Time of expiry.
    pub(super) ends: Timestamp,
    /// Host names and addresses that it is valid for.
    pub(super) names: Vec<String>,
}

/// Creates a CA.
pub(super) fn make_authority(now: Timestamp, life: Duration) -> anyhow::Result<Pair> {
    let mut params = CertificateParams::new(Vec::new()).context("make an authority")?;
    // Each CA has its own name: a client that trusts two of them must be able to tell which one signed.
    let name = format!("slipway-webhook-{}", now.as_millisecond());
    subject(&mut params, &name, now, now + life)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().context("make a key")?;
    let authority = CertifiedIssuer::self_signed(params, key).context("make an authority")?;
    Ok(Pair { certificate: authority.pem(), key: authority.key().serialize_pem() })
}

/// Creates a server certificate, signed by `authority` and expiring no later than it.
pub(super) fn make_certificate(authority: &Pair, names: &[String], now: Timestamp, life: Duration) -> anyhow::Result<Pair> {
    let ends = facts(&authority.certificate)?.ends.min(now + life);
    let signer = KeyPair::from_pem(&authority.key).context("read the authority's key")?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, signer).context("read the authority")?;
    let mut params = CertificateParams::new(names).context("make a certificate")?;
    subject(&mut params, names.first().map_or("slipway-webhook", String::as_str), now, ends)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    debug_assert!(params.subject_alt_names.iter().all(|name| matches!(name, SanType::DnsName(_) | SanType::IpAddress(_))));
    let key = KeyPair::generate().context("make a key")?;
    let certificate = params.signed_by(&key, &issuer).context("make a certificate")?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn subject(params: &mut CertificateParams, name: &str, now: Timestamp, ends: Timestamp) -> anyhow::Result<()> {
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
    let date = |time: Timestamp| time::OffsetDateTime::from_unix_timestamp(time.as_second()).context("a date beyond the calendar");
    params.not_before = date(now - BACKDATED)?;
    params.not_after = date(ends)?;
    Ok(())
}

/// Reads validity and names of a certificate (PEM).
pub(super) fn facts(pem: &str) -> anyhow::Result<Facts> {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).map_err(|error| anyhow!("no certificate in PEM form: {error}"))?;
    let (_, certificate) = X509Certificate::from_der(&pem.contents).map_err(|error| anyhow!("no certificate: {error}"))?;
    let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).context("a date beyond the calendar");
    let made = time(certificate.validity().not_before)?.checked_add(BACKDATED)?;
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|ip| ip.to_string()),
        _ => None,
    });
    Ok(Facts { made, ends: time(certificate.validity().not_after)?, names: names.collect() })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// True if `certificate` was signed by `authority`; both are PEM.
pub(super) fn is_signed_by(certificate: &str, authority: &str) -> bool {
    let check = || -> Option<bool> {
        let (_, certificate) = parse_x509_pem(certificate.as_bytes()).ok()?;
        let (_, authority) = parse_x509_pem(authority.as_bytes()).ok()?;
        let (certificate, authority) = (certificate.parse_x509().ok()?, authority.parse_x509().ok()?);
        Some(certificate.verify_signature(Some(authority.public_key())).is_ok())
    };
    check().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn a_certificate_tells_its_names_its_time_and_its_authority() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let (one, two) = (make_authority(now, 10 * DAY).unwrap(), make_authority(now, 10 * DAY).unwrap());
        let names = ["slipway-webhook.slipway-system.svc".to_owned(), "127.0.0.1".to_owned(), "fd00::1".to_owned()];
        let leaf = make_certificate(&one, &names, now, 3 * DAY).unwrap();
        assert_eq!(facts(&leaf.certificate).unwrap(), Facts { made: now, ends: now + 3 * DAY, names: names.to_vec() });
        assert!(is_signed_by(&leaf.certificate, &one.certificate));
        assert!(!is_signed_by(&leaf.certificate, &two.certificate));
    }

    #[test]
    fn a_certificate_never_outlives_its_authority() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let authority = make_authority(now, DAY).unwrap();
        let leaf = make_certificate(&authority, &["a".to_owned()], now, 3 * DAY).unwrap();
        assert_eq!(facts(&leaf.certificate).unwrap().ends, now + DAY);
    }

    #[test]
    fn nonsense_is_no_certificate() {
        assert!(facts("nonsense").is_err());
        assert!(facts("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err());
        assert!(!is_signed_by("nonsense", "nonsense"));
    }
}
