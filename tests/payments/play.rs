//! Play money: the page says what it is, and takes each decision once.

use admin_http::addresses::ConsoleAddresses;
use domain::{
    Clock, PaymentId, ReversalId,
    billing::{
        Cents,
        payment::{PaymentSequence, PaymentState, ReversalState},
    },
};
use payments::{
    MandateState, PaymentError, PaymentOrder, PaymentProvider as _, ProviderPayment, RefundOrder, play::PlayProvider,
};
use reqwest::Method;
use sqlx::PgPool;

use super::scene::{account, refused, url};
use crate::world::{World, person::Page};

/// A world that pays with play money, and the provider as its admin has it.
struct Scene {
    world: World,
    play: PlayProvider,
    customer: String,
}

impl Scene {
    async fn start() -> Self {
        let world = World::builder().play_money().start().await;
        let site = config::Site { console_url: url(&world.console_url("")), ..config::Site::default() };
        let db = PgPool::connect(world.database.as_str()).await.unwrap();
        let play = PlayProvider::new(db, ConsoleAddresses::new(&site), Clock::system());
        let customer = play.create_customer(&account(), None, "Ada", None).await.unwrap();
        Self { world, play, customer }
    }

    async fn order(&self, id: &PaymentId, sequence: PaymentSequence) -> ProviderPayment {
        let back = url(&self.world.console_url("/"));
        let order = PaymentOrder {
            id,
            customer_id: &self.customer,
            sequence,
            total: Cents(1_210),
            description: "Pro, <January>",
            redirect_url: &back,
            webhook_url: &back,
        };
        self.play.create_payment(&order).await.unwrap()
    }

    async fn first(&self) -> ProviderPayment {
        self.order(&PaymentId::new(Clock::system().now()), PaymentSequence::First).await
    }

    async fn later(&self) -> ProviderPayment {
        self.order(&PaymentId::new(Clock::system().now()), PaymentSequence::Recurring).await
    }

    /// Presses the button of this decision on the payment's page.
    async fn press(&self, payment: &ProviderPayment, button: &str) -> Page {
        let person = self.world.person();
        let page = person.visit(payment.checkout_url.as_ref().unwrap().as_str()).await;
        person.press(&page, 0, &[], button).await
    }

    async fn state(&self, payment: &ProviderPayment) -> PaymentState {
        self.play.payment(&payment.id).await.unwrap().state
    }
}

#[tokio::test]
async fn the_page_says_that_no_money_moves() {
    let scene = Scene::start().await;
    let payment = scene.first().await;
    assert_eq!((payment.state, payment.total), (PaymentState::Open, Cents(1_210)));
    let page = scene.world.person().visit(payment.checkout_url.as_ref().unwrap().as_str()).await;
    page.assert_says("<h1>This is play money</h1>").assert_says("€12.10").assert_says("Pro, &#60;January&#62;");
    assert!(!page.answer.text().contains("<script"));
    assert!(page.answer.header("content-security-policy").contains("default-src 'none'"));
    assert_eq!(scene.state(&payment).await, PaymentState::Open, "reading changes nothing");
}

#[tokio::test]
async fn every_decision_leads_back_and_counts_once() {
    let scene = Scene::start().await;
    for (button, state) in
        [("fail", PaymentState::Failed), ("cancel", PaymentState::Canceled), ("pay", PaymentState::Paid)]
    {
        let payment = scene.first().await;
        // The button whose value is the word, and no more than the word.
        let form = [("decision", button)];
        let address = payment.checkout_url.as_ref().unwrap().as_str();
        let origin = scene.world.console_url("");
        let person = scene.world.person();
        let answer = person.request(Method::POST, address).header("origin", &origin).form(&form).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (303, scene.world.console_url("/").as_str()));
        assert_eq!(scene.state(&payment).await, state);
        let again = [("decision", if button == "pay" { "fail" } else { "pay" })];
        person.request(Method::POST, address).header("origin", &origin).form(&again).await.assert_status(303);
        assert_eq!(scene.state(&payment).await, state, "the second decision changes nothing");
        let page = person.visit(address).await;
        assert!(!page.answer.text().contains("<form"), "{}", page.answer.text());
    }
}

#[tokio::test]
async fn a_form_from_elsewhere_decides_nothing() {
    let scene = Scene::start().await;
    let payment = scene.first().await;
    let address = payment.checkout_url.as_ref().unwrap().as_str();
    let post = || scene.world.person().request(Method::POST, address).form(&[("decision", "pay")]);
    post().await.assert_status(403);
    post().header("origin", "https://evil.example").await.assert_status(403);
    let origin = scene.world.console_url("");
    let odd = scene.world.person().request(Method::POST, address).header("origin", &origin);
    odd.form(&[("decision", "steal")]).await.assert_status(400);
    assert_eq!(scene.state(&payment).await, PaymentState::Open);
}

#[tokio::test]
async fn later_charges_do_what_the_payer_chose() {
    let scene = Scene::start().await;
    assert_eq!(scene.play.mandate(&scene.customer).await.unwrap(), MandateState::Missing);
    assert_eq!(scene.later().await.state, PaymentState::Failed, "nobody has allowed it");
    scene.press(&scene.first().await, "once").await;
    assert_eq!(scene.play.mandate(&scene.customer).await.unwrap(), MandateState::Valid);
    let failed = scene.later().await;
    assert_eq!((failed.state, failed.checkout_url), (PaymentState::Failed, None));
    assert!(failed.failure.is_some());
    let address = scene.world.console_url("/");
    let page = scene.press(&scene.first().await, "pay").await;
    assert!(page.trail.iter().any(|(url, _)| url.as_str() == address), "{page:?}");
}

#[tokio::test]
async fn the_same_order_is_the_same_payment() {
    let scene = Scene::start().await;
    let id = PaymentId::new(Clock::system().now());
    let first = scene.order(&id, PaymentSequence::First).await;
    assert_eq!(scene.order(&id, PaymentSequence::First).await, first);
    assert_eq!(first.order, Some(id));
    assert_eq!(scene.world.sql_number("SELECT count(*) FROM play_payments").await, 1);
}

#[tokio::test]
async fn refunds_are_done_once_and_never_beyond_the_payment() {
    let scene = Scene::start().await;
    let payment = scene.first().await;
    let refund = async |id: &ReversalId, cents| {
        let order = RefundOrder { id, payment_id: &payment.id, total: Cents(cents), description: "x" };
        scene.play.refund(&order).await
    };
    let (one, two) = (ReversalId::new(Clock::system().now()), ReversalId::new(Clock::system().now()));
    refused(refund(&one, 10).await);
    scene.press(&payment, "once").await;
    let made = refund(&one, 1_000).await.unwrap();
    assert_eq!((made.state, made.total, made.order.as_ref()), (ReversalState::Done, Cents(1_000), Some(&one)));
    assert_eq!(refund(&one, 1_000).await.unwrap(), made);
    refused(refund(&two, 211).await);
    refund(&two, 210).await.unwrap();
    let all = scene.play.payment(&payment.id).await.unwrap().reversals;
    assert_eq!(all.iter().map(|one| one.total.0).collect::<Vec<_>>(), [1_000, 210]);
    let unknown = RefundOrder { id: &one, payment_id: "play_nothing", total: Cents(1), description: "x" };
    assert!(matches!(scene.play.refund(&unknown).await, Err(PaymentError::Unknown)));
}

#[tokio::test]
async fn where_nobody_plays_there_is_no_page() {
    let world = World::start().await;
    let page = world.person().visit(&world.console_url("/play/play_0123456789abcdefghij")).await;
    assert_eq!(page.answer.status, 404);
    let scene = Scene::start().await;
    let page = scene.world.person().visit(&scene.world.console_url("/play/play_0123456789abcdefghij")).await;
    page.assert_says("No such payment");
    assert_eq!(page.answer.status, 404);
}
