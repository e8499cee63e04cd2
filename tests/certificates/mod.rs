//! Certificates that come by themselves: from a hostname that is attached to a handshake that a visitor trusts.

mod allowances;
mod drills;
mod faults;
mod figures;
mod issuance;
mod local;
mod recovery;
mod renewal;

use std::sync::Arc;

use tempfile::TempDir;

use crate::{
    BACKGROUND,
    stubs::authority::Authority,
    world::{
        Actor, Builder, Site, World, eventually,
        name_server::NameServer,
        pebble::{Faults, Pebble},
        socket,
    },
};

const DOMAIN: &str = "www.shop.example";

/// A world with an authority and a DNS of its own, in which every name leads to the world's edge.
struct Stage {
    world: World,
    ada: Actor,
    pebble: Pebble,
    names: NameServer,
    folder: TempDir,
}

impl Stage {
    async fn start(faults: Faults, configure: impl FnOnce(Builder) -> Builder) -> Self {
        Self::set_up(faults, None, configure).await
    }

    /// A stage that asks a DNS of the test's own.
    async fn start_with_dns(dns: &str, configure: impl FnOnce(Builder) -> Builder) -> Self {
        Self::set_up(Faults::default(), Some(dns), configure).await
    }

    async fn set_up(faults: Faults, dns: Option<&str>, configure: impl FnOnce(Builder) -> Builder) -> Self {
        let folder = TempDir::with_prefix("svc-authority-").unwrap();
        let pebble = Pebble::prepare(folder.path(), faults);
        let names = NameServer::start(folder.path(), "127.0.0.1").await;
        let dns = dns.map_or_else(|| names.address(), str::to_owned);
        let builder = World::builder().set("ACME__RESOLVERS", dns.as_str()).set("LIMITS__PROBE_ALLOW_PRIVATE", "true");
        let builder = pebble.settings().into_iter().fold(builder, |world, (key, value)| world.set(key, value));
        let world = configure(builder).start().await;
        let pebble = pebble.start(world.edge().http_port, world.edge().https_port, &dns).await;
        let ada = world.user("ada").await;
        ada.publish("engine", &Site::page("home")).await;
        Self { world, ada, pebble, names, folder }
    }

    /// A stage whose authority is reached through a proxy.
    async fn behind_proxy(configure: impl FnOnce(Builder) -> Builder) -> (Self, Authority) {
        let (listener, url) = Authority::reserve().await;
        let stage = Self::start(Faults::default(), |world| configure(world).set("ACME__DIRECTORY_URL", url)).await;
        let proxy = Authority::start(listener, &stage.pebble);
        (stage, proxy)
    }

    async fn attach(&self, domain: &str) {
        self.ada.attach("engine", domain).await;
    }

    /// The state of a name and the message beside it.
    async fn state(&self, name: &str) -> String {
        let sql =
            "SELECT coalesce((SELECT state || ': ' || coalesce(message, '') FROM certificate_orders WHERE name = ";
        self.world.sql_text(&format!("{sql}'{name}'), 'nothing')")).await
    }

    async fn wait_until(&self, name: &str, state: &str) {
        eventually(BACKGROUND, &format!("{name} is {state}"), async || self.state(name).await.starts_with(state)).await;
    }

    async fn certificate(&self, name: &str) -> String {
        self.world.sql_text(&format!("SELECT certificate_id FROM certificate_orders WHERE name = '{name}'")).await
    }

    /// Whether a visitor who trusts the authority alone gets through a handshake.
    async fn is_trusted(&self, host: &str) -> bool {
        let file = self.folder.path().join("issued-by.pem");
        std::fs::write(&file, self.pebble.root_pem().await).unwrap();
        let config = Arc::new(socket::tls(&file, &[&rustls::version::TLS13], &["http/1.1"]));
        socket::connect_tls(self.world.edge().https_port, host, config).await.is_ok()
    }

    /// Waits until a name is live, and expects that its visitors get through from then on.
    async fn expect_live(&self, name: &str) {
        self.wait_until(name, "live").await;
        assert!(self.is_trusted(name).await, "{name}: {}", self.state(name).await);
    }

    /// Expects that the answers to challenges are taken down, as they are once a certificate is live.
    async fn expect_nothing_left(&self, after: &str) {
        let left = "SELECT count(*) FROM acme_challenges";
        let what = format!("nothing is left behind after {after}");
        eventually(BACKGROUND, &what, async || self.world.sql_number(left).await == 0).await;
    }

    /// Has the next attempt at a name made now.
    async fn try_now(&self, name: &str) {
        self.world.sql(&format!("UPDATE certificate_orders SET next_attempt_at = now() WHERE name = '{name}'")).await;
    }

    /// Waits until so many attempts at a name have failed in a row.
    async fn wait_for_failures(&self, name: &str, count: usize) {
        let failed = format!(
            "SELECT count(*) FROM certificate_orders WHERE name = '{name}' AND failures = {count} AND leased_until IS NULL"
        );
        eventually(BACKGROUND, &format!("failure {count}"), async || self.world.sql_number(&failed).await == 1).await;
    }

    /// Has every answer to a challenge be a wrong one.
    async fn spoil_answers(&self) {
        self.world
            .sql(
                "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF NEW.answer LIKE '%.%' THEN NEW.answer := 'spoilt.spoilt'; END IF; RETURN NEW; END $$;
                 CREATE TRIGGER spoil BEFORE INSERT ON acme_challenges FOR EACH ROW EXECUTE FUNCTION spoil()",
            )
            .await;
    }

    /// Has the renewal of a name begin.
    async fn let_renew(&self, name: &str) {
        self.world.sql(&format!("UPDATE certificate_orders SET renew_at = now() WHERE name = '{name}'")).await;
    }

    /// Waits until a name has another certificate than `before`.
    async fn wait_for_another(&self, name: &str, before: &str) {
        eventually(BACKGROUND * 2, "it was renewed", async || self.certificate(name).await != before).await;
        self.expect_live(name).await;
    }
}
