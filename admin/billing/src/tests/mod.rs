//! Billing on a real database, with an in-memory provider and a clock that the test moves.

mod batches;
mod first;
mod late;
mod letters;
mod lost;
mod owners;
mod pending;
mod plans;
mod property;
mod provider;
mod renewals;
mod reversals;
mod years;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use app::App;
use config::{CodeHostKind, Config, InvoiceSeller};
use db::{
    audit::Actor,
    billing::{
        invoices::{self, Invoice},
        profiles::{self, InvoiceProfile},
        reconciliation::{self, BillingDifferences},
        subscriptions::{self, Subscription},
    },
    sign_in::users::{self, CodeHostIdentity},
};
use domain::{
    Account, Clock, Timestamp,
    billing::{Country, payment::PaymentState, vat::VatNumber, vat::VatStatus},
};
use secrets::master_key::MasterKeyBytes;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use url::Url;

use self::provider::ScriptedProvider;
use super::{BillingPermit, checkout, poll_by_provider_id, poll_due, renew_due};

const DAY: Duration = Duration::from_hours(24);
/// The time after the end of a paid month by which the next one is paid or the subscription has ended, however long
/// banks take for each attempt.
const OVERDUE: Duration = Duration::from_hours(120 * 24);

fn at(text: &str) -> Timestamp {
    serde_json::from_value(text.into()).unwrap()
}

fn payer(account: &Account) -> BillingPermit {
    account.as_user().unwrap().clone().into()
}

struct Bench {
    app: App,
    provider: Arc<ScriptedProvider>,
    time: Arc<Mutex<Timestamp>>,
    server: Url,
    database: String,
    _folder: TempDir,
}

impl Bench {
    async fn start() -> Self {
        let server = std::env::var("SVC_TEST_POSTGRES_URL").expect("SVC_TEST_POSTGRES_URL is not set; run `make test`");
        let server: Url = server.parse().unwrap();
        // Databases with such a name are removed when their process has ended.
        let database = format!("svc_test_{}_{:08x}", std::process::id(), rand::random::<u32>());
        server_sql(&server, format!("CREATE DATABASE {database}")).await;
        let mut url = server.clone();
        url.set_path(&database);
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("master.key");
        std::fs::write(&key, MasterKeyBytes::generate().to_base64()).unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut config = Config::default();
        config.code_host.kind = CodeHostKind::Local;
        config.code_host.client_secret = "secret".into();
        config.postgres.url = url.to_string();
        config.secrets.master_key_file = key;
        config.store.url = Url::from_directory_path(folder.path().join("store")).unwrap();
        config.billing.seller = Some(seller());
        let (mut app, _) = App::new(Arc::new(config)).unwrap();
        db::migrate(&app.db).await.unwrap();
        let time = Arc::new(Mutex::new(at("2026-11-23T10:00:00Z")));
        let shown = time.clone();
        app.clock = Clock::from_fn(move || *shown.lock().unwrap());
        let provider = Arc::new(ScriptedProvider::default());
        app.payments = Some(provider.clone());
        Self { app, provider, time, server, database, _folder: folder }
    }

    async fn stop(self) {
        self.app.db.close().await;
        server_sql(&self.server, format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.database)).await;
    }

    fn now(&self) -> Timestamp {
        *self.time.lock().unwrap()
    }

    fn set_time(&self, now: &str) {
        *self.time.lock().unwrap() = at(now);
    }

    fn pass(&self, time: Duration) {
        let mut now = self.time.lock().unwrap();
        *now = *now + time;
    }

    async fn person(&self, country: &str) -> Account {
        let mut conn = self.app.db.acquire().await.unwrap();
        let login = format!("u{:08x}", rand::random::<u32>());
        let identity = CodeHostIdentity { vcs_id: login.clone(), email: Some(format!("{login}@example.com")), login };
        let account: Account = users::upsert(&mut conn, &identity, self.now()).await.unwrap().id.into();
        self.move_to(&account, country, None).await;
        account
    }

    async fn move_to(&self, account: &Account, country: &str, number: Option<&str>) {
        let country: Country = country.parse().unwrap();
        let vat_number: Option<VatNumber> = number.map(|number| number.parse().unwrap());
        let profile = InvoiceProfile {
            account: account.clone(),
            name: "Ada & Sons".parse().unwrap(),
            country,
            address: None,
            vat_status: vat_number.as_ref().map(|_| VatStatus::Valid),
            vat_number,
            vat_checked_at: None,
            vat_consultation: None,
            vat_name: None,
            vat_address: None,
            vat_next_check: None,
            vat_failures: 0,
            updated_at: self.now(),
        };
        let mut conn = self.app.db.acquire().await.unwrap();
        profiles::store(&mut conn, &profile).await.unwrap();
    }

    /// Starts a checkout, and returns the provider's id of its payment.
    async fn begin(&self, account: &Account, plan: &str) -> String {
        let url = checkout(&self.app, Actor::Platform, &payer(account), plan).await.unwrap();
        let order = url.path().trim_start_matches('/').to_owned();
        let known = self.provider.known();
        known.payments.iter().find(|payment| payment.order.as_ref().unwrap().as_str() == order).unwrap().id.clone()
    }

    async fn pay(&self, id: &str) {
        self.turn(id, PaymentState::Paid).await;
    }

    async fn turn(&self, id: &str, state: PaymentState) {
        self.provider.set(id, state);
        poll_by_provider_id(&self.app, id).await.unwrap();
    }

    async fn subscriber(&self, country: &str, plan: &str) -> (Account, String) {
        let account = self.person(country).await;
        let id = self.begin(&account, plan).await;
        self.pay(&id).await;
        (account, id)
    }

    async fn current(&self, account: &Account) -> Option<Subscription> {
        subscriptions::current(&self.app.db, account).await.unwrap()
    }

    async fn entitled(&self, account: &Account) -> Option<String> {
        let current = self.current(account).await;
        current.filter(|subscription| subscription.status.is_entitled()).map(|subscription| subscription.plan)
    }

    async fn invoices(&self, account: &Account) -> Vec<Invoice> {
        let mut found = invoices::page(&self.app.db, account, None, 1_000).await.unwrap();
        found.sort_by(|a, b| (a.issued_at, &a.number).cmp(&(b.issued_at, &b.number)));
        found
    }

    async fn numbered(&self, account: &Account) -> Vec<(String, i64)> {
        self.invoices(account).await.into_iter().map(|invoice| (invoice.number, invoice.total_cents.0)).collect()
    }

    async fn work(&self) {
        for _ in 0..50 {
            let renewed = renew_due(&self.app, 100).await.unwrap();
            if renewed + poll_due(&self.app, 100).await.unwrap() == 0 {
                return;
            }
        }
        panic!("the jobs do not come to rest");
    }

    /// Lets days pass, and runs the jobs four times a day.
    async fn days(&self, days: u32) {
        for _ in 0..days * 4 {
            self.pass(DAY / 4);
            self.work().await;
        }
    }

    async fn letters(&self, kind: &str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM letters WHERE kind = $1")
            .bind(kind)
            .fetch_one(&self.app.db)
            .await
            .unwrap()
    }

    async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.app.db).await.unwrap()
    }

    /// Fails if billing rows disagree. A report of the provider that needs an operator is left out.
    async fn assert_reconciled_within(&self) {
        let differences =
            reconciliation::count_differences(&self.app.db, self.app.clock.now() - OVERDUE).await.unwrap();
        let BillingDifferences { at_provider, not_returned, .. } = differences;
        assert_eq!(differences, BillingDifferences { at_provider, not_returned, ..BillingDifferences::default() });
    }

    async fn assert_reconciled(&self) {
        let differences =
            reconciliation::count_differences(&self.app.db, self.app.clock.now() - OVERDUE).await.unwrap();
        assert_eq!(differences, BillingDifferences::default());
    }
}

async fn server_sql(server: &Url, sql: String) {
    let mut connection = PgConnection::connect(server.as_str()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
}

fn seller() -> InvoiceSeller {
    InvoiceSeller {
        name: "Sites B.V.".into(),
        address: vec!["Keizersgracht 1".into()],
        postcode: "1015 CJ".into(),
        city: "Amsterdam".into(),
        country: Country::netherlands(),
        vat_number: Some("NL123456789B01".parse().unwrap()),
        registration: Some("12345678".into()),
        email: Some("billing@sites.example".parse().unwrap()),
    }
}
