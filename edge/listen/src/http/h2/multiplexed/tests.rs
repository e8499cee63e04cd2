use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use ::http::Response;
use bytes::Bytes;
use fairness::budget::{BudgetLimits, ByteBudget};
use front::ResponseBody;
use futures_util::future::join_all;
use h2::{Reason, RecvStream as Received, client::SendRequest};
use http_types::{BodyError, BodySource, SiteBody};
use limits::{BLOCK_BYTES, CONNECTION_FLIGHT_BYTES, STALL};
use tokio::io::DuplexStream;

use super::{super::flow::send, *};

/// More than the buffer, the pipe, and the client's initial window hold.
const LARGE: usize = 5 * limits::GATHERED_BYTES;

/// A body that can be read again, and counts its bytes in memory.
struct RereadableBody {
    left: usize,
    block: usize,
    in_memory: Arc<AtomicUsize>,
}

impl RereadableBody {
    fn hold(&mut self, block: usize) {
        self.in_memory.fetch_sub(self.block, Ordering::SeqCst);
        self.in_memory.fetch_add(block, Ordering::SeqCst);
        self.block = block;
    }
}

impl BodySource for RereadableBody {
    fn poll_next(&mut self, _: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.block == 0 {
            self.hold(self.left.min(BLOCK_BYTES));
        }
        let len = most.min(self.block);
        self.left -= len;
        self.hold(self.block - len);
        Poll::Ready((len > 0).then(|| Ok(Bytes::from(vec![b'x'; len]))))
    }

    fn left(&self) -> u64 {
        self.left as u64
    }

    fn park(&mut self) {
        self.hold(0);
    }
}

impl Drop for RereadableBody {
    fn drop(&mut self) {
        self.hold(0);
    }
}

/// Answers with bodies of the length in the path; `/later/…` has to wait first.
#[derive(Clone, Default)]
struct LengthHandler(Arc<AtomicUsize>);

impl RequestHandler for LengthHandler {
    fn begin(
        &self,
        request: Request<RecvStream>,
        mut respond: SendResponse<ChargedChunk>,
        flow: Arc<ConnectionFlow>,
    ) -> AnswerFuture {
        let in_memory = self.0.clone();
        Box::pin(async move {
            let path = request.uri().path();
            if path.starts_with("/later") {
                tokio::task::yield_now().await;
            }
            let left = path.rsplit('/').next().unwrap().parse().unwrap();
            let body = SiteBody::streamed(Box::new(RereadableBody { left, block: 0, in_memory }));
            let out = respond.send_response(Response::new(()), left == 0).unwrap();
            send(out, ResponseBody::Site(body), None, &flow).await;
        })
    }
}

/// Returns a connection whose client has stream windows of `window` bytes, and the budget of bytes in flight.
async fn connect(answers: LengthHandler, pipe: usize, window: u32) -> (SendRequest<Bytes>, ByteBudget) {
    let (near, far) = tokio::io::duplex(pipe);
    let budget =
        ByteBudget::new(BudgetLimits { total: u64::MAX, client: u64::MAX, connection: CONNECTION_FLIGHT_BYTES });
    let account = budget.account(None);
    tokio::spawn(async move {
        let builder = super::super::builder();
        if let Some(connection) = MultiplexedConnection::<DuplexStream, _>::greet(far, builder, account, answers).await
        {
            connection.await;
        }
    });
    let mut client = h2::client::Builder::new();
    client.initial_window_size(window).initial_connection_window_size(1 << 30);
    let (sender, connection) = client.handshake(near).await.unwrap();
    tokio::spawn(connection);
    (sender, budget)
}

async fn ask(sender: &SendRequest<Bytes>, path: &str) -> Received {
    let request = Request::get(format!("https://a.de{path}")).body(()).unwrap();
    let mut sender = sender.clone().ready().await.unwrap();
    sender.send_request(request, true).unwrap().0.await.unwrap().into_body()
}

async fn take(mut body: Received) -> Result<usize, Option<Reason>> {
    let mut len = 0;
    while let Some(bytes) = body.data().await {
        let bytes = bytes.map_err(|error| error.reason())?;
        len += bytes.len();
        body.flow_control().release_capacity(bytes.len()).unwrap();
    }
    Ok(len)
}

#[tokio::test]
async fn answers_arrive_whole_whether_they_wait_or_not() {
    for window in [1_000, 65_535, 1 << 24] {
        let (sender, budget) = connect(LengthHandler::default(), 1_000, window).await;
        let sizes = [0, 1, 3_000, BLOCK_BYTES, BLOCK_BYTES + 1, 100 * 1024, LARGE];
        let asked = sizes.iter().flat_map(|size| [("", *size), ("/later", *size)]).map(|(when, size)| {
            let sender = &sender;
            async move { (take(ask(sender, &format!("{when}/{size}")).await).await, size) }
        });
        for (len, size) in join_all(asked).await {
            assert_eq!(len, Ok(size), "with a window of {window}");
        }
        assert_eq!(budget.used(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_take_holds_nothing_and_is_reset_while_others_go_on() {
    let answers = LengthHandler::default();
    let (sender, budget) = connect(answers.clone(), 64 * 1024, 1).await;
    let stalled = join_all((0..100).map(|_| ask(&sender, "/10000000"))).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let own = 100 * limits::STREAM_BYTES;
    assert_eq!((budget.used(), answers.0.load(Ordering::SeqCst)), (own, 0), "nothing is held for them but their tasks");
    assert_eq!(take(ask(&sender, "/300").await).await, Ok(300), "byte by byte");
    tokio::time::sleep(STALL + Duration::from_secs(1)).await;
    for mut body in stalled {
        assert_eq!(body.data().await.unwrap().unwrap().len(), 1);
        assert_eq!(body.data().await.unwrap().unwrap_err().reason(), Some(Reason::CANCEL));
    }
    assert_eq!(take(ask(&sender, "/300").await).await, Ok(300), "the connection goes on");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_slow_network_is_not_reset() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let (mut slow, far) = tokio::io::duplex(1_000);
    let (near, mut ours) = tokio::io::duplex(1_000);
    let budget =
        ByteBudget::new(BudgetLimits { total: u64::MAX, client: u64::MAX, connection: CONNECTION_FLIGHT_BYTES });
    let account = budget.account(None);
    tokio::spawn(async move {
        let builder = super::super::builder();
        if let Some(connection) = MultiplexedConnection::greet(far, builder, account, LengthHandler::default()).await {
            connection.await;
        }
    });
    // Some 10 KB per second, for all streams together.
    tokio::spawn(async move {
        let (mut there, mut back) = ([0; 1_000], [0; 1_000]);
        loop {
            tokio::select! {
                read = ours.read(&mut there) => slow.write_all(&there[..read.unwrap()]).await.unwrap(),
                read = slow.read(&mut back) => {
                    let Ok(read @ 1..) = read else { return };
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    if ours.write_all(&back[..read]).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
    let mut client = h2::client::Builder::new();
    // The streams also wait for each other's part of the connection's window.
    client.initial_window_size(1 << 24).initial_connection_window_size(100_000);
    let (sender, connection) = client.handshake(near).await.unwrap();
    tokio::spawn(connection);
    let bodies = join_all((0..20).map(|_| async { take(ask(&sender, "/100000").await).await })).await;
    assert!(bodies.iter().all(|len| *len == Ok(100_000)), "{bodies:?}");
    assert_eq!(budget.used(), 0);
}
