//! An S3 bucket, served by s3s-fs, which stores every object as a file. It can be stopped and made to fail.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use s3s::{Body, auth::SimpleAuth, service::S3Service};
use s3s_fs::FileSystem;
use tokio::{net::TcpListener, runtime::Runtime};

const NAME: &str = "packs";
const ACCESS_KEY: &str = "access-key-of-the-tests";
const SECRET_KEY: &str = "secret-key-of-the-tests";
/// The access key of edges, which permits only reading.
const READER: &str = "access-key-of-edges-in-the-tests";
const READER_SECRET: &str = "secret-key-of-edges-in-the-tests";

/// Decides by method and path whether a request fails.
type Refusal = fn(method: &str, path: &str) -> bool;

/// A bucket and its server, which has its own threads, so that it serves requests while the test blocks.
pub struct Bucket {
    port: u16,
    folder: PathBuf,
    requests: Arc<Requests>,
    server: Option<Runtime>,
}

/// The requests to a bucket: which are refused, and the lengths of the ranges of pack data that were read.
#[derive(Default)]
struct Requests {
    refusal: Mutex<Option<Refusal>>,
    is_silent: AtomicBool,
    is_gone: AtomicBool,
    reads: Mutex<Vec<usize>>,
    forbidden: Mutex<Vec<String>>,
}

impl Requests {
    /// Returns whether an edge attempts more than reading, which its policy forbids.
    fn is_forbidden(&self, request: &http::Request<hyper::body::Incoming>) -> bool {
        let by = request.headers().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_forbidden = by.contains(READER) && !["GET", "HEAD"].contains(&request.method().as_str());
        if is_forbidden {
            self.forbidden.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
        }
        is_forbidden
    }

    /// Records a request, and returns whether it is refused.
    fn note(&self, request: &http::Request<hyper::body::Incoming>) -> bool {
        let (method, path) = (request.method().as_str(), request.uri().path());
        if method == "GET"
            && path.ends_with("/data")
            && let Some(range) = request.headers().get("range")
        {
            let range = range.to_str().unwrap();
            let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            self.reads.lock().unwrap().push(to.parse::<usize>().unwrap() + 1 - from.parse::<usize>().unwrap());
        }
        self.refusal.lock().unwrap().is_some_and(|refuses| refuses(method, path))
    }
}

impl Bucket {
    /// Starts the server of an empty bucket whose objects are files below `folder`.
    pub fn start(folder: &Path) -> Self {
        fs::create_dir_all(folder.join(NAME)).unwrap();
        let mut bucket =
            Self { port: super::ports::free(), folder: folder.to_owned(), requests: Arc::default(), server: None };
        bucket.restart();
        bucket
    }

    /// Returns the configuration for using this bucket, as environment variables without `SVC__`.
    pub fn settings(&self) -> [(&'static str, String); 5] {
        [
            ("STORE__URL", format!("s3://{NAME}/a/prefix")),
            ("STORE__ENDPOINT", format!("http://127.0.0.1:{}", self.port)),
            ("STORE__REGION", "eu-central-1".to_owned()),
            ("STORE__ACCESS_KEY", ACCESS_KEY.to_owned()),
            ("STORE__SECRET_KEY", SECRET_KEY.to_owned()),
        ]
    }

    /// Returns the settings that differ for edges.
    pub const fn reader() -> [(&'static str, &'static str); 2] {
        [("STORE__ACCESS_KEY", READER), ("STORE__SECRET_KEY", READER_SECRET)]
    }

    /// Returns the requests of edges that were refused because they would have written.
    pub fn forbidden(&self) -> Vec<String> {
        self.requests.forbidden.lock().unwrap().clone()
    }

    pub fn stop(&mut self) {
        let server = self.server.take().unwrap();
        // A runtime cannot be shut down from within another.
        std::thread::spawn(|| server.shutdown_timeout(Duration::from_secs(10))).join().unwrap();
    }

    pub fn restart(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut service = s3s::service::S3ServiceBuilder::new(FileSystem::new(&self.folder).unwrap());
        let mut auth = SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY);
        auth.register(READER.to_owned(), READER_SECRET.into());
        service.set_auth(auth);
        let listener = std::net::TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        runtime.spawn(serve(listener, service.build(), Arc::clone(&self.requests)));
        self.server = Some(runtime);
    }

    /// Makes all further requests for which `refusal` returns true fail with 500.
    pub fn refuse(&self, refusal: Refusal) {
        *self.requests.refusal.lock().unwrap() = Some(refusal);
    }

    /// Ends [`Self::refuse`].
    pub fn refuse_nothing(&self) {
        *self.requests.refusal.lock().unwrap() = None;
    }

    /// Sets whether requests that change something get no response.
    pub fn set_silent(&self, is_silent: bool) {
        self.requests.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Sets whether the bucket appears not to exist.
    pub fn set_gone(&self, is_gone: bool) {
        self.requests.is_gone.store(is_gone, Ordering::Relaxed);
    }

    /// Returns the lengths of the ranges of pack data that were read since the last call.
    pub fn take_reads(&self) -> Vec<usize> {
        std::mem::take(&mut self.requests.reads.lock().unwrap())
    }

    /// Returns the sorted keys of objects outside the trash and of unfinished uploads, without those that name the
    /// owner.
    pub fn objects(&self) -> Vec<String> {
        self.all_objects().into_iter().filter(|key| !key.starts_with("a/prefix/trash/")).collect()
    }

    /// Returns the sorted keys of pack objects in the trash.
    pub fn trashed_objects(&self) -> Vec<String> {
        let objects = self.all_objects().into_iter();
        objects.filter(|key| key.starts_with("a/prefix/trash/") && !key.ends_with("/.clock")).collect()
    }

    fn all_objects(&self) -> Vec<String> {
        let mut objects: Vec<String> = files_below(&self.folder)
            .into_iter()
            .filter_map(|file| {
                let name = file.strip_prefix(&self.folder).unwrap().to_str().unwrap();
                // The rest is the server's metadata about the objects.
                let key = if name.starts_with(".upload") { Some(name) } else { name.strip_prefix("packs/") };
                let is_about_the_store = |key: &str| key.ends_with("/database.json") || key.ends_with("/ruler.json");
                key.filter(|key| !is_about_the_store(key)).map(str::to_owned)
            })
            .collect();
        objects.sort();
        objects
    }

    /// Moves the modification time of every object back by `age`.
    pub fn age(&self, age: Duration) {
        for file in files_below(&self.folder.join(NAME)) {
            let written = fs::metadata(&file).unwrap().modified().unwrap();
            fs::File::options().append(true).open(&file).unwrap().set_modified(written - age).unwrap();
        }
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.stop();
        }
    }
}

async fn serve(listener: std::net::TcpListener, service: S3Service, requests: Arc<Requests>) {
    let listener = TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let (service, requests) = (service.clone(), Arc::clone(&requests));
        let answer = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let is_forbidden = requests.is_forbidden(&request);
            let (service, is_refused) = (service.clone(), requests.note(&request));
            let (is_gone, is_head) = (requests.is_gone.load(Ordering::Relaxed), request.method() == "HEAD");
            let is_unanswered = request.method() != "GET" && requests.is_silent.load(Ordering::Relaxed);
            async move {
                if is_unanswered {
                    std::future::pending::<()>().await;
                }
                if is_forbidden {
                    return Ok(http::Response::builder().status(403).body(Body::empty()).unwrap());
                }
                if is_gone {
                    let code = "<Error><Code>NoSuchBucket</Code><BucketName>packs</BucketName></Error>";
                    let body = if is_head { Body::empty() } else { Body::from(code.to_owned()) };
                    return Ok(http::Response::builder().status(404).body(body).unwrap());
                }
                if is_refused {
                    return Ok(http::Response::builder().status(500).body(Body::empty()).unwrap());
                }
                hyper::service::Service::call(&service, request).await
            }
        });
        tokio::spawn(async move {
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

pub fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != root => continue,
            entries => entries.unwrap(),
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}
