//! Certificates of one bed: two CAs, one certificate per daemon, kubeconfigs.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose as Usage, IsCa, KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use crate::failure::{Context, Failure};
use crate::layout::{self, CONTROL_PLANE, KUBERNETES_SERVICE};

/// Folder of a bed's keys; created once per bed and removed with it.
#[derive(Debug)]
pub struct Pki {
    folder: PathBuf,
}

type Authority = CertifiedIssuer<'static, KeyPair>;

impl Pki {
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub fn cert(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.crt"))
    }

    pub fn key(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.key"))
    }

    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.conf"))
    }

    /// Public half of the key that signs service account tokens.
    pub fn service_account_public_key(&self) -> PathBuf {
        self.folder.join("sa.pub")
    }

    /// Creates all keys of the control plane.
    pub fn create(&self) -> Result<(), Failure> {
        fs::create_dir_all(&self.folder).context(|| format!("could not make {}", self.folder.display()))?;
        let ca = authority("slipway-bed")?;
        let front = authority("slipway-bed-front-proxy")?;
        self.write("ca.crt", &ca.pem())?;
        self.write("ca.key", &ca.key().serialize_pem())?;
        self.write("front-proxy-ca.crt", &front.pem())?;
        let tokens = generate()?;
        self.write("sa.key", &tokens.serialize_pem())?;
        self.write("sa.pub", &tokens.public_key_pem())?;

        let apiserver_names = [
            "kubernetes".to_owned(),
            "kubernetes.default".to_owned(),
            "kubernetes.default.svc".to_owned(),
            "kubernetes.default.svc.cluster.local".to_owned(),
            "localhost".to_owned(),
            Ipv4Addr::LOCALHOST.to_string(),
            KUBERNETES_SERVICE.to_string(),
            CONTROL_PLANE.to_string(),
        ];
        self.issue(
            &ca,
            "apiserver",
            Subject { common_name: "kube-apiserver", organization: None },
            &apiserver_names,
            &[Usage::ServerAuth],
        )?;
        self.issue(
            &front,
            "front-proxy-client",
            Subject { common_name: "front-proxy-client", organization: None },
            &[],
            &[Usage::ClientAuth],
        )?;
        let clients = [
            ("kubelet-client", "apiserver-kubelet-client", Some("system:masters")),
            ("admin", "admin", Some("system:masters")),
            ("kube-controller-manager", "system:kube-controller-manager", None),
            ("kube-scheduler", "system:kube-scheduler", None),
            ("kube-proxy", "system:kube-proxy", None),
        ];
        for (file, common_name, organization) in clients {
            self.issue(&ca, file, Subject { common_name, organization }, &[], &[Usage::ClientAuth])?;
            self.write_kubeconfig(file, &self.kubeconfig(file), &[format!("https://{CONTROL_PLANE}:{}", layout::API_PORT)])?;
        }
        Ok(())
    }

    /// Creates the keys of one node, signed by the existing CA.
    pub fn create_node(&self, index: u8) -> Result<(), Failure> {
        let name = layout::node_name(index);
        let key = KeyPair::from_pem(&read(&self.key("ca"))?).context(|| "could not read the bed's own authority".to_owned())?;
        let issuer = rcgen::Issuer::from_ca_cert_pem(&read(&self.cert("ca"))?, key)
            .context(|| "could not read the bed's own authority".to_owned())?;
        self.issue(
            &issuer,
            &name,
            Subject { common_name: &format!("system:node:{name}"), organization: Some("system:nodes") },
            &[name.clone(), layout::node_address(index).to_string()],
            &[Usage::ClientAuth, Usage::ServerAuth],
        )?;
        self.write_kubeconfig(&name, &self.kubeconfig(&name), &[format!("https://{CONTROL_PLANE}:{}", layout::API_PORT)])
    }

    /// Writes a kubeconfig with one context per server; the first is named `bed` and is current.
    pub fn write_kubeconfig(&self, user: &str, path: &Path, servers: &[String]) -> Result<(), Failure> {
        let context = |i: usize| if i == 0 { "bed".to_owned() } else { format!("bed-{}", i + 1) };
        let ca = read(&self.cert("ca"))?;
        let clusters: Vec<_> = servers
            .iter()
            .enumerate()
            .map(|(i, server)| json!({"name": context(i), "cluster": {"server": server, "certificate-authority-data": base64(&ca)}}))
            .collect();
        let contexts: Vec<_> =
            (0..servers.len()).map(|i| json!({"name": context(i), "context": {"cluster": context(i), "user": user}})).collect();
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": clusters,
            "contexts": contexts,
            "current-context": context(0),
            "users": [{"name": user, "user": {
                "client-certificate-data": base64(&read(&self.cert(user))?),
                "client-key-data": base64(&read(&self.key(user))?),
            }}],
        });
        // JSON is valid YAML.
        write_private(path, &format!("{config:#}\n"))
    }

    fn issue(
        &self,
        issuer: &rcgen::Issuer<'_, KeyPair>,
        file: &str,
        subject: Subject<'_>,
        names: &[String],
        usages: &[Usage],
    ) -> Result<(), Failure> {
        let what = || format!("could not make the certificate {file}");
        let key = generate()?;
        let mut params = CertificateParams::new(names).context(what)?;
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, subject.common_name);
        if let Some(organization) = subject.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        let cert = params.signed_by(&key, issuer).context(what)?;
        self.write(&format!("{file}.crt"), &cert.pem())?;
        self.write(&format!("{file}.key"), &key.serialize_pem())
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Failure> {
        write_private(&self.folder.join(file), text)
    }
}

#[derive(Clone, Copy)]
struct Subject<'a> {
    common_name: &'a str,
    organization: Option<&'a str>,
}

fn authority(name: &str) -> Result<Authority, Failure> {
    let what = || format!("could not make the authority {name}");
    let mut params = CertificateParams::new(Vec::new()).context(what)?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, generate()?).context(what)
}

fn generate() -> Result<KeyPair, Failure> {
    KeyPair::generate().context(|| "could not make a key".to_owned())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).context(|| format!("could not read {}", path.display()))
}

fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .context(|| format!("could not write {}", path.display()))
}

fn base64(text: &str) -> String {
    use k8s_openapi::ByteString;
    // ByteString serialises as standard base64, which saves a dependency for one function.
    let value = serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_signed_by_the_authority_made_before() {
        let folder = std::env::temp_dir().join(format!("slipway-pki-{}", std::process::id()));
        let pki = Pki::at(folder.clone());
        pki.create().unwrap();
        pki.create_node(3).unwrap();
        let verdict = crate::program::Program::new("openssl").args(["verify", "-CAfile"]).arg(pki.cert("ca")).arg(pki.cert("n3")).output();
        let subject = crate::program::Program::new("openssl")
            .args(["x509", "-noout", "-subject", "-ext", "subjectAltName", "-in"])
            .arg(pki.cert("n3"))
            .output()
            .unwrap();
        fs::remove_dir_all(&folder).unwrap();
        verdict.unwrap();
        for part in ["system:node:n3", "system:nodes", "DNS:n3", "172.30.0.13"] {
            assert!(subject.contains(part), "{part} is missing in {subject}");
        }
    }
}
