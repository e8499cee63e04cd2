//! A resolver that validates signatures, and finds those of every name invalid.

use std::net::Ipv4Addr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UdpSocket},
    task::JoinSet,
};

/// The maximum size of a query, in bytes.
const QUESTION: usize = 4_096;
const SERVFAIL: u8 = 2;

/// A running resolver, which ends when this value is dropped.
pub struct Resolver {
    /// Its address and port, over UDP and TCP.
    pub address: String,
    _tasks: JoinSet<()>,
}

impl Resolver {
    /// Starts a resolver that answers SERVFAIL, or with no records if the query disables validation.
    pub async fn start() -> Self {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(at).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut question = [0; QUESTION];
            while let Ok((len, from)) = udp.recv_from(&mut question).await {
                let _ = udp.send_to(&answer(&question[..len]), from).await;
            }
        });
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = tcp.accept().await {
                connections.spawn(async move {
                    while let Ok(len) = stream.read_u16().await {
                        let mut question = vec![0; len.into()];
                        stream.read_exact(&mut question).await.unwrap();
                        let answer = [&len.to_be_bytes()[..], &answer(&question)].concat();
                        stream.write_all(&answer).await.unwrap();
                    }
                });
            }
        });
        Self { address: at.to_string(), _tasks: tasks }
    }
}

/// Turns a query into a response without records.
fn answer(question: &[u8]) -> Vec<u8> {
    let mut answer = question.to_vec();
    let is_unchecked = answer[3] & 0x10 != 0;
    answer[2] |= 0x80;
    answer[3] = (answer[3] & 0x10) | 0x80 | if is_unchecked { 0 } else { SERVFAIL };
    answer
}
