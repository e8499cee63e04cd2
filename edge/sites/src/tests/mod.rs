//! Sites without sockets: packs in a test's memory, requests in, answers out.

mod addresses;
mod caching;
mod damage;
mod dates;
mod dialect;
mod files;
mod forms;
mod gates;
mod guards;
mod hostile;
mod members;
mod rules;
mod stores;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use db::sign_in::gate_tickets::SiteTicket;
use domain::{
    Clock, DeploymentId, OrgId, ProjectId, Timestamp, UserId,
    site::{Site, SiteGate, SiteKind},
};
use fairness::budget::{BudgetAccount, ByteBudget, ByteGrant};
use gate::Gatekeeper;
use http::{HeaderMap, Request, StatusCode, request::Builder};
use http_body_util::{BodyExt as _, Full};
use http_types::{BodyError, SiteBody, Visit};
use limits::MemoryShares;
use memory::{CacheReadError, MemberLookup, OrgMembership, RecentDeployments};
use packs::{
    Encoding, FileEntry, Manifest, Span,
    rules::{headers, redirects, robots::RobotsRules},
};
use secrets::EdgeKey;
use sha2::{Digest as _, Sha256};

use super::{PackError, PackSource, SiteService};

const NOW: i64 = 1_800_000_000_000;
const PUBLISHED: &str = "Fri, 15 Jan 2027 08:00:00 GMT";

fn now() -> Timestamp {
    Timestamp::from_unix_millis(NOW)
}

/// In-memory packs whose reads can be made to fail.
#[derive(Default)]
struct Shelf {
    packs: Mutex<HashMap<DeploymentId, (Manifest, Vec<u8>)>>,
    recent: Mutex<Vec<DeploymentId>>,
    away: AtomicBool,
    /// Whether reads never end.
    hangs: AtomicBool,
    reads: AtomicUsize,
    largest_read: AtomicUsize,
    /// Whether deployments whose packs are missing here still exist.
    keeps: AtomicBool,
    looks: AtomicUsize,
}

#[async_trait]
impl PackSource for Shelf {
    async fn manifest(&self, id: &DeploymentId, account: &BudgetAccount) -> Result<(Manifest, ByteGrant), PackError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.away.load(Ordering::SeqCst) {
            return Err(PackError::unavailable("told to fail"));
        }
        let manifest = self.packs.lock().unwrap().get(id).map(|(manifest, _)| manifest.clone());
        Ok((manifest.ok_or(PackError::Missing)?, account.try_take(0).unwrap()))
    }

    async fn read(&self, id: &DeploymentId, offset: u64, len: u64) -> Result<Bytes, PackError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let (offset, len) = (usize::try_from(offset).unwrap(), usize::try_from(len).unwrap());
        self.largest_read.fetch_max(len, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        // Yields to other tasks, as reading a real store does.
        tokio::task::yield_now().await;
        if self.away.load(Ordering::SeqCst) {
            return Err(PackError::unavailable("told to fail"));
        }
        let packs = self.packs.lock().unwrap();
        let (_, data) = packs.get(id).ok_or(PackError::Missing)?;
        let bytes = data.get(offset..offset + len).ok_or(PackError::Damaged("it ends early".into()))?;
        Ok(Bytes::copy_from_slice(bytes))
    }

    fn is_remote(&self) -> bool {
        true
    }
}

#[async_trait]
impl RecentDeployments for Shelf {
    async fn recent(&self, _: &ProjectId) -> Arc<[DeploymentId]> {
        self.recent.lock().unwrap().as_slice().into()
    }

    async fn is_kept(&self, _: &DeploymentId) -> bool {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.keeps.load(Ordering::SeqCst)
    }
}

/// A pack being built. The compressed forms are made-up bytes: the edge never looks inside.
#[derive(Default)]
struct Folder {
    files: BTreeMap<String, FileEntry>,
    data: Vec<u8>,
    redirects: &'static str,
    headers: &'static str,
    /// Whether it was published when fingerprints were judged by name alone.
    is_old: bool,
}

impl Folder {
    fn of(paths: &[&str]) -> Self {
        paths.iter().fold(Self::default(), |folder, path| folder.with(path, &format!("<{path}>")))
    }

    fn with(self, path: &str, content: &str) -> Self {
        self.with_bytes(path, content.as_bytes())
    }

    fn with_bytes(mut self, path: &str, content: &[u8]) -> Self {
        let identity = self.store(content);
        let content_type = match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "png" => "image/png",
            "pdf" => "application/pdf",
            _ => "application/octet-stream",
        };
        let sha256 = Sha256::digest(content).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let entry = FileEntry {
            content_type: content_type.into(),
            sha256,
            fingerprinted: path.contains("-h4sh3d"),
            encoded: None,
            identity,
            variants: Vec::new(),
            loads_parts: false,
            digests: vec![packs::block_digests(content)],
            modified: None,
        };
        self.files.insert(path.into(), entry);
        self
    }

    /// Dates a file's content `seconds` before the deployment.
    fn older(mut self, path: &str, seconds: i64) -> Self {
        self.files.get_mut(path).unwrap().modified = Some(NOW / 1000 - seconds);
        self
    }

    fn variant(mut self, path: &str, encoding: Encoding, content: &str) -> Self {
        let span = self.store(content.as_bytes());
        let file = self.files.get_mut(path).unwrap();
        file.variants.push((encoding, span));
        file.digests.push(packs::block_digests(content.as_bytes()));
        self
    }

    fn encoded(mut self, path: &str, encoding: Encoding) -> Self {
        self.files.get_mut(path).unwrap().encoded = Some(encoding);
        self
    }

    fn old(self) -> Self {
        Self { is_old: true, ..self }
    }

    fn store(&mut self, bytes: &[u8]) -> Span {
        let offset = self.data.len() as u64;
        self.data.extend(bytes);
        Span { offset, len: bytes.len() as u64 }
    }

    fn redirects(self, redirects: &'static str) -> Self {
        Self { redirects, ..self }
    }

    fn headers(self, headers: &'static str) -> Self {
        Self { headers, ..self }
    }

    fn into_pack(self) -> (Manifest, Vec<u8>) {
        let (redirects, redirect_warnings) =
            redirects::compile(self.redirects.as_bytes(), |path| self.files.contains_key(path));
        let headers = headers::compile(self.headers.as_bytes());
        assert_eq!([redirect_warnings, headers.warnings].concat(), Vec::<String>::new());
        let (redirects, extended_redirects) = Manifest::split_redirects(redirects);
        let manifest = Manifest {
            version: Manifest::version_with(&headers.access),
            created_at: NOW / 1000,
            files: self.files,
            fingerprints: if self.is_old { 0 } else { Manifest::FINGERPRINTS },
            headers: headers.rules,
            redirects,
            extended_redirects,
            access: headers.access,
            robots: RobotsRules::default(),
            unserved: BTreeMap::new(),
        };
        (manifest, self.data)
    }
}

/// The members of an organization, and the tickets that the console has issued.
#[derive(Default)]
struct Club {
    places: Mutex<HashMap<(OrgId, UserId), i64>>,
    tickets: Mutex<HashMap<[u8; 32], SiteTicket>>,
    away: AtomicBool,
}

#[async_trait]
impl MemberLookup for Club {
    async fn membership(
        &self,
        org: &OrgId,
        user: &UserId,
        _: fairness::Client,
    ) -> Result<Option<OrgMembership>, CacheReadError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(CacheReadError::Unreadable("told to fail".into()));
        }
        let places = self.places.lock().unwrap();
        Ok(places.get(&(org.clone(), user.clone())).map(|&gate_version| OrgMembership { gate_version }))
    }

    async fn take_ticket(&self, secret_hash: &[u8; 32]) -> Result<Option<SiteTicket>, CacheReadError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(CacheReadError::Unreadable("told to fail".into()));
        }
        Ok(self.tickets.lock().unwrap().remove(secret_hash))
    }
}

struct World {
    shelf: Arc<Shelf>,
    replica: Arc<Shelf>,
    club: Arc<Club>,
    budget: ByteBudget,
    sites: SiteService,
    site: Site,
    visit: Visit,
    time: Arc<Mutex<Timestamp>>,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl World {
    fn new(folder: Folder) -> Self {
        let mut world = Self::empty();
        world.site.deployment = Some(world.publish(folder));
        world
    }

    fn empty() -> Self {
        let (shelf, replica) = (Arc::new(Shelf::default()), Arc::new(Shelf::default()));
        let time = Arc::new(Mutex::new(now()));
        let clock = Clock::from_fn({
            let time = time.clone();
            move || *time.lock().unwrap()
        });
        let club = Arc::new(Club::default());
        let console = "https://app.svc.test:8443".parse().unwrap();
        let shares = MemoryShares::least().unwrap();
        let budget = ByteBudget::new(shares.flight());
        let (key, account) = (EdgeKey::generate(), budget.common_account());
        let gatekeeper = Gatekeeper::new(&key, club.clone(), &console, 0, account, (None, clock.clone()));
        Self {
            sites: SiteService::new(
                shelf.clone(),
                Some(replica.clone()),
                &shares,
                &budget,
                shelf.clone(),
                gatekeeper,
                clock,
            ),
            budget,
            shelf,
            replica,
            club,
            site: Site {
                project: ProjectId::new(now()),
                deployment: None,
                live: None,
                kind: SiteKind::Live,
                gate: SiteGate::Public,
                access_version: 1,
                expires_at: None,
                suspended: None,
                owner: "usr_00000000000000000ada".parse::<domain::UserId>().unwrap().into(),
                bandwidth_used_up: None,
            },
            visit: Visit {
                client: [192, 0, 2, 1].into(),
                tls: true,
                host: "site.svc.test".into(),
                public_port: Some(8443),
                agent: None,
                country: None,
            },
            time,
        }
    }

    fn publish(&self, folder: Folder) -> DeploymentId {
        let id = DeploymentId::new(now());
        self.shelf.packs.lock().unwrap().insert(id.clone(), folder.into_pack());
        id
    }

    async fn get(&self, target: &str) -> Answer {
        self.send(Request::get(target)).await
    }

    async fn navigate(&self, target: &str) -> Answer {
        self.send(Request::get(target).header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")).await
    }

    async fn send(&self, request: Builder) -> Answer {
        self.send_with(request, "").await
    }

    async fn send_with(&self, request: Builder, body: &str) -> Answer {
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
        let (head, sent) = request.into_parts();
        let (parts, body) = self.sites.respond(&head, sent, &self.visit, &self.site).await.into_parts();
        Answer { status: parts.status, headers: parts.headers, body: read(body).await.unwrap() }
    }
}

async fn read(body: SiteBody) -> Result<String, BodyError> {
    Ok(String::from_utf8(body.collect().await?.to_bytes().to_vec()).unwrap())
}

const NO_SUCH_FILE: &str = "There is no such file on this site.\n";

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn brief(&self) -> (u16, &str) {
        let text = if self.status.is_redirection() { self.header("location") } else { &self.body };
        (self.status.as_u16(), if self.is_ours() { "our page" } else { text })
    }

    fn is_ours(&self) -> bool {
        self.headers.contains_key("content-security-policy")
    }
}
