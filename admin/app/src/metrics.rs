//! Admin's metrics. The rules for reading and labelling metrics are in `telemetry::metrics`.

use std::time::Duration;

use db::{letters::PendingLetters, upkeep::backlogs::JobBacklogs};
use domain::{Timestamp, certificates::DomainState};
use http::{Method, StatusCode};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use packs::FaultKind;

/// Describes each metric to the exporter. Call it once, after the exporter has started.
pub fn describe() {
    describe_counter!("svc_api_requests_total", "Requests, by route template, method and status.");
    describe_histogram!("svc_api_seconds", "From a request's arrival to the head of its answer.");
    describe_counter!("svc_job_runs_total", "Times this admin ran a job to its end.");
    describe_counter!("svc_job_failures_total", "Times a job failed here, or its lease could not be asked for.");
    describe_counter!("svc_job_done_total", "Things that a job did here.");
    describe_gauge!(
        "svc_job_last_run_timestamp_seconds",
        "When a job last ran here to its end, in seconds since 1970."
    );
    describe_histogram!(
        "svc_change_propagation_seconds",
        "From the commit of a change to the moment at which every edge that was waited for had applied it."
    );
    describe_counter!(
        "svc_changes_incomplete_total",
        "Changes of this admin whose receipt said that not every known edge had applied them in time."
    );
    describe_gauge!(
        "svc_changes_lost",
        "Changes that the database has lost and the operator has not acknowledged (`admin lost-changes`), as far as edges know."
    );
    describe_gauge!(
        "svc_backlog_rows",
        "Rows that wait, by queue: `traffic`, `pushes`, `pack_removals`, `unsent_changes`. Counted twice a minute, by one admin for all."
    );
    describe_gauge!("svc_backlog_late_seconds", "Seconds for which the first row of a queue has been due, by queue.");
    describe_gauge!(
        "svc_certificates_soonest_expiry_timestamp_seconds",
        "End of the certificate in use that ends first, in seconds since 1970."
    );
    describe_gauge!("svc_certificates_expiring", "Certificates in use that end within 14 days.");
    describe_gauge!("svc_certificates", "Names that are to have a certificate, by where they are on their way.");
    describe_gauge!("svc_certificates_overdue", "Certificates that should have been renewed by now.");
    describe_counter!("svc_certificate_orders_total", "Certificates that this admin had issued, by issuer.");
    describe_counter!("svc_certificate_failures_total", "Attempts at a certificate that failed here, by reason.");
    describe_gauge!(
        "svc_billing_differences",
        "Rows of billing that do not agree with each other or with the payment provider, by kind."
    );
    describe_counter!(
        "svc_renewals_put_off_total",
        "Subscriptions that could not be renewed here and were put off; the log names each."
    );
    describe_counter!(
        "svc_uploads_refused_total",
        "Uploads refused here for want of room: the `spool` was full or could not be written, or too little of a `disk` is free."
    );
    describe_counter!(
        "svc_store_failures_total",
        "Requests that failed here because the store of deployments did not answer."
    );
    describe_gauge!("svc_event_streams", "Event streams that are open at this admin.");
    describe_counter!(
        "svc_event_streams_refused_total",
        "Event streams refused here because too many were open, by whose bound: `session`, `account`, `process`."
    );
    describe_counter!("svc_events_dropped_total", "Events of this admin that nobody was told of; streams were reset.");
    describe_counter!(
        "svc_event_resets_total",
        "Times this admin's event streams could not be told what came between."
    );
    describe_gauge!(
        "svc_store_sweep_stopped",
        "1 while the sweep of the store moves nothing, by reason: `clocks`, `older_database`, `share`, `copy`; 0 while it runs."
    );
    describe_counter!("svc_packs_restored_total", "Packs that came back from the store's trash.");
    describe_counter!(
        "svc_packs_purged_early_total",
        "Packs that were deleted from the store's trash before store.trash_days, because their account has deleted more than its plan allows to store."
    );
    describe_counter!(
        "svc_pack_removals_refused_total",
        "Packs that were queued for removal although their deployment exists; they stayed."
    );
    describe_gauge!("svc_letters_waiting", "Letters that wait for a mail server.");
    describe_gauge!("svc_letters_oldest_waiting_seconds", "Age of the oldest letter that waits.");
    describe_gauge!(
        "svc_letters_oldest_kept_seconds",
        "Age of the oldest letter about money that waits; such letters are never given up for their age."
    );
    describe_counter!("svc_letters_sent_total", "Letters of the queue that a mail server took from this admin.");
    describe_gauge!("svc_store_faults", "Packs that are known to be lost or damaged, by kind.");
    describe_gauge!(
        "svc_store_checked_timestamp_seconds",
        "When all packs had last been read, in seconds since 1970; 0 before they were once."
    );
    describe_gauge!(
        "svc_backup_last_timestamp_seconds",
        "When the last complete backup began, in seconds since 1970; absent as long as there was none."
    );
    describe_counter!("svc_letters_given_up_total", "Letters of the queue that this admin gave up.");
}

/// Converts a method to a label. Methods that clients invent share one.
pub(crate) fn method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Counts an answered request. `route` is the template, never the path.
pub(crate) fn request_answered(route: &str, method: &'static str, status: StatusCode, took: Duration) {
    let labels = [("route", route.to_owned()), ("method", method.to_owned()), ("status", status.as_str().to_owned())];
    counter!("svc_api_requests_total", &labels).increment(1);
    histogram!("svc_api_seconds", "route" => route.to_owned()).record(took);
}

/// Counts a job's successful run, with the number of things it did. Failed runs are counted by [`job_failed`].
pub fn job_ran(job: &'static str, now: Timestamp, done: Option<u64>) {
    let Some(done) = done else { return };
    counter!("svc_job_runs_total", "job" => job).increment(1);
    counter!("svc_job_done_total", "job" => job).increment(done);
    #[expect(clippy::cast_precision_loss, reason = "seconds fit for a long time")]
    gauge!("svc_job_last_run_timestamp_seconds", "job" => job).set(now.unix_seconds() as f64);
}

/// Counts a job's failed run, or a failure to acquire or release its lease.
pub fn job_failed(job: &'static str) {
    counter!("svc_job_failures_total", "job" => job).increment(1);
}

/// Reports how many names are in each state, and how many certificates are overdue for renewal.
pub fn certificates(counts: &[(DomainState, i64)], overdue: i64) {
    for state in DomainState::ALL {
        let count = counts.iter().find(|(counted, _)| counted == state).map_or(0, |(_, count)| *count);
        #[expect(clippy::cast_precision_loss, reason = "there are fewer names")]
        gauge!("svc_certificates", "state" => state.as_str()).set(count as f64);
    }
    #[expect(clippy::cast_precision_loss, reason = "there are fewer certificates")]
    gauge!("svc_certificates_overdue").set(overdue as f64);
}

/// Counts a change sent to edges, and whether all known edges had applied it when the wait for them ended.
pub(crate) fn change_propagated(took: Duration, is_complete: bool) {
    histogram!("svc_change_propagation_seconds").record(took);
    if !is_complete {
        counter!("svc_changes_incomplete_total").increment(1);
    }
}

/// Reports how many rows wait in each queue, for how many seconds the first has been due at `now`, how many
/// certificates in use end soon, and when the first one ends.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn backlogs(counted: &JobBacklogs, now: Timestamp) {
    gauge!("svc_backlog_rows", "queue" => "traffic").set(counted.traffic_rows as f64);
    for (queue, rows, since) in [
        ("pushes", counted.pushes, counted.pushes_since),
        ("pack_removals", counted.pack_removals, counted.pack_removals_since),
        ("unsent_changes", counted.unsent_changes, counted.unsent_changes_since),
    ] {
        gauge!("svc_backlog_rows", "queue" => queue).set(rows as f64);
        let late = since.map_or(0.0, |since| now.since(since).as_secs_f64());
        gauge!("svc_backlog_late_seconds", "queue" => queue).set(late);
    }
    gauge!("svc_certificates_expiring").set(counted.certificates_ending as f64);
    if let Some(end) = counted.certificate_end {
        gauge!("svc_certificates_soonest_expiry_timestamp_seconds").set(end.unix_seconds() as f64);
    }
}

/// Counts a certificate that was issued and put into use, by `issuer`.
pub fn certificate_issued(issuer: &'static str) {
    counter!("svc_certificate_orders_total", "issuer" => issuer).increment(1);
}

/// Reports how many billing rows disagree with each other or with the provider, by kind.
pub fn billing_differences(differences: &[(&'static str, i64)]) {
    for &(kind, count) in differences {
        #[expect(clippy::cast_precision_loss, reason = "there are fewer rows")]
        gauge!("svc_billing_differences", "kind" => kind).set(count as f64);
    }
}

/// Counts a subscription that could not be renewed and was postponed.
pub fn renewal_put_off() {
    counter!("svc_renewals_put_off_total").increment(1);
}

/// Counts a failed attempt to get a certificate.
pub fn certificate_failed(reason: &'static str) {
    counter!("svc_certificate_failures_total", "reason" => reason).increment(1);
}

/// Reports how many packs are lost or damaged, by kind. Kinds missing from `counts` are reported as 0.
pub fn store_faults(counts: &[(String, i64)]) {
    for kind in FaultKind::ALL.map(FaultKind::as_str) {
        let count = counts.iter().find(|(counted, _)| counted == kind).map_or(0, |(_, count)| *count);
        #[expect(clippy::cast_precision_loss, reason = "there are fewer packs")]
        gauge!("svc_store_faults", "kind" => kind).set(count as f64);
    }
}

/// Reports when the last complete read of all packs ended.
pub fn store_checked(at: Option<Timestamp>) {
    #[expect(clippy::cast_precision_loss, reason = "seconds fit for a long time")]
    gauge!("svc_store_checked_timestamp_seconds").set(at.map_or(0, Timestamp::unix_seconds) as f64);
}

/// Reports how many letters wait, and the ages in seconds at `now` of the oldest and of the oldest about money. An
/// age is 0 if there is no such letter.
pub fn letters(waiting: PendingLetters, now: Timestamp) {
    #[expect(clippy::cast_precision_loss, reason = "there are fewer letters")]
    gauge!("svc_letters_waiting").set(waiting.count as f64);
    let age = |oldest: Option<Timestamp>| oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64());
    gauge!("svc_letters_oldest_waiting_seconds").set(age(waiting.oldest));
    gauge!("svc_letters_oldest_kept_seconds").set(age(waiting.oldest_kept));
}

/// Counts a letter of the queue that a mail server accepted.
pub fn letter_sent() {
    counter!("svc_letters_sent_total").increment(1);
}

/// Counts letters of the queue that will not be tried again.
pub fn letters_given_up(count: u64) {
    counter!("svc_letters_given_up_total").increment(count);
}

/// Reports when the last complete backup began. Without one, the metric stays absent.
pub fn last_backup(began_at: Option<Timestamp>) {
    let Some(began_at) = began_at else { return };
    #[expect(clippy::cast_precision_loss, reason = "seconds fit for a long time")]
    gauge!("svc_backup_last_timestamp_seconds").set(began_at.unix_seconds() as f64);
}

/// Counts an upload for which there was no room.
pub fn upload_refused(why: &'static str) {
    counter!("svc_uploads_refused_total", "why" => why).increment(1);
}

/// Counts a request that failed because the store did not answer.
pub fn store_failed() {
    counter!("svc_store_failures_total").increment(1);
}

pub(crate) fn event_streams(open: usize) {
    #[expect(clippy::cast_precision_loss, reason = "there are fewer streams")]
    gauge!("svc_event_streams").set(open as f64);
}

/// Reports how many changes the database has lost that are not marked as handled.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub fn changes_lost(changes: i64) {
    gauge!("svc_changes_lost").set(changes as f64);
}

/// Reports for which of the `reasons` the sweep of the store has stopped, if it has.
pub fn sweep_stopped(reasons: &[&'static str], reason: Option<&'static str>) {
    for &each in reasons {
        gauge!("svc_store_sweep_stopped", "reason" => each).set(f64::from(u8::from(reason == Some(each))));
    }
}

/// Counts a pack that was moved from the store's trash back to its place.
pub fn pack_restored() {
    counter!("svc_packs_restored_total").increment(1);
}

/// Counts a pack deleted from the trash early, because its account has deleted too much.
pub fn pack_purged_early() {
    counter!("svc_packs_purged_early_total").increment(1);
}

/// Counts a pack that was queued for removal although its deployment exists.
pub fn removal_refused() {
    counter!("svc_pack_removals_refused_total").increment(1);
}

/// Counts a refused event stream, because the `session`, the `account` or the `process` has too many.
pub(crate) fn event_stream_refused(bound: &'static str) {
    counter!("svc_event_streams_refused_total", "bound" => bound).increment(1);
}

/// Counts events that were not delivered to anybody.
pub(crate) fn events_dropped(count: u64) {
    counter!("svc_events_dropped_total").increment(count);
}

/// Counts a reset, at which streams tell their clients to reload everything.
pub(crate) fn events_reset() {
    counter!("svc_event_resets_total").increment(1);
}
