//! The letter that invites, at mail servers as there are in the world: `email_sent` is true when one took it, and never
//! otherwise.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::world::{
    World,
    mailbox::{LOGIN, Mailbox, Strict, header},
    request::Request,
};

/// What a request may wait for a mail server, and somewhat more.
const PATIENCE: Duration = Duration::from_secs(20);

/// `mail.url` with a login, escaped as in any address.
fn url(scheme: &str, port: u16, (user, password): (&str, &str), query: &str) -> String {
    let escape =
        |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    format!("{scheme}://{}:{}@127.0.0.1:{port}{query}", escape(user), escape(password))
}

/// Invites somebody on a platform that sends its mail to `url`, and trusts the certificate in `trusted`.
async fn invite(url: &str, trusted: Option<&Path>) -> (World, Value) {
    let mut world = World::builder().set("MAIL__URL", url);
    if let Some(certificate) = trusted {
        world = world.variable("SSL_CERT_FILE", certificate.display());
    }
    let world = world.start().await;
    let org = world.acme().await;
    let before = Instant::now();
    let invite = org.invite("member").await;
    assert!(before.elapsed() < PATIENCE, "the request waited for {:?}", before.elapsed());
    (world, invite)
}

#[tokio::test]
async fn a_server_that_wants_tls_and_a_password_gets_both() {
    for (tls, scheme, query) in [("starttls", "smtp", "?tls=required"), ("implicit", "smtps", "")] {
        let folder = tempfile::tempdir().unwrap();
        let how = Strict { tls: Some(tls), login: true, refuses: None };
        let mailbox = Mailbox::strict(folder.path(), how).await;
        let trusted = Mailbox::certificate(folder.path());
        let (world, invite) = self::invite(&url(scheme, mailbox.port, LOGIN, query), Some(&trusted)).await;
        assert_eq!(invite["email_sent"], true, "{tls}: {}", world.admin.log_tail());
        let letters = mailbox.letters().await;
        assert_eq!(header(&letters[0], "to"), ["somebody@example.com"]);
        assert!(!world.admin.log().contains("w/rd"), "the password is in the log");

        // With another password, and with a certificate that nobody vouches for, nothing is sent.
        let wrong = url(scheme, mailbox.port, (LOGIN.0, "another"), query);
        assert_eq!(self::invite(&wrong, Some(&trusted)).await.1["email_sent"], false, "{tls}: a wrong password");
        let (world, invite) = self::invite(&url(scheme, mailbox.port, LOGIN, query), None).await;
        assert_eq!(invite["email_sent"], false, "{tls}: an untrusted certificate");
        assert!(world.admin.log().contains("a letter was not sent"), "the operator is told");
        assert_eq!(mailbox.letters().await.len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_insists_on_what_is_not_configured_gets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let how = Strict { tls: Some("starttls"), login: true, refuses: None };
    let mailbox = Mailbox::strict(folder.path(), how).await;
    let trusted = Mailbox::certificate(folder.path());
    for url in [
        // In clear text; encrypted, but without a password; and as if it spoke TLS from the start.
        url("smtp", mailbox.port, LOGIN, "?tls=none"),
        format!("smtp://127.0.0.1:{}?tls=required", mailbox.port),
        url("smtps", mailbox.port, LOGIN, ""),
    ] {
        assert_eq!(invite(&url, Some(&trusted)).await.1["email_sent"], false, "{url}");
    }
    // A server without TLS gets no password when TLS is asked for.
    let other = tempfile::tempdir().unwrap();
    let plain = Mailbox::strict(other.path(), Strict::default()).await;
    let (_, invite) = invite(&url("smtp", plain.port, LOGIN, "?tls=required"), None).await;
    assert_eq!(invite["email_sent"], false);
    assert!(mailbox.letters().await.is_empty() && plain.letters().await.is_empty());
}

#[tokio::test]
async fn a_letter_that_is_refused_at_any_step_was_not_sent() {
    for refuses in ["sender", "recipient", "recipient, for now", "letter", "to answer"] {
        let folder = tempfile::tempdir().unwrap();
        let mailbox = Mailbox::strict(folder.path(), Strict { refuses: Some(refuses), ..Strict::default() }).await;
        let (world, invite) = invite(&mailbox.url(), None).await;
        assert_eq!(invite["email_sent"], false, "{refuses}");
        assert!(mailbox.letters().await.is_empty(), "{refuses}");
        // The invite is good all the same, and what the server said is the operator's to know.
        let token = invite["invite_url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        world.nobody().get(&format!("/invites/{token}")).await.ok();
        assert!(!invite.to_string().contains("5.1.1") && !invite.to_string().contains("spam"), "{invite}");
        let log = world.admin.log();
        assert!(log.contains("a letter was not sent") && !log.contains(&token), "{refuses}");
    }
}

/// A server that falls silent holds requests up for their ten seconds each, side by side and never one after another.
#[tokio::test]
async fn a_server_that_falls_silent_holds_nobody_else_up() {
    let folder = tempfile::tempdir().unwrap();
    let mailbox = Mailbox::strict(folder.path(), Strict { refuses: Some("to answer"), ..Strict::default() }).await;
    let world = World::builder().set("MAIL__URL", mailbox.url()).start().await;
    let org = world.acme().await;
    let before = Instant::now();
    let invites = (0..24).map(|number| {
        let body = json!({ "email": format!("{number}@example.com"), "role": "member" });
        org.owner.post("/orgs/acme/invites").json(&body).into_future()
    });
    for answer in futures_util::future::join_all(invites).await {
        assert_eq!(answer.created()["email_sent"], false);
    }
    assert!(before.elapsed() < PATIENCE, "{:?}", before.elapsed());
}

#[tokio::test]
async fn no_name_gets_into_the_headers_or_the_markup() {
    let folder = tempfile::tempdir().unwrap();
    let mailbox = Mailbox::start(folder.path()).await;
    let world = World::builder().set("MAIL__URL", mailbox.url()).start().await;
    let org = world.acme().await;
    let rename = |name: &str| -> Request {
        org.owner.request(reqwest::Method::PATCH, "/orgs/acme").json(&json!({ "display_name": name }))
    };
    for bad in [
        "Acme\r\nBcc: eve@example.com",
        "Acme\nX: y",
        "Acme\u{0}",
        "Acme\u{2028}Bcc: x",
        "\u{202e}emcA",
        "a\u{85}b",
        "a\u{200d}b",
    ] {
        rename(bad).await.assert_error(400, "invalid_request");
    }
    let longest = "組織".repeat(50);
    let names = [
        "=?utf-8?q?Acme?= =?utf-8?b?QmNjOg==?=",
        "Bcc: eve@example.com",
        "\"Acme\" <eve@example.com>, x",
        "</p><script>alert(1)</script><a href='https://evil.example'>",
        "Zoë & Søn — 🦀 अपना",
        &longest,
    ];
    for (number, name) in names.iter().enumerate() {
        rename(name).await.ok();
        let address = format!("somebody{number}@example.com");
        let invite = org.owner.post("/orgs/acme/invites").json(&json!({ "email": address, "role": "member" }));
        assert_eq!(invite.await.created()["email_sent"], true, "{name}");
        let letters = mailbox.letters().await;
        assert_eq!(letters.len(), number + 1);
        let letter = letters
            .iter()
            .find(|letter| header(letter, "to") == [address.as_str()])
            .unwrap_or_else(|| panic!("no letter is for {address}: {letters:?}"));
        assert_eq!(header(letter, "subject"), ["An invitation to an organization on svc"], "{name}");
        let mut names: Vec<_> =
            letter["headers"].as_array().unwrap().iter().map(|pair| pair[0].as_str().unwrap()).collect();
        names.sort_unstable_by_key(|name| name.to_lowercase());
        let wanted = [
            "Auto-Submitted",
            "Content-Type",
            "Date",
            "From",
            "List-Unsubscribe",
            "List-Unsubscribe-Post",
            "Message-ID",
            "MIME-Version",
            "Subject",
            "To",
        ];
        let ours: Vec<_> = names.iter().filter(|name| !name.starts_with("X-")).copied().collect();
        assert_eq!(ours, wanted, "{name}");
        let html = letter["parts"]["text/html"].as_str().unwrap();
        assert!(!html.contains("<script") && !html.contains("href='https://evil"), "{html}");
    }
}
