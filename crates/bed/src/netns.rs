//! Access to a bed's network from a process outside it.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

use crate::failure::{Context, Failure};

/// Timeout of a connection inside a bed; every peer is on this machine.
const PATIENCE: Duration = Duration::from_secs(3);

/// Opens connections inside a bed. A socket stays in the network namespace it was created in, so it can be used from outside.
#[derive(Clone)]
pub struct Connector {
    requests: Sender<(SocketAddr, oneshot::Sender<io::Result<TcpStream>>)>,
}

impl Connector {
    /// Starts a thread in the bed's network; `pid` is a process in that network.
    pub fn enter(pid: u32) -> Result<Self, Failure> {
        let (requests, received) = mpsc::channel::<(SocketAddr, oneshot::Sender<io::Result<TcpStream>>)>();
        let (entered, ready) = mpsc::channel();
        std::thread::spawn(move || {
            let outcome = enter(pid);
            let failed = outcome.is_err();
            // The receiver waits below.
            let _ = entered.send(outcome);
            if failed {
                return;
            }
            for (address, reply) in received {
                let _ = reply.send(TcpStream::connect_timeout(&address, PATIENCE));
            }
        });
        ready.recv().context(|| "the connecting thread ended".to_owned())??;
        Ok(Self { requests })
    }

    /// Opens one connection inside the bed.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<tokio::net::TcpStream> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the connecting thread ended");
        let (reply, answer) = oneshot::channel();
        self.requests.send((address, reply)).map_err(|_| gone())?;
        let stream = answer.await.map_err(|_| gone())??;
        stream.set_nonblocking(true)?;
        tokio::net::TcpStream::from_std(stream)
    }
}

/// Listens inside the network of `pid`, for a server that runs outside.
pub fn listen(pid: u32, address: SocketAddr) -> Result<TcpListener, Failure> {
    // A separate thread, because it stays in the bed's network for the rest of its life.
    let listening = std::thread::spawn(move || {
        enter(pid)?;
        TcpListener::bind(address).context(|| format!("could not listen on {address} inside the bed"))
    });
    listening.join().unwrap_or_else(|_| Err(Failure::new("listening inside the bed went wrong")))
}

/// True if the DNS server at `server`, inside the network of `pid`, has an address for `name`.
pub fn resolves(pid: u32, server: Ipv4Addr, name: &str) -> Result<bool, Failure> {
    let query = dns_query(name);
    // A separate thread, because it stays in the bed's network for the rest of its life.
    let asked = std::thread::spawn(move || {
        enter(pid)?;
        let what = || "could not ask the bed's DNS".to_owned();
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context(what)?;
        socket.set_read_timeout(Some(Duration::from_millis(300))).context(what)?;
        let mut answer = [0; 512];
        let length = socket.send_to(&query, (server, 53)).and_then(|_| socket.recv(&mut answer));
        // No answer yet is not a failure: the server is still starting.
        Ok(length.is_ok_and(|length| has_answer(&answer[..length])))
    });
    asked.join().unwrap_or_else(|_| Err(Failure::new("asking the bed's DNS went wrong")))
}

fn enter(pid: u32) -> Result<(), Failure> {
    let path = format!("/proc/{pid}/ns/net");
    let what = || format!("could not enter the bed's network {path}");
    let namespace = File::open(&path).context(what)?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).context(what)
}

/// Query for the IPv4 address of `name`, encoded as in RFC 1035.
fn dns_query(name: &str) -> Vec<u8> {
    let mut query = vec![0x51, 0x19, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        query.push(u8::try_from(label.len()).unwrap_or(63));
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query
}

/// True if the answer has no error (the low half of byte 3) and at least one record (bytes 6 and 7).
fn has_answer(message: &[u8]) -> bool {
    message.len() > 12 && message[3].is_multiple_of(16) && (message[6], message[7]) != (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_spells_its_labels() {
        let query = dns_query("a.bc");
        assert_eq!(&query[12..], b"\x01a\x02bc\x00\x00\x01\x00\x01");
    }

    #[test]
    fn an_unknown_name_is_no_answer() {
        let mut message = vec![0; 20];
        message[7] = 1;
        assert!(has_answer(&message));
        message[3] = 3;
        assert!(!has_answer(&message), "NXDOMAIN counted as an answer");
        assert!(!has_answer(&[0; 12]));
    }
}
