use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex as StdMutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use db::{
    edges::routes::{AsOf, SnapshotExtent},
    sign_in::gate_tickets::SiteTicket,
};
use domain::{
    ChangePosition, Clock, DeploymentId, Epoch, OrgId, ProjectId, Timestamp, UserId,
    addresses::HostKey,
    changes::{ChangeSubject, RouteChange},
    site::{Site, SiteGate, SiteKind},
};

use super::*;

const HOST: &str = "blog.svc.localhost";

fn asker() -> fairness::Client {
    std::net::IpAddr::from([192, 0, 2, 1]).into()
}

fn key() -> HostKey {
    HostKey::Project("blog".parse().unwrap())
}

fn project() -> ProjectId {
    "prj_0000000000000000blog".parse().unwrap()
}

fn site(access_version: i64) -> Site {
    Site {
        project: project(),
        deployment: None,
        live: None,
        kind: SiteKind::Live,
        gate: SiteGate::Public,
        access_version,
        expires_at: None,
        suspended: None,
        owner: "usr_00000000000000000ada".parse::<domain::Account>().unwrap().into(),
        bandwidth_used_up: None,
    }
}

fn epoch(name: &str) -> Epoch {
    name.parse().unwrap()
}

/// A position in the epoch that the world starts with.
fn at(seq: i64) -> ChangePosition {
    ChangePosition { epoch: epoch("first"), seq }
}

/// The extent of a reading made when every change had a number.
fn until(position: ChangePosition) -> SnapshotExtent {
    SnapshotExtent { end: position.seq, position }
}

fn changed(seq: i64, subject: ChangeSubject, hosts: &[&str]) -> RouteChange {
    let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
    RouteChange { seq, subject, hosts, epoch: Some(epoch("first")), nonce: Some(10 * seq) }
}

fn change(seq: i64, hosts: &[&str]) -> RouteChange {
    changed(seq, ChangeSubject::Project(project()), hosts)
}

type ScriptedAnswer = Box<dyn FnOnce() -> Result<AsOf<Option<Site>>, CacheReadError> + Send>;
type PlaceAnswer = Box<dyn FnOnce() -> Result<AsOf<Option<OrgMembership>>, CacheReadError> + Send>;

/// Returns the prepared results, one per read. A result may run code first, as if it happened during the read.
#[derive(Default)]
struct ScriptedSource {
    answers: StdMutex<VecDeque<ScriptedAnswer>>,
    places: StdMutex<VecDeque<PlaceAnswer>>,
    reads: AtomicUsize,
}

impl RouteSource for Arc<ScriptedSource> {
    async fn site(&self, _: &HostKey, _: bool) -> Result<AsOf<Option<Site>>, CacheReadError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        // Lets other tasks reach this point.
        tokio::task::yield_now().await;
        let answer = self.answers.lock().unwrap().pop_front().expect("a read that the test did not foresee");
        answer()
    }

    async fn membership(&self, _: &OrgId, _: &UserId, _: bool) -> Result<AsOf<Option<OrgMembership>>, CacheReadError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        let answer = self.places.lock().unwrap().pop_front().expect("a read that the test did not foresee");
        answer()
    }

    async fn take_ticket(&self, _: &[u8; 32]) -> Result<Option<SiteTicket>, CacheReadError> {
        Err(CacheReadError::Unsettled)
    }

    async fn recent(&self, _: &ProjectId, _: Timestamp, _: bool) -> Result<AsOf<Vec<DeploymentId>>, CacheReadError> {
        Err(CacheReadError::Unsettled)
    }

    async fn is_kept(&self, _: &DeploymentId) -> Result<bool, CacheReadError> {
        Err(CacheReadError::Unsettled)
    }
}

struct World {
    routes: RouteCache<Arc<ScriptedSource>>,
    members: MembershipCache<Arc<ScriptedSource>>,
    marks: Arc<ChangeMarks>,
    script: Arc<ScriptedSource>,
}

impl World {
    fn new() -> Self {
        let marks = Arc::<ChangeMarks>::default();
        marks.begin(epoch("first"));
        let script = Arc::new(ScriptedSource::default());
        let clock = Clock::from_fn(|| Timestamp::from_unix_millis(1_000_000));
        let shares = limits::MemoryShares::least().unwrap();
        let members = MembershipCache::new(marks.clone(), script.clone(), &shares);
        Self { routes: RouteCache::new(marks.clone(), script.clone(), &shares, clock), members, marks, script }
    }

    fn answer(&self, seq: i64, value: Option<Site>) {
        self.answer_after(seq, value, || {});
    }

    fn answer_after(&self, seq: i64, value: Option<Site>, first: impl FnOnce() + Send + 'static) {
        self.answer_at(at(seq), value, first);
    }

    fn answer_at(&self, position: ChangePosition, value: Option<Site>, first: impl FnOnce() + Send + 'static) {
        let answer: ScriptedAnswer = Box::new(move || {
            first();
            Ok(AsOf { value, extent: until(position) })
        });
        self.script.answers.lock().unwrap().push_back(answer);
    }

    async fn version(&self) -> Option<i64> {
        self.routes.site(HOST, &key(), asker()).await.unwrap().map(|site| site.access_version)
    }

    fn reads(&self) -> usize {
        self.script.reads.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_host_is_read_once_however_many_ask() {
    let world = World::new();
    world.answer(1, Some(site(1)));
    let asked: Vec<_> = (0..50).map(|_| world.version()).collect();
    assert!(futures_util::future::join_all(asked).await.iter().all(|version| *version == Some(1)));
    assert_eq!(world.reads(), 1);
}

#[tokio::test]
async fn an_applied_change_is_read_anew() {
    let world = World::new();
    world.answer(1, Some(site(1)));
    world.answer(2, Some(site(2)));
    assert_eq!(world.version().await, Some(1));
    world.marks.apply(&change(2, &[]));
    assert_eq!(world.version().await, Some(2));
    assert_eq!(world.version().await, Some(2));
    assert_eq!(world.reads(), 2);
}

#[tokio::test]
async fn a_change_of_the_owners_plan_is_read_anew_and_one_of_another_is_not() {
    let world = World::new();
    world.answer(1, Some(site(1)));
    world.answer(3, Some(site(2)));
    assert_eq!(world.version().await, Some(1));
    let plan_of = |owner: &str| ChangeSubject::from(&owner.parse::<domain::Account>().unwrap());
    for (seq, owner, version) in [(2, "usr_00000000000000000bob", 1), (3, "usr_00000000000000000ada", 2)] {
        world.marks.apply(&changed(seq, plan_of(owner), &[]));
        assert_eq!(world.version().await, Some(version), "{owner}");
    }
    assert_eq!(world.reads(), 2);
}

#[tokio::test]
async fn a_reading_that_a_change_overtook_is_never_served() {
    let world = World::new();
    let marks = world.marks.clone();
    world.answer_after(1, Some(site(1)), move || marks.apply(&change(2, &[])));
    world.answer(2, Some(site(2)));
    assert_eq!(world.version().await, Some(2));
}

#[tokio::test]
async fn a_host_that_begins_to_exist_is_no_longer_absent() {
    let world = World::new();
    world.answer(1, None);
    world.answer(2, Some(site(1)));
    assert_eq!(world.version().await, None);
    assert_eq!(world.version().await, None);
    world.marks.apply(&change(2, &["blog"]));
    assert_eq!(world.version().await, Some(1));
    assert_eq!(world.reads(), 2);
}

#[tokio::test]
async fn a_host_that_another_project_took_over_is_read_anew() {
    let world = World::new();
    world.answer(1, Some(site(1)));
    world.answer(2, Some(site(9)));
    assert_eq!(world.version().await, Some(1));
    let other = "prj_000000000000000other".parse().unwrap();
    world.marks.apply(&changed(2, ChangeSubject::Project(other), &["blog"]));
    assert_eq!(world.version().await, Some(9));
}

#[tokio::test]
async fn a_share_ends_by_the_clock_without_a_change() {
    let world = World::new();
    let now = Timestamp::from_unix_millis(1_000_000);
    world.answer(1, Some(Site { expires_at: Some(now), ..site(1) }));
    assert_eq!(world.version().await, None);
    assert_eq!(world.routes.cached(HOST), Cached::Absent);
}

#[tokio::test]
async fn a_failed_read_is_not_repeated_for_everybody_who_waits() {
    let world = World::new();
    world.script.answers.lock().unwrap().push_back(Box::new(|| Err(CacheReadError::Unreadable("away".into()))));
    let asked: Vec<_> = (0..50).map(|_| world.routes.site(HOST, key_static(), asker())).collect();
    assert!(futures_util::future::join_all(asked).await.iter().all(Result::is_err));
    assert_eq!(world.reads(), 1);
}

fn org() -> OrgId {
    "org_00000000000000000org".parse().unwrap()
}

fn member() -> UserId {
    "usr_0000000000000000user".parse().unwrap()
}

impl World {
    fn place(&self, seq: i64, gate_version: Option<i64>) {
        self.place_after(seq, gate_version, || {});
    }

    fn place_after(&self, seq: i64, gate_version: Option<i64>, first: impl FnOnce() + Send + 'static) {
        let value = gate_version.map(|gate_version| OrgMembership { gate_version });
        let answer: PlaceAnswer = Box::new(move || {
            first();
            Ok(AsOf { value, extent: until(at(seq)) })
        });
        self.script.places.lock().unwrap().push_back(answer);
    }

    async fn gate_version(&self) -> Option<i64> {
        self.members.membership(&org(), &member(), asker()).await.unwrap().map(|place| place.gate_version)
    }
}

#[tokio::test]
async fn a_membership_is_remembered_until_the_org_or_the_person_changes() {
    let world = World::new();
    world.place(1, Some(1));
    let asked: Vec<_> = (0..50).map(|_| world.gate_version()).collect();
    assert!(futures_util::future::join_all(asked).await.iter().all(|version| *version == Some(1)));
    assert_eq!(world.reads(), 1);
    world.marks.apply(&changed(2, ChangeSubject::User(member()), &[]));
    world.place(2, Some(2));
    assert_eq!(world.gate_version().await, Some(2));
    world.marks.apply(&changed(3, ChangeSubject::Org(org()), &[]));
    world.place(3, None);
    assert_eq!(world.gate_version().await, None);
    assert_eq!(world.gate_version().await, None);
    assert_eq!(world.reads(), 3);
    let elsewhere = changed(4, ChangeSubject::Org("org_0000000000000000else".parse().unwrap()), &[]);
    world.marks.apply(&elsewhere);
    assert_eq!(world.gate_version().await, None);
}

#[tokio::test]
async fn a_membership_read_before_its_end_is_never_believed_after_it() {
    let world = World::new();
    let marks = world.marks.clone();
    let ends = changed(2, ChangeSubject::Org(org()), &[]);
    world.place_after(1, Some(1), move || marks.apply(&ends));
    world.place(2, None);
    assert_eq!(world.gate_version().await, None);
}

fn key_static() -> &'static HostKey {
    static KEY: std::sync::LazyLock<HostKey> = std::sync::LazyLock::new(key);
    &KEY
}

#[tokio::test]
async fn another_database_empties_the_memory() {
    let world = World::new();
    world.marks.apply(&change(900, &[]));
    world.marks.start_over(epoch("first"));
    world.answer(3, Some(site(1)));
    assert_eq!(world.version().await, Some(1));
    assert_eq!(world.routes.cached(HOST), Cached::Present(Arc::new(site(1))));
    world.marks.forget_before(4);
    assert_eq!(world.routes.cached(HOST), Cached::Unknown);
    world.answer(4, Some(site(1)));
    assert_eq!(world.version().await, Some(1));
    world.marks.set_lapsed(true);
    assert_eq!(world.routes.cached(HOST), Cached::Unknown);
}

#[tokio::test]
async fn made_up_hosts_whose_reads_fail_refuse_no_other_host() {
    let world = World::new();
    for number in 0..200 {
        world.script.answers.lock().unwrap().push_back(Box::new(|| Err(CacheReadError::Unreadable("away".into()))));
        assert!(world.routes.site(&format!("none{number}.svc.localhost"), &key(), asker()).await.is_err());
    }
    world.answer(1, Some(site(1)));
    assert_eq!(world.version().await, Some(1));
}

#[tokio::test]
async fn a_change_of_an_unknown_kind_ends_the_hosts_that_it_names_and_nothing_else() {
    let world = World::new();
    world.answer(1, Some(site(1)));
    assert_eq!(world.version().await, Some(1));
    let newer = |seq, hosts| changed(seq, ChangeSubject::Unknown("rgn_0123456789abcdefghij".into()), hosts);
    world.marks.apply(&newer(2, &[]));
    assert_eq!(world.version().await, Some(1));
    world.marks.apply(&newer(3, &["blog"]));
    world.answer(3, Some(site(2)));
    assert_eq!(world.version().await, Some(2));
    assert_eq!(world.reads(), 2);
}

#[tokio::test]
async fn a_reading_of_another_epoch_is_read_again_and_never_remembered() {
    let world = World::new();
    // A replica of a former epoch with a higher number.
    world.answer_at(ChangePosition { epoch: epoch("former"), seq: 900 }, Some(site(9)), || {});
    world.answer(1, Some(site(1)));
    assert_eq!(world.version().await, Some(1));
    assert_eq!(world.routes.cached(HOST), Cached::Present(Arc::new(site(1))));
    assert_eq!(world.reads(), 2);
}

#[tokio::test]
async fn a_reading_of_an_epoch_that_nobody_knows_yet_waits_until_postgres_was_asked() {
    let world = World::new();
    let next = ChangePosition { epoch: epoch("next"), seq: 2 };
    for _ in 0..3 {
        world.answer_at(next.clone(), Some(site(2)), || {});
    }
    let follower = async {
        world.marks.look_requested().await;
        assert!(world.marks.adopt(&next, 1));
        world.marks.notify_looked();
    };
    let (version, ()) = futures_util::future::join(world.version(), follower).await;
    assert_eq!(version, Some(2));
    assert_eq!(world.reads(), 3, "the first is of a copy perhaps, the second has Postgres asked");
}
