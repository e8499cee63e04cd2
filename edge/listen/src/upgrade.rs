//! Upgrades: a new edge takes over the listening sockets of the running one, which then drains.
//!
//! The new one (`--upgrade`) prepares everything, then waits at the upgrade socket. On SIGQUIT, the running one
//! connects there and sends its listening sockets, as Pingora processes do. It keeps accepting until the new one
//! confirms that it accepts as well, so that no connection is refused or delayed. Without that confirmation, it
//! continues as before.
//!
//! Pingora's own functions are not used: they receive raw file descriptors, from which only unsafe code can create
//! sockets; they stop the old process whatever happens to the new one; and they end it after a fixed time.

use std::{
    fs::{self, DirBuilder},
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        recvmsg, sendmsg,
    },
    process::geteuid,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::{TcpListener, UnixListener, UnixStream},
    signal::unix::SignalKind,
    time::{sleep, timeout},
};

use super::signals::{ShutdownController, SignalStream};

/// The names of the sockets, in the order in which they are sent.
const NAMES: &[u8] = b"https http";
/// The new edge's confirmation that it accepts connections.
const ACCEPTING: [u8; 1] = *b"!";

pub(super) struct HandOver {
    path: PathBuf,
    https: OwnedFd,
    http: OwnedFd,
}

/// The edge that the sockets were taken from, which is still accepting.
pub(super) struct Predecessor(UnixStream);

impl HandOver {
    pub(super) fn new(path: PathBuf, https: &TcpListener, http: &TcpListener) -> io::Result<Self> {
        Ok(Self { path, https: https.as_fd().try_clone_to_owned()?, http: http.as_fd().try_clone_to_owned()? })
    }

    /// Hands the sockets over on SIGQUIT, then stops. A failed handover changes nothing.
    pub(super) async fn when_asked(self, stop: ShutdownController) {
        let mut quit = SignalStream::for_kind(SignalKind::quit());
        loop {
            quit.next().await;
            tracing::info!(socket = %self.path.display(), "handing over to a new edge");
            let sent = timeout(limits::HAND_OVER, self.send()).await;
            match sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(()) => return stop.hand_over(),
                Err(error) => tracing::error!(%error, "no new edge has taken over; this one goes on"),
            }
        }
    }

    async fn send(&self) -> io::Result<()> {
        let mut stream = loop {
            match UnixStream::connect(&self.path).await {
                // The new edge is not ready yet.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                    sleep(limits::HAND_OVER_RETRY).await;
                }
                connected => break connected?,
            }
        };
        check_peer(&stream)?;
        let sockets = [self.https.as_fd(), self.http.as_fd()];
        stream.async_io(Interest::WRITABLE, || send_sockets(&stream, sockets)).await?;
        let mut said = [0; ACCEPTING.len()];
        stream.read_exact(&mut said).await?;
        if said == ACCEPTING { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// Takes the sockets over from the running edge, which must listen on these addresses, for HTTPS and for plain HTTP.
pub(super) async fn take_over(
    path: &Path,
    https: SocketAddr,
    http: SocketAddr,
) -> io::Result<([TcpListener; 2], Predecessor)> {
    prepare_folder(path)?;
    // Left by an earlier edge that was killed while it waited.
    let _ = fs::remove_file(path);
    let socket = UnixListener::bind(path)?;
    tracing::info!(socket = %path.display(), "waiting for the running edge, which SIGQUIT asks to hand over");
    let accepted = timeout(limits::TAKE_OVER, socket.accept()).await;
    let _ = fs::remove_file(path);
    let (stream, _) = accepted.map_err(|_| {
        io::Error::new(io::ErrorKind::TimedOut, "the running edge was not asked to hand over (SIGQUIT)")
    })??;
    check_peer(&stream)?;
    let received = timeout(limits::TAKE_OVER, stream.async_io(Interest::READABLE, || receive_sockets(&stream)));
    let sockets = received.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let [https, http] = [(sockets.0, https), (sockets.1, http)].map(|(socket, address)| listener(socket, address));
    Ok(([https?, http?], Predecessor(stream)))
}

impl Predecessor {
    /// Lets it stop, because this edge accepts.
    pub(super) async fn dismiss(mut self) {
        if let Err(error) = self.0.write_all(&ACCEPTING).await {
            tracing::warn!(%error, "the former edge has gone before it was told to");
        }
    }
}

fn listener(socket: OwnedFd, address: SocketAddr) -> io::Result<TcpListener> {
    let socket = std::net::TcpListener::from(socket);
    let actual = socket.local_addr()?;
    if actual != address {
        let message =
            format!("the running edge listens on {actual}, and not on {address}: stop it, then start this one");
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, message));
    }
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

fn send_sockets(stream: &UnixStream, sockets: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&sockets));
    sendmsg(stream, &[IoSlice::new(NAMES)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive_sockets(stream: &UnixStream) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut names = [0; 64];
    let message = recvmsg(stream, &mut [IoSliceMut::new(&mut names)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut sockets = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => sockets.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    match (names.get(..message.bytes), sockets.next(), sockets.next()) {
        (Some(NAMES), Some(https), Some(http)) => Ok((https, http)),
        _ => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the running edge did not send the sockets that it should"))
        }
    }
}

/// Checks that the peer process runs as the same user: the owner of a socket receives the requests.
fn check_peer(stream: &UnixStream) -> io::Result<()> {
    if stream.peer_cred()?.uid() == geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user is at the other end of the upgrade socket"))
}

/// Creates the folder of the upgrade socket, for this user only. Rejects a folder in which others could create sockets.
fn prepare_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = fs::metadata(folder)?;
    if metadata.uid() == geteuid().as_raw() && metadata.mode() & 0o022 == 0 {
        return Ok(());
    }
    let message = format!("{} is not this user's alone to write to (edge.upgrade_socket)", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    async fn listeners() -> (TcpListener, TcpListener) {
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    #[tokio::test]
    async fn the_new_edge_accepts_what_was_asked_of_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("private/upgrade.sock");
        let (https, http) = listeners().await;
        let (https_at, http_at) = (https.local_addr().unwrap(), http.local_addr().unwrap());
        let hand_over = HandOver::new(path.clone(), &https, &http).unwrap();
        let taking = async {
            let (taken, predecessor) = take_over(&path, https_at, http_at).await.unwrap();
            predecessor.dismiss().await;
            taken
        };
        let (sent, [new_https, new_http]) = tokio::join!(hand_over.send(), taking);
        sent.unwrap();
        assert!(!path.exists());
        drop((https, http, hand_over));
        for (listener, address) in [(new_https, https_at), (new_http, http_at)] {
            let (accepted, connected) = tokio::join!(listener.accept(), tokio::net::TcpStream::connect(address));
            assert_eq!(accepted.unwrap().1, connected.unwrap().local_addr().unwrap());
        }
    }

    #[tokio::test]
    async fn an_edge_that_is_refused_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("upgrade.sock");
        let (https, http) = listeners().await;
        let (https_at, http_at) = (https.local_addr().unwrap(), http.local_addr().unwrap());
        let hand_over = HandOver::new(path.clone(), &https, &http).unwrap();
        // The new edge has another configuration.
        let (sent, taken) = tokio::join!(hand_over.send(), take_over(&path, http_at, https_at));
        assert!(taken.is_err());
        assert!(sent.is_err());
    }

    #[tokio::test]
    async fn a_folder_that_others_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let error = take_over(&folder.path().join("upgrade.sock"), address, address).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
