//! The console's page behind an invite's link.

use reqwest::Method;
use serde_json::json;

use crate::world::{
    OPERATOR_SECRET, World,
    org::{Org, token_of},
    request::Request,
};

/// A browser's request to the console, with a session if there is one.
fn browse(world: &World, method: &Method, path: &str, cookie: Option<&str>) -> Request {
    let port = world.public_port();
    let url = format!("https://app.svc.localhost{path}");
    let request = if *method == Method::POST { world.edge().post(&url) } else { world.edge().get(&url) };
    let request = request.header("origin", format!("https://app.svc.localhost:{port}"));
    match cookie {
        Some(cookie) => request.header("cookie", cookie),
        None => request,
    }
}

/// Signs in on the console: the cookie of the session.
async fn sign_in(world: &World, login: &str) -> String {
    let form = [("login", login), ("secret", OPERATOR_SECRET), ("return_to", "/")];
    let answer = browse(world, &Method::POST, "/sign-in", None).form(&form).await.assert_status(303);
    let session = answer.headers.get_all("set-cookie").iter().find_map(|cookie| {
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
        cookie.contains("session").then(|| cookie.to_owned())
    });
    session.unwrap_or_else(|| panic!("no session in {:?}", answer.headers))
}

async fn org_and_link(world: &World) -> (Org, String) {
    let org = world.acme().await;
    let rename = org.owner.request(Method::PATCH, "/orgs/acme");
    rename.json(&json!({ "display_name": "<b>Acme</b>" })).await.ok();
    let token = token_of(&org.invite("member").await);
    (org, format!("/invites/{token}"))
}

#[tokio::test]
async fn the_link_leads_to_a_page_that_joins() {
    let world = World::start().await;
    let (org, link) = org_and_link(&world).await;
    let page = browse(&world, &Method::GET, &link, None).await.assert_status(200);
    assert_eq!(page.header("cache-control"), "no-store");
    let text = page.text();
    assert!(text.contains("&#60;b&#62;Acme&#60;/b&#62;") && text.contains("Sign in to join"), "{text}");
    assert!(text.contains("svc invites accept"), "{text}");
    // Pressing a button that is not there leads to the sign-in page, and joins nobody.
    browse(&world, &Method::POST, &link, None).await.assert_status(303);

    let eve = sign_in(&world, "eve").await;
    let text = browse(&world, &Method::GET, &link, Some(&eve)).await.assert_status(200).text();
    assert!(text.contains("signed in as <strong>eve</strong>") && text.contains("Join acme"), "{text}");
    assert_eq!(org.roles().await.len(), 1, "looking joins nobody");
    // Another site's form carries the cookie, and changes nothing.
    let forged = world.edge().post(&format!("https://app.svc.localhost{link}")).header("cookie", &eve);
    let forged = forged.header("origin", "https://evil.svc.localhost").await;
    assert_eq!(forged.status, 403, "{}", forged.text());
    assert_eq!(org.roles().await.len(), 1);

    let welcome = browse(&world, &Method::POST, &link, Some(&eve)).await.assert_status(200);
    assert!(welcome.text().contains("a member of"), "{}", welcome.text());
    assert!(org.roles().await.contains(&("eve".to_owned(), "member".to_owned())));
    for method in [Method::GET, Method::POST] {
        let over = browse(&world, &method, &link, Some(&eve)).await.assert_status(404);
        assert!(over.text().contains("over"), "{}", over.text());
    }
}
