//! An admin that has no room for an upload: another one takes it.

use reqwest::Method;

use super::Pair;
use crate::{
    metrics::Page,
    world::{Site, World, ports, site::noise},
};

#[tokio::test]
async fn an_upload_that_finds_the_spool_full_goes_to_another_admin() {
    let metrics = ports::free();
    let listen = format!("127.0.0.1:{metrics}");
    let of_other = [("ADMIN__SPOOL_BYTES", "1000"), ("ADMIN__METRICS_LISTEN", listen.as_str())];
    let mut pair = Pair::of(World::builder(), &of_other).await;
    pair.ada.create_project("engine").await;
    // One that the edge has read before it asks an admin, and one that it sends once the admin wants it.
    let sizes = [20_000, 400_000];
    for n in 0..4 {
        for size in sizes {
            let page = format!("{n} {size}");
            let site = Site::page(&page).file("film.bin", noise(size));
            pair.call(Method::POST, "/projects/engine/deployments").upload(site.tarball()).await.created();
            pair.world.edge().get(&pair.world.site_url("engine")).await.assert_body(200, &page);
        }
    }
    let page = Page::of(metrics).await;
    let refused = page.labelled("svc_uploads_refused_total", r#"why="spool""#);
    assert!(refused.is_some_and(|refused| refused >= 1.0), "{refused:?}");
    assert_eq!(pair.other.log().matches("the spool has no room").count(), 1, "one line while it lasts");

    // Nobody else is there.
    pair.world.admin.kill();
    for size in sizes {
        let site = Site::new().file("film.bin", noise(size));
        let refused = pair.call(Method::POST, "/projects/engine/deployments").upload(site.tarball()).await;
        assert_eq!(refused.header("retry-after"), "30");
        assert!(refused.find_header("x-svc-elsewhere").is_none(), "{refused:?}");
        refused.assert_error(503, "busy");
    }
}
