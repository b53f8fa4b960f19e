//! A TLS listener whose certificate can be replaced while it serves.

use std::{
    fmt,
    io::{Error, ErrorKind, Result},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, TlsConnector, server::TlsStream};

/// Time limit for a handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// Concurrent handshakes; more clients wait in the kernel's queue.
const HANDSHAKES: usize = 64;
/// Pause after a failed accept: the cause is mostly a lack of file descriptors, and an immediate retry would spin.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// The served certificate. Open connections keep the one they started with.
#[derive(Clone, Default)]
pub struct Identity(Arc<RwLock<Option<Arc<CertifiedKey>>>>);

// Keys are never printed.
impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Identity")
    }
}

impl Identity {
    /// Serves this chain and key from now on; both are PEM. Fails if one is not PEM, or if they do not match.
    pub fn set(&self, chain: &[u8], key: &[u8]) -> Result<()> {
        let chain = CertificateDer::pem_slice_iter(chain).collect::<std::result::Result<Vec<_>, _>>().map_err(Error::other)?;
        if chain.is_empty() {
            return Err(Error::new(ErrorKind::InvalidData, "there is no certificate in it"));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(Error::other)?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(Error::other)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certified));
        Ok(())
    }

    /// True if there is a certificate to serve.
    pub fn is_set(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A TLS listener for `axum::serve`.
pub struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
    /// Handshakes run concurrently: a client that sends nothing must not block the others.
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsListener {
    pub fn new(tcp: TcpListener, identity: Identity) -> Result<Self> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(identity));
        Ok(Self { tcp, acceptor: TlsAcceptor::from(Arc::new(config)), handshakes: JoinSet::new() })
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next(), if !self.handshakes.is_empty() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
                accepted = self.tcp.accept(), if self.handshakes.len() < HANDSHAKES => match accepted {
                    Ok((stream, peer)) => {
                        let handshake = self.acceptor.accept(stream);
                        self.handshakes.spawn(async move {
                            match timeout(HANDSHAKE_WITHIN, handshake).await {
                                Ok(Ok(stream)) => Some((stream, peer)),
                                Ok(Err(error)) => {
                                    tracing::debug!(%peer, %error, "TLS handshake failed");
                                    None
                                }
                                Err(_) => None,
                            }
                        });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "could not accept a connection");
                        sleep(AFTER_FAILURE).await;
                    }
                },
            }
        }
    }

    fn local_addr(&self) -> Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// Performs a handshake with the server at `address` on this machine, as a client that trusts `authorities` (PEM) and connects to `name`.
pub async fn check(address: SocketAddr, name: &str, authorities: &[u8]) -> Result<()> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities) {
        roots.add(authority.map_err(Error::other)?).map_err(Error::other)?;
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).map_err(Error::other)?;
    let shake = async {
        let stream = TcpStream::connect(reachable(address)).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    timeout(HANDSHAKE_WITHIN, shake).await.map_err(|_| Error::from(ErrorKind::TimedOut))?.map(drop)
}

/// The address to connect to, for an address to listen on.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(ip, address.port())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::get};
    use rcgen::{CertificateParams, KeyPair};
    use tokio_util::sync::CancellationToken;

    use super::*;

    struct Pair {
        chain: String,
        key: String,
    }

    fn pair(name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
        Pair { chain: certificate.pem(), key: key.serialize_pem() }
    }

    async fn serve(identity: &Identity) -> (SocketAddr, CancellationToken) {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let listener = TlsListener::new(tcp, identity.clone()).unwrap();
        let stop = CancellationToken::new();
        let until = stop.clone().cancelled_owned();
        tokio::spawn(
            async move { axum::serve(listener, Router::new().route("/", get(async || "ok"))).with_graceful_shutdown(until).await },
        );
        (address, stop)
    }

    #[tokio::test]
    async fn the_certificate_is_exchanged_while_it_serves() {
        let identity = Identity::default();
        let (address, _stop) = serve(&identity).await;
        let (one, two) = (pair("localhost"), pair("localhost"));
        assert!(check(address, "localhost", one.chain.as_bytes()).await.is_err(), "it served without a certificate");
        identity.set(one.chain.as_bytes(), one.key.as_bytes()).unwrap();
        check(address, "localhost", one.chain.as_bytes()).await.unwrap();
        check(address, "elsewhere", one.chain.as_bytes()).await.unwrap_err();
        identity.set(two.chain.as_bytes(), two.key.as_bytes()).unwrap();
        check(address, "localhost", two.chain.as_bytes()).await.unwrap();
        check(address, "localhost", one.chain.as_bytes()).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_client_that_says_nothing_keeps_nobody_waiting() {
        let identity = Identity::default();
        let (address, _stop) = serve(&identity).await;
        let one = pair("localhost");
        identity.set(one.chain.as_bytes(), one.key.as_bytes()).unwrap();
        let _silent = TcpStream::connect(address).await.unwrap();
        timeout(Duration::from_secs(2), check(address, "localhost", one.chain.as_bytes())).await.unwrap().unwrap();
    }

    #[test]
    fn a_key_of_another_certificate_is_refused_and_the_former_pair_stays() {
        let identity = Identity::default();
        let (one, two) = (pair("localhost"), pair("localhost"));
        identity.set(one.chain.as_bytes(), one.key.as_bytes()).unwrap();
        identity.set(one.chain.as_bytes(), two.key.as_bytes()).unwrap_err();
        identity.set(b"nonsense", b"nonsense").unwrap_err();
        assert!(identity.is_set());
    }
}
