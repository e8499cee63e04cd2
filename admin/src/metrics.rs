//! What admin counts; `telemetry::metrics` says how it is read, and which labels may be.

use std::time::Duration;

use domain::Timestamp;
use http::{Method, StatusCode};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

/// Says what everything means. Once, when the exporter has begun.
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
}

/// A method, if it is one that people use: others are a client's invention.
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

/// A request was answered. `route` is the template, never the path.
pub(crate) fn answered(route: &str, method: &'static str, status: StatusCode, took: Duration) {
    let labels = [("route", route.to_owned()), ("method", method.to_owned()), ("status", status.as_str().to_owned())];
    counter!("svc_api_requests_total", &labels).increment(1);
    histogram!("svc_api_seconds", "route" => route.to_owned()).record(took);
}

/// A job ended; with how many things done, unless it failed.
pub(crate) fn job_ran(job: &'static str, now: Timestamp, done: Option<u64>) {
    let Some(done) = done else { return };
    counter!("svc_job_runs_total", "job" => job).increment(1);
    counter!("svc_job_done_total", "job" => job).increment(done);
    #[expect(clippy::cast_precision_loss, reason = "seconds fit for a long time")]
    gauge!("svc_job_last_run_timestamp_seconds", "job" => job).set(now.unix_seconds() as f64);
}

/// A job failed.
pub(crate) fn job_failed(job: &'static str) {
    counter!("svc_job_failures_total", "job" => job).increment(1);
}
