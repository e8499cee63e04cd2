//! Sends TLS records together: written data is sent when it is flushed, or when there is much of it.
//!
//! tokio-rustls sends after each write, of which rustls takes at most 64 KiB. For a long body that means four sends,
//! and four wake-ups of the reader, where one suffices.

use std::{
    io::{self, IoSlice, Write as _},
    pin::Pin,
    task::{Context, Poll, ready},
};

use fairness::budget::{BudgetAccount, ByteGrant};
use limits::{RECORDS_BYTES, RECORDS_SPARE_BYTES};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

/// A TLS stream that sends its records together.
///
/// It holds [`RECORDS_BYTES`] of them. While memory is plentiful, it holds [`RECORDS_SPARE_BYTES`] more of a long body,
/// which are charged until the socket has taken them. Writers have to flush, as always.
pub(crate) struct RecordStream<S> {
    stream: TlsStream<S>,
    account: BudgetAccount,
    queued: usize,
    /// The grant for bytes beyond [`RECORDS_BYTES`].
    spare: Option<ByteGrant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> RecordStream<S> {
    pub(crate) fn new(mut stream: TlsStream<S>, account: BudgetAccount) -> Self {
        stream.get_mut().1.set_buffer_limit(Some(RECORDS_BYTES));
        Self { stream, account, queued: 0, spare: None }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.queued = 0;
        if self.spare.take().is_some() {
            self.stream.get_mut().1.set_buffer_limit(Some(RECORDS_BYTES));
        }
        Poll::Ready(Ok(()))
    }

    /// Makes room for some of `left` bytes: with spare memory if they are many, or by sending what is queued.
    fn poll_room(&mut self, cx: &mut Context<'_>, left: usize) -> Poll<io::Result<()>> {
        // A body of one and a half batches is sent sooner in two than in one.
        if self.queued >= RECORDS_BYTES && self.spare.is_none() && left >= RECORDS_BYTES {
            self.spare = self.account.try_take_spare(RECORDS_SPARE_BYTES as u64).ok();
            if self.spare.is_some() {
                self.stream.get_mut().1.set_buffer_limit(Some(RECORDS_BYTES + RECORDS_SPARE_BYTES));
            }
        }
        let room = if self.spare.is_some() { RECORDS_BYTES + RECORDS_SPARE_BYTES } else { RECORDS_BYTES };
        if self.queued < room { Poll::Ready(Ok(())) } else { self.poll_send(cx) }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for RecordStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for RecordStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let left = bufs.iter().map(|buf| buf.len()).sum();
        if left == 0 {
            return Poll::Ready(Ok(0));
        }
        loop {
            ready!(this.poll_room(cx, left))?;
            let written = this.stream.get_mut().1.writer().write_vectored(bufs)?;
            this.queued += written;
            if written > 0 {
                return Poll::Ready(Ok(written));
            }
            // rustls' own records took the room: tickets, a response to a key update.
            ready!(this.poll_send(cx))?;
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use fairness::budget::{BudgetLimits, ByteBudget};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio_rustls::{TlsAcceptor, TlsConnector, client};

    use super::*;

    const PIPE: usize = 1 << 20;

    struct CountedSocket {
        socket: DuplexStream,
        sends: Arc<AtomicUsize>,
    }

    impl AsyncRead for CountedSocket {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.socket).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for CountedSocket {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(cx, &[IoSlice::new(buf)])
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.sends.fetch_add(1, Ordering::Relaxed);
            // Writes everything in one call, as a socket does.
            let all = bufs.iter().flat_map(|buf| buf.iter().copied()).collect::<Vec<u8>>();
            Pin::new(&mut self.socket).poll_write(cx, &all)
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.socket).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.socket).poll_shutdown(cx)
        }
    }

    /// Connects a client to `RecordStream` that may hold `connection` bytes.
    async fn connected(
        connection: u64,
        pipe: usize,
    ) -> (client::TlsStream<DuplexStream>, RecordStream<CountedSocket>, ByteBudget, Arc<AtomicUsize>) {
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["a.test".into()]).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![cert.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap(),
            )
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (near, far) = duplex(pipe);
        let sends = Arc::<AtomicUsize>::default();
        let far = CountedSocket { socket: far, sends: sends.clone() };
        let (near, far) = tokio::join!(
            TlsConnector::from(Arc::new(client)).connect("a.test".try_into().unwrap(), near),
            TlsAcceptor::from(Arc::new(server)).accept(far),
        );
        let budget = ByteBudget::new(BudgetLimits { total: connection, client: connection, connection });
        let records = RecordStream::new(far.unwrap(), budget.account(None));
        sends.store(0, Ordering::Relaxed);
        (near.unwrap(), records, budget, sends)
    }

    async fn send(body: &[u8], connection: u64) -> usize {
        let (mut near, mut records, budget, sends) = connected(connection, PIPE).await;
        let sent = async {
            records.write_all(body).await.unwrap();
            records.flush().await.unwrap();
            assert_eq!(budget.used(), 0, "what was sent is charged no more");
        };
        let mut read = vec![0; body.len()];
        let (_, ()) = tokio::join!(async { near.read_exact(&mut read).await.unwrap() }, sent);
        assert_eq!(read, body);
        sends.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn records_leave_together_as_far_as_there_is_memory() {
        // The overhead of TLS for each record counts as well.
        let body: Vec<u8> = (0..=250).cycle().take(RECORDS_BYTES + RECORDS_SPARE_BYTES - 1_000).collect();
        assert_eq!(send(&body, 4 * body.len() as u64).await, 1);
        assert_eq!(
            send(&body, RECORDS_SPARE_BYTES as u64).await,
            body.len().div_ceil(RECORDS_BYTES),
            "nothing is to spare"
        );
        assert_eq!(send(&body[..RECORDS_BYTES * 3 / 2], 4 * body.len() as u64).await, 2, "it is not long enough");
        assert_eq!(send(&body[..100], 1).await, 1);
    }

    #[tokio::test]
    async fn a_reader_who_takes_nothing_holds_what_is_charged() {
        const PIPE: usize = 1_000;
        let (_near, mut records, budget, _) = connected(10_000_000, PIPE).await;
        let accepted = Arc::new(Mutex::new(0));
        let much = vec![0; 2 * RECORDS_BYTES];
        let writing = async {
            loop {
                let written = records.write(&much).await.unwrap();
                *accepted.lock().unwrap() += written;
            }
        };
        assert!(tokio::time::timeout(std::time::Duration::from_millis(200), writing).await.is_err());
        assert!(*accepted.lock().unwrap() <= RECORDS_BYTES + RECORDS_SPARE_BYTES + PIPE);
        assert_eq!(budget.used(), RECORDS_SPARE_BYTES as u64);
        drop(records);
        assert_eq!(budget.used(), 0);
    }
}
