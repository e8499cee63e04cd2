//! The listener of the API, with a limit on connections that leaves open files for everything else.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// Memory that a connection takes together with its request. All connections together may take the process's memory
/// divided by [`MEMORY_SHARE`]: the resulting 8,192 connections of a machine with 4 GB serve several edges with 1,024
/// requests in flight each.
const CONNECTION_BYTES: u64 = 64 * 1024;
const MEMORY_SHARE: u64 = 8;
/// The open files limit divided by this is left to the database, the spool and the store.
const SPARE_FILES_SHARE: usize = 4;
/// The open files limit to assume if the system does not report it.
const USUAL_OPEN_FILES: usize = 1_024;

/// The maximum number of connections that the kernel accepts before we do.
const BACKLOG: u32 = 1_024;

#[derive(Debug)]
pub(crate) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    waiting: Arc<AtomicBool>,
}

/// Observes a listener's connections after the server has taken the listener itself.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionCount {
    places: Arc<Semaphore>,
    most: usize,
    waiting: Arc<AtomicBool>,
}

impl ConnectionCount {
    pub(crate) fn is_empty(&self) -> bool {
        // The next connection's permit is already taken.
        self.places.available_permits() + 1 >= self.most
    }

    /// Returns whether no connection was waiting to be accepted at the last check.
    pub(crate) fn is_backlog_empty(&self) -> bool {
        !self.waiting.load(Ordering::Relaxed)
    }
}

/// Listens on an address that another admin may share, so that the next one can start before this one has ended.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A connection that holds a permit until it ends.
#[derive(Debug)]
pub(crate) struct BoundedStream {
    stream: TcpStream,
    _place: Option<OwnedSemaphorePermit>,
}

impl BoundedListener {
    /// Limits the connections of `listener` to the configured number, or by memory if that is 0, and by the open files
    /// limit. Further connections wait in the kernel's queue.
    pub(crate) fn new(listener: TcpListener, configured: usize) -> Self {
        let limits_file = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let files = limits_file
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"))
            .and_then(|values| values.split_whitespace().next()?.parse::<usize>().ok());
        let files = files.unwrap_or(USUAL_OPEN_FILES);
        let places = max_connections(files, config::machine::memory(), configured);
        if configured > places {
            tracing::warn!(configured, places, files, "admin.connections is more than the open files allow");
        }
        Self::with_places(listener, places)
    }

    fn with_places(listener: TcpListener, places: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(places)), waiting: Arc::default() }
    }

    pub(crate) fn connections(&self) -> ConnectionCount {
        let (places, waiting) = (self.places.clone(), self.waiting.clone());
        ConnectionCount { most: places.available_permits(), places, waiting }
    }
}

fn max_connections(files: usize, memory: Option<u64>, configured: usize) -> usize {
    let of_files = (files - files / SPARE_FILES_SHARE).max(1);
    let wanted = match (configured, memory) {
        (0, Some(memory)) => usize::try_from(memory / MEMORY_SHARE / CONNECTION_BYTES).unwrap_or(usize::MAX).max(1),
        (0, None) => of_files,
        (configured, _) => configured,
    };
    of_files.min(wanted)
}

impl BoundedStream {
    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.stream
    }
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        self.waiting.store(true, Ordering::Relaxed);
        // The semaphore is never closed.
        let place = self.places.clone().acquire_owned().await.ok();
        let waiting = &self.waiting;
        let mut accepting = pin!(Listener::accept(&mut self.listener));
        let (stream, peer) = poll_fn(|cx| {
            let accepted = accepting.as_mut().poll(cx);
            waiting.store(accepted.is_ready(), Ordering::Relaxed);
            accepted
        })
        .await;
        (BoundedStream { stream, _place: place }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn connections_leave_files() {
        let memory = Some(4 << 30);
        assert_eq!([4, 1_024, 20_000].map(|files| max_connections(files, memory, 0)), [3, 768, 8_192]);
        assert_eq!(max_connections(1_000_000, Some(64 << 30), 0), 131_072);
        assert_eq!((max_connections(20_000, Some(1), 0), max_connections(20_000, None, 0)), (1, 15_000));
        assert_eq!((max_connections(20_000, memory, 12_000), max_connections(1_024, memory, 12_000)), (12_000, 768));
    }

    #[tokio::test]
    async fn a_connection_waits_for_a_place() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut listener = BoundedListener::with_places(listener, 1);
        let connections = listener.connections();
        assert!(connections.is_empty() && connections.is_backlog_empty());
        let (_one, _two) = (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
        let (held, _) = listener.accept().await;
        assert!(listener.accept().now_or_never().is_none());
        assert!(!connections.is_backlog_empty(), "the second one waits for a place");
        drop(held);
        let (_held, _) = listener.accept().await;
        assert!(!connections.is_backlog_empty(), "there may be a third");
    }

    #[tokio::test]
    async fn it_is_known_when_no_connection_waits_or_is_open() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut listener = BoundedListener::with_places(listener, 5);
        let connections = listener.connections();
        let _client = TcpStream::connect(address).await.unwrap();
        let (held, _) = listener.accept().await;
        let mut next = Box::pin(listener.accept());
        assert!(next.as_mut().now_or_never().is_none());
        assert!(connections.is_backlog_empty() && !connections.is_empty());
        drop(held);
        assert!(connections.is_empty());
    }

    #[tokio::test]
    async fn the_next_admin_listens_beside_this_one() {
        let first = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let _second = listen(first.local_addr().unwrap()).unwrap();
        assert!(TcpListener::bind(first.local_addr().unwrap()).await.is_err());
    }
}
