//! Bounds of the gates before sites.

use std::time::Duration;

/// Bytes of what the password form sends.
pub(crate) const GATE_FORM_BYTES: usize = 4 * 1024;
/// Time after which a visitor who gave the password is asked again.
pub(crate) const GATE_COOKIE_LIFE: Duration = Duration::from_hours(7 * 24);
/// Time after which a member is asked for a ticket again. Whether they still are one is asked at every request.
pub(crate) const MEMBER_COOKIE_LIFE: Duration = Duration::from_hours(24);
/// Longest time for a visitor to sign in at the console.
pub(crate) const VISITOR_COOKIE_LIFE: Duration = Duration::from_hours(1);
/// Bytes of the path to which a visitor is led back after signing in.
pub(crate) const GATE_RETURN_BYTES: usize = 2 * 1024;
/// Concurrent look-ups of tickets.
pub(crate) const TICKETS_AT_ONCE: usize = 16;
/// Concurrent look-ups of tickets for one client.
pub(crate) const TICKETS_PER_CLIENT: usize = 4;
/// Visitors who wait for a look-up of their ticket.
pub(crate) const TICKETS_WAITING: usize = 4_096;
/// Visitors of one client who wait for a look-up of their ticket.
pub(crate) const TICKETS_WAITING_PER_CLIENT: usize = 64;
/// Longest wait for a ticket to be looked up.
pub(crate) const TICKET_WAIT: Duration = Duration::from_secs(3);
/// Wrong guesses at one site's passwords that one client has in a minute.
pub(crate) const GUESSES_PER_MINUTE: u32 = 10;
/// Time after which a client has one more guess.
pub(crate) const GUESS_INTERVAL: Duration = Duration::from_millis(60_000 / GUESSES_PER_MINUTE as u64);
/// Clients whose guesses are counted. Of as many, the oldest is forgotten for a new one.
pub(crate) const GUESSERS: usize = 100_000;
/// Guesses that are looked at for one that needs no memory, when as many are counted as may be.
pub(crate) const GUESSERS_LOOKED_AT: usize = 16;
/// Wrong guesses at one site's password in [`SITE_GUESSES_EVERY`], by all clients at all edges. Visitors with a cookie guess nothing.
/// All clients together can make at most these 300 in an hour and 1,200 ([`SITE_GUESSES_A_DAY`]) in a day, and beside them, only from
/// 1,000 networks or more, 3,000 first guesses ([`SITE_FIRST_GUESSES`]) in a day: 3,300 in the worst hour, and 4,200 in a day, which are
/// 175 an hour. Of 10,000 passwords of four digits, that is all in two and a half days for who has as many networks, and in eight for who
/// has a few dozen. Of passwords of six digits it is all in eight months.
pub(crate) const SITE_GUESSES: u32 = 300;
/// Wrong guesses at one site's password in [`SITE_GUESSES_DAY`], by all clients at all edges, without the first ones.
pub(crate) const SITE_GUESSES_A_DAY: u32 = 1_200;
/// Those of one client in [`SITE_GUESSES_EVERY`]: a tenth, so that no client uses them up alone.
pub(crate) const SITE_GUESSES_OF_CLIENT: u32 = 30;
/// Those of the clients of one block, which one customer may have whole.
pub(crate) const SITE_GUESSES_OF_BLOCK: u32 = 60;
/// The time for which wrong guesses at one site's password are counted.
pub(crate) const SITE_GUESSES_EVERY: Duration = Duration::from_hours(1);
/// The time for which they are counted for a day.
pub(crate) const SITE_GUESSES_DAY: Duration = Duration::from_hours(24);
/// First guesses of all clients in [`SITE_GUESSES_DAY`] that are judged although too many were wrong: ten times [`SITE_GUESSES`]. Beyond
/// it the site is under an attack from more than a thousand networks.
pub(crate) const SITE_FIRST_GUESSES: u32 = 3_000;
/// Those of one client, or of one block of clients.
pub(crate) const SITE_FIRST_GUESSES_OF_CLIENT: u32 = 3;
/// Wrong guesses in [`SITE_GUESSES_DAY`] of one client at a password of the site that it has given before, where there are no others left: it
/// mistypes what it knows.
pub(crate) const SITE_PROVED_GUESSES: u32 = 100;
/// [`SITE_PROVED_GUESSES`] of a block of networks, which one customer may have whole.
pub(crate) const SITE_PROVED_GUESSES_OF_BLOCK: u32 = 4 * SITE_PROVED_GUESSES;
/// Clients that are remembered to have given a site's password, who may guess at it whatever others do. A client counts once for each
/// password of the site.
pub(crate) const SITE_PROVED: u32 = 10_000;
/// Those of them that are in one block of networks, which one customer may have whole.
pub(crate) const SITE_PROVED_OF_BLOCK: u32 = SITE_PROVED / 100;
/// Time for which they are remembered, since the last one was added.
pub(crate) const SITE_PROVED_KEPT: Duration = Duration::from_hours(30 * 24);
/// Longest wait for Redis to count a guess. Beyond it this edge counts for itself.
pub(crate) const SITE_GUESS_WAIT: Duration = Duration::from_millis(500);
/// Sites at which guesses are counted while Redis does not answer, of all clients and of each.
pub(crate) const GUESSED_SITES: usize = 10_000;
/// Concurrent computations of password hashes at least, unless `edge.password_hashes` says otherwise: each takes tens of milliseconds of
/// a core. One client has half of them.
pub(crate) const LEAST_HASHES: usize = 2;
/// Bytes that the computation of a password hash takes.
pub(crate) const HASH_BYTES: u64 = 19 * 1024 * 1024;
/// Visitors who wait for a turn to compute a password hash, or have one.
pub(crate) const HASHES_WAITING: usize = 1_024;
/// Visitors of one client who wait for a turn to compute a password hash.
pub(crate) const HASHES_WAITING_PER_CLIENT: usize = 16;
/// Guesses at one account's sites that wait for their turn.
pub(crate) const HASHES_WAITING_PER_ACCOUNT: usize = 512;
/// Longest wait for a turn to compute a password hash.
pub(crate) const HASH_WAIT: Duration = Duration::from_secs(2);
/// `Authorization: Basic` credentials that are remembered to be right.
pub(crate) const VERIFIED_CREDENTIALS: u64 = 10_000;
/// Time for which verified `Authorization: Basic` credentials are remembered.
pub(crate) const VERIFIED_LIFE: Duration = Duration::from_mins(5);
/// Bytes of the longest `Authorization` header that is read.
pub(crate) const CREDENTIALS_BYTES: usize = 1024;
