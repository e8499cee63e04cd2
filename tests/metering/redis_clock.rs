//! Redis's clock goes ahead and back while completions are asked for without a break: by minutes, hours, and over midnight.

use super::{load::under_load, served::without_limits, *};

const AHEAD: [Duration; 4] =
    [Duration::from_mins(10), Duration::from_hours(2), Duration::from_secs(30), Duration::from_hours(26)];

#[tokio::test]
async fn the_clock_of_redis_goes_ahead_and_back_under_load() {
    let metered = Metered::start_with(|builder| without_limits(builder).redis_ahead(Duration::ZERO)).await;
    under_load(metered, async |world, _, times| {
        let times = times as usize;
        // Each time from the present, and back to it.
        let ahead = if times.is_multiple_of(2) { AHEAD[times / 2 % AHEAD.len()] } else { Duration::ZERO };
        let before = world.redis_time().await;
        world.set_redis_ahead(ahead);
        let after = world.redis_time().await;
        assert!(before.abs_diff(after) >= 20, "its clock did not change");
    })
    .await;
}
