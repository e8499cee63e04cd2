//! Limits of the gates before sites.

use std::time::Duration;

/// Bytes of a submitted password form.
pub const GATE_FORM_BYTES: usize = 4 * 1024;
/// Time after which a visitor has to enter the password again.
pub const GATE_COOKIE_LIFE: Duration = Duration::from_hours(7 * 24);
/// Time after which a member needs a new ticket. Membership itself is checked at every request.
pub const MEMBER_COOKIE_LIFE: Duration = Duration::from_hours(24);
/// Maximum time for a visitor to sign in at the console.
pub const VISITOR_COOKIE_LIFE: Duration = Duration::from_hours(1);
/// Bytes of the path that a visitor returns to after signing in.
pub const GATE_RETURN_BYTES: usize = 2 * 1024;
/// Concurrent ticket lookups.
pub const CONCURRENT_TICKET_LOOKUPS: usize = 16;
/// Concurrent ticket lookups of one client.
pub const TICKETS_PER_CLIENT: usize = 4;
/// Visitors waiting for a ticket lookup.
pub const TICKETS_WAITING: usize = 4_096;
/// Visitors of one client waiting for a ticket lookup.
pub const TICKETS_WAITING_PER_CLIENT: usize = 64;
/// Maximum wait for a ticket lookup.
pub const TICKET_WAIT: Duration = Duration::from_secs(3);
/// Wrong guesses at one site's passwords that one client may make in a minute.
pub const GUESSES_PER_MINUTE: u32 = 10;
/// Time after which a client regains one guess.
pub const GUESS_INTERVAL: Duration = Duration::from_millis(60_000 / GUESSES_PER_MINUTE as u64);
/// Clients whose guesses are counted. Beyond it a new client replaces the oldest.
pub const GUESSERS: usize = 100_000;
/// Entries examined for one that can be evicted when [`GUESSERS`] are counted.
pub const GUESSERS_EXAMINED: usize = 16;
/// Wrong guesses at one site's password in [`SITE_GUESSES_EVERY`], by all clients at all edges. Visitors with a cookie
/// do not guess. All clients together can make at most these 300 in an hour and 1,200 ([`SITE_GUESSES_A_DAY`]) in a
/// day. In addition, only from 1,000 networks or more, they can make 3,000 first guesses ([`SITE_FIRST_GUESSES`]) in a
/// day: 3,300 in the worst hour, and 4,200 in a day, which is 175 an hour. To try all 10,000 passwords of four digits
/// takes two and a half days from that many networks, and eight days from a few dozen. To try all passwords of six
/// digits takes eight months.
pub const SITE_GUESSES: u32 = 300;
/// Wrong guesses at one site's password in [`SITE_GUESSES_DAY`], by all clients at all edges, without first guesses.
pub const SITE_GUESSES_A_DAY: u32 = 1_200;
/// [`SITE_GUESSES`] of one client: a tenth, so that no client uses them up alone.
pub const SITE_GUESSES_OF_CLIENT: u32 = 30;
/// [`SITE_GUESSES`] of the clients of one block of networks, all of which one customer may control.
pub const SITE_GUESSES_OF_BLOCK: u32 = 60;
/// Window of [`SITE_GUESSES`].
pub const SITE_GUESSES_EVERY: Duration = Duration::from_hours(1);
/// Window of [`SITE_GUESSES_A_DAY`].
pub const SITE_GUESSES_DAY: Duration = Duration::from_hours(24);
/// First guesses of all clients in [`SITE_GUESSES_DAY`] that are checked although too many guesses were wrong: ten
/// times [`SITE_GUESSES`]. Beyond it the site is under an attack from more than a thousand networks.
pub const SITE_FIRST_GUESSES: u32 = 3_000;
/// [`SITE_FIRST_GUESSES`] of one client, or of one block of clients.
pub const SITE_FIRST_GUESSES_OF_CLIENT: u32 = 3;
/// Wrong guesses in [`SITE_GUESSES_DAY`] of one client that has entered the site's password before, once no other
/// guesses are left: it mistypes a password that it knows.
pub const SITE_PROVED_GUESSES: u32 = 100;
/// [`SITE_PROVED_GUESSES`] of a block of networks, all of which one customer may control.
pub const SITE_PROVED_GUESSES_OF_BLOCK: u32 = 4 * SITE_PROVED_GUESSES;
/// Clients that have entered a site's password, and may guess regardless of others. Counted once per password.
pub const SITE_PROVED: u32 = 10_000;
/// [`SITE_PROVED`] of one block of networks, all of which one customer may control.
pub const SITE_PROVED_OF_BLOCK: u32 = SITE_PROVED / 100;
/// Time for which the clients of [`SITE_PROVED`] are remembered after the last one was added.
pub const SITE_PROVED_KEPT: Duration = Duration::from_hours(30 * 24);
/// Maximum wait for Redis to count a guess. Beyond it this edge counts alone.
pub const SITE_GUESS_WAIT: Duration = Duration::from_millis(500);
/// Sites whose guesses are counted, overall and per client, while Redis is unreachable.
pub const GUESSED_SITES: usize = 10_000;
/// Minimum of concurrent password hash computations, unless `edge.password_hashes` is set: each takes tens of
/// milliseconds of a core. One client may use half of them.
pub const LEAST_HASHES: usize = 2;
/// Bytes of memory that computing a password hash takes.
pub const HASH_BYTES: u64 = 19 * 1024 * 1024;
/// Visitors whose password is hashed, or waits to be.
pub const HASHES_WAITING: usize = 1_024;
/// Visitors of one client waiting to compute a password hash.
pub const HASHES_WAITING_PER_CLIENT: usize = 16;
/// Waiting guesses at one account's sites.
pub const HASHES_WAITING_PER_ACCOUNT: usize = 512;
/// Maximum wait to compute a password hash.
pub const HASH_WAIT: Duration = Duration::from_secs(2);
/// Verified `Authorization: Basic` credentials that are cached.
pub const VERIFIED_CREDENTIALS: u64 = 10_000;
/// Time for which verified `Authorization: Basic` credentials are cached.
pub const VERIFIED_LIFE: Duration = Duration::from_mins(5);
/// Bytes of the longest `Authorization` header that is read.
pub const CREDENTIALS_BYTES: usize = 1024;
