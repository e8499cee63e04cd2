//! Names of shares that are guessed: they are words, so that whoever asks for enough of them finds some that are there.

use super::platform_floods::client;
use crate::world::{Site, World};

/// Names that are made up, twice as many as are looked up in a minute.
const NAMES: usize = 120;

#[tokio::test]
async fn made_up_shares_of_one_client_are_not_looked_up_for_ever() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let (known, fresh) = (ada.share(&Site::page("known"), 1).await.url, ada.share(&Site::page("fresh"), 1).await.url);
    let (greedy, other) = (client(&world, 1), client(&world, 2));
    let ask = async |client: &reqwest::Client, url: &str| client.get(world.edge().address(url)).send().await.unwrap();
    assert_eq!(ask(&other, &known).await.status(), 200);

    let mut statuses = Vec::new();
    for number in 0..NAMES {
        let letters = [number / 26, number % 26].map(|letter| char::from(b"abcdefghijklmnopqrstuvwxyz"[letter]));
        let word = String::from_iter(letters);
        let made_up = format!("https://made-up-{word}.share.localhost:{}", world.public_port());
        let answer = ask(&greedy, &made_up).await;
        statuses.push(answer.status().as_u16());
        if answer.status() == 429 {
            let wait: u64 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=61).contains(&wait), "{wait}");
            assert_eq!(answer.headers()["cache-control"], "no-store");
        }
    }
    assert!(statuses.iter().all(|status| [404, 429].contains(status)), "{statuses:?}");
    let refused = statuses.iter().filter(|status| **status == 429).count();
    // The bound is 60 in a minute; a slow machine may be through with one of those before the end.
    assert!(refused >= NAMES / 4, "{refused} of {NAMES} were refused");
    assert_eq!(ask(&greedy, &known).await.status(), 200, "a share that is remembered is had by everybody");
    let project = ada.publish("engine", &Site::page("home")).await.url;
    assert_eq!(ask(&greedy, &project).await.status(), 200, "other sites are looked up as before");
    assert_eq!(ask(&other, &fresh).await.status(), 200, "another client is not the one");
}
