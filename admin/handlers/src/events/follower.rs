//! One event stream: its caller, which of the platform's events they may see, and when the stream ends.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use admin_http::error::ApiError;
use app::{
    App,
    auth::CliUser,
    bounds::{ConcurrencyLimits, EventStreamPermit},
    events::{EventContent, EventHub, EventReceiver, StoredEvent, StreamPosition},
};
use axum::http::HeaderValue;
use bytes::Bytes;
use db::orgs;
use domain::{Account, Clock, OrgId, PayingAccount, role::Role};
use live::events::{AccountEvent, EventId};
use sqlx::PgPool;
use tokio::{
    sync::broadcast::error::RecvError,
    time::{Instant, Interval, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use super::frames;

/// Interval of the keep-alive comments. Each time, the stream also checks whether its credential is still valid.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Keep-alives between two reads of the person's organizations: a change without an event applies within a minute.
const ROLES_EVERY: u32 = 4;
/// The maximum number of a person's organizations whose events the stream delivers.
const ORGS: i64 = 1_000;
/// Maximum wait for events that another admin has already delivered, and for the event log to be read at all.
const CATCH_UP: Duration = Duration::from_secs(1);

pub(super) struct EventFollower {
    hub: Arc<EventHub>,
    db: PgPool,
    clock: Clock,
    bounds: ConcurrencyLimits,
    stopping: CancellationToken,
    caller: CliUser,
    roles: HashMap<OrgId, Role>,
    following: EventReceiver,
    /// Entries to deliver before those of `following`.
    backlog: VecDeque<Arc<StoredEvent>>,
    first: Option<Bytes>,
    /// The last entry that the stream has processed.
    position: Option<EventId>,
    keep_alive: Interval,
    ticks: u32,
    is_over: bool,
    _turn: EventStreamPermit,
}

impl EventFollower {
    /// Opens a stream for `caller` that starts after the entry `last`.
    pub(super) async fn begin(
        app: &App,
        caller: CliUser,
        last: Option<&HeaderValue>,
        turn: EventStreamPermit,
    ) -> Result<Self, ApiError> {
        let hub = app.events.hub().clone();
        // Without Redis there are no events, but the stream opens all the same.
        let _ = tokio::time::timeout(CATCH_UP, hub.wait_ready()).await;
        let wanted = last.map(|last| last.to_str().ok().and_then(|text| text.parse::<EventId>().ok()));
        let (start, mut following) = hub.subscribe(wanted.flatten());
        let (first, backlog, position) = match start {
            StreamPosition::Now(newest) if wanted.is_none() => (frames::opening(newest), Vec::new(), newest),
            StreamPosition::After(missed) => (frames::opening(wanted.flatten()), missed, wanted.flatten()),
            StreamPosition::Unknown(newest) if catch_up(&mut following, wanted.flatten(), newest).await => {
                (frames::opening(wanted.flatten()), Vec::new(), wanted.flatten())
            }
            StreamPosition::Now(_) | StreamPosition::Unknown(_) => {
                let newest;
                (newest, following) = follow_newest(&hub);
                (frames::reset(newest), Vec::new(), newest)
            }
        };
        let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut follower = Self {
            hub,
            db: app.db.clone(),
            clock: app.clock.clone(),
            bounds: app.bounds.clone(),
            stopping: app.stopping.clone(),
            caller,
            roles: HashMap::new(),
            following,
            backlog: backlog.into(),
            first: Some(first),
            position,
            keep_alive,
            ticks: 0,
            is_over: false,
            _turn: turn,
        };
        // Read after subscribing, so that a later change of roles is among the stream's entries.
        follower.read_roles().await?;
        Ok(follower)
    }

    /// Waits for the next frame; `None` at the end of the stream.
    pub(super) async fn next(mut self: Box<Self>) -> Option<(Result<Bytes, Infallible>, Box<Self>)> {
        let mut frame = self.first.take();
        while frame.is_none() && !self.is_over {
            if let Some(told) = self.backlog.pop_front() {
                frame = self.render_entry(&told).await;
                continue;
            }
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => self.is_over = true,
                _ = self.keep_alive.tick() => frame = self.check_and_keep_alive().await,
                received = self.following.recv() => match received {
                    Ok(told) => self.backlog.push_back(told),
                    Err(RecvError::Lagged(_)) => frame = self.reset().await,
                    Err(RecvError::Closed) => self.is_over = true,
                },
            }
        }
        Some((Ok(frame?), self))
    }

    /// Returns the frame for an entry, if the stream's caller may see it.
    async fn render_entry(&mut self, told: &StoredEvent) -> Option<Bytes> {
        self.position = Some(told.id);
        match &told.news {
            EventContent::Reset => {
                self.refresh_roles().await;
                (!self.is_over).then(|| frames::reset(self.position))
            }
            EventContent::Credentials(user) if *user == self.caller.user.id => self.sign_out_if_ended().await,
            EventContent::Credentials(_) | EventContent::Nothing => None,
            EventContent::Event(event, made) => {
                let is_whole = self.visibility(event).await?;
                let frame = made[usize::from(is_whole)].get_or_init(|| {
                    let account = event.org.as_ref().map_or(self.caller.user.vcs_login.as_str(), |org| org.as_str());
                    frames::change(told.id, event, account, is_whole)
                });
                Some(frame.clone())
            }
        }
    }

    /// Returns whether the person may see the event with all its details, or `None` if they may not see it at all.
    async fn visibility(&mut self, event: &AccountEvent) -> Option<bool> {
        let org = match &event.owner {
            Account::User(owner) => return (*owner == self.caller.user.id).then_some(true),
            Account::Org(org) => org,
        };
        let before = self.roles.get(org).copied();
        // The person's own joining, leaving or change of role. Other members' changes do not affect this stream's
        // rights.
        let is_own = event.changes_members
            && (event.actor.as_ref() == Some(&self.caller.user.id)
                || event.subject.as_deref() == Some(&self.caller.user.vcs_login));
        if event.changes_members && (is_own || before.is_some()) {
            self.refresh_roles().await;
            if self.is_over {
                return None;
            }
        }
        let role = self.roles.get(org).copied();
        match role {
            Some(role) if role >= event.told_from => Some(role >= Role::Admin),
            // Former members receive the event that ended their membership.
            None if is_own || before.is_some() && event.kind == ORG_DELETE => Some(false),
            _ => None,
        }
    }

    /// Returns a keep-alive, or the final frame if the credential has ended.
    async fn check_and_keep_alive(&mut self) -> Option<Bytes> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(ROLES_EVERY) {
            // An unavailable database does not end a stream that was permitted; changes of membership also arrive as
            // events.
            let _ = self.read_roles().await;
        }
        Some(self.sign_out_if_ended().await.unwrap_or_else(|| frames::keep_alive(self.position)))
    }

    /// Restarts after the newest entry, because the stream was too slow.
    async fn reset(&mut self) -> Option<Bytes> {
        (self.position, self.following) = follow_newest(&self.hub);
        self.refresh_roles().await;
        (!self.is_over).then(|| frames::reset(self.position))
    }

    async fn sign_out_if_ended(&mut self) -> Option<Bytes> {
        let _turn = self.bounds.event_look(&self.person()).await;
        let is_live = db::in_time(self.caller.credential.is_live(&self.db, self.clock.now())).await;
        // While the database is unavailable, nobody can revoke the credential either.
        if is_live.unwrap_or(true) {
            return None;
        }
        self.is_over = true;
        Some(frames::signed_out())
    }

    fn person(&self) -> PayingAccount {
        self.caller.user.id.clone().into()
    }

    /// Reads the person's organizations again, and ends the stream if that fails.
    async fn refresh_roles(&mut self) {
        if let Err(error) = self.read_roles().await {
            tracing::warn!(%error, "an event stream ends, because its person's organizations cannot be read");
            self.is_over = true;
        }
    }

    async fn read_roles(&mut self) -> Result<(), sqlx::Error> {
        let _turn = self.bounds.event_look(&self.person()).await;
        let reading = orgs::list_roles_for_user(&self.db, &self.caller.user.id, ORGS);
        self.roles = db::in_time(reading).await?.into_iter().collect();
        Ok(())
    }
}

const ORG_DELETE: &str = domain::audit::Action::OrgDelete.as_str();

fn follow_newest(hub: &EventHub) -> (Option<EventId>, EventReceiver) {
    let (start, following) = hub.subscribe(None);
    let newest = match start {
        StreamPosition::Now(newest) | StreamPosition::Unknown(newest) => newest,
        StreamPosition::After(_) => None,
    };
    (newest, following)
}

/// Waits for the entry `last`, which another admin may have read first. Returns false if it does not arrive.
async fn catch_up(following: &mut EventReceiver, last: Option<EventId>, newest: Option<EventId>) -> bool {
    let Some(last) = last.filter(|last| newest.is_none_or(|newest| *last > newest)) else { return false };
    let come = async {
        loop {
            match following.recv().await {
                Ok(told) if told.id < last => {}
                Ok(told) => return told.id == last && !matches!(told.news, EventContent::Reset),
                Err(_) => return false,
            }
        }
    };
    tokio::time::timeout(CATCH_UP, come).await.unwrap_or(false)
}
