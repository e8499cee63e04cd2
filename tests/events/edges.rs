//! Streams through a real edge: handed on as they come, over both versions of HTTP, and without taking the places of others.

use reqwest::{Client, Method, Version};

use crate::world::{Actor, World, events::EventStream, request::Request};

/// A stream at the API's public address.
async fn follow(world: &World, client: &Client, ada: &Actor, last: Option<&str>) -> EventStream {
    let url = world.edge().address("https://api.svc.localhost/events");
    let request = Request::new(client, Method::GET, url.as_str()).bearer(ada.token.as_deref().unwrap());
    EventStream::open_after(request, last).await
}

#[tokio::test]
async fn each_event_comes_through_an_edge_when_it_happens() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for (version, http2) in [(Version::HTTP_11, false), (Version::HTTP_2, true)] {
        let browser = world.edge().another_browser(http2);
        let mut stream = follow(&world, &browser, &ada, None).await;
        assert_eq!(stream.head.version, version);
        // Each is awaited before the next is made: what was held back on the way would never come.
        for number in 0..20 {
            let name = format!("engine-{http2}-{number}");
            ada.create_project(&name).await;
            assert_eq!(stream.until("project.create").await.data["project"], name);
        }
    }
}

#[tokio::test]
async fn a_stream_outlives_its_edge() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let browser = world.edge().another_browser(true);
    let mut stream = follow(&world, &browser, &ada, None).await;
    ada.create_project("engine").await;
    let seen = stream.until("project.create").await.id.unwrap();
    world.edges[0].process.kill();
    stream.assert_ends().await;
    ada.create_project("two").await;
    world.restart_edge(0).await;
    let browser = world.edge().another_browser(true);
    let mut resumed = follow(&world, &browser, &ada, Some(&seen)).await;
    assert_eq!(resumed.next().await.unwrap().data["project"], "two");
}

#[tokio::test]
async fn streams_leave_places_for_requests() {
    let world = World::start().await;
    let mut streams = Vec::new();
    for number in 0..3 {
        let person = world.user(&format!("person-{number}")).await;
        for _ in 0..16 {
            // Of one client, 32 are handed on; each on a connection of its own.
            let browser = world.edge().another_browser(false);
            let url = world.edge().address("https://api.svc.localhost/events");
            let request = Request::new(&browser, Method::GET, url.as_str()).bearer(person.token.as_deref().unwrap());
            let (answer, response) = request.open().await;
            streams.push((browser, answer.status.as_u16(), response));
        }
    }
    let open = streams.iter().filter(|(_, status, _)| *status == 200).count();
    assert_eq!((open, streams.last().unwrap().1), (32, 503));
    let ada = world.user("ada").await;
    let asked = world.edge().get("https://api.svc.localhost/me").bearer(ada.token.as_deref().unwrap());
    assert_eq!(asked.await.ok()["vcs_login"], "ada");
}
