//! `/ai`: the AI gateway in the console: its models, and completions to try out.

use std::time::Duration;

use admin_http::{error::ApiError, extract::Json};
use api::ai::{AiModel, AiModelList, TryCompletion};
use app::{
    App,
    auth::{CliUser, ConsoleUser},
    gateway::GatewayResponse,
    rates::Bucket,
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use db::billing::plan;
use domain::Account;
use futures_util::StreamExt as _;
use live::reports::ProgramKind;

/// Maximum time to wait for the edges' reports; without them, the models are listed all the same.
const REPORTS_WAIT: Duration = Duration::from_secs(1);

/// Lists the models of the AI gateway, with their prices and the maximum completion tokens that your plan allows.
///
/// Prices are in cents for a million tokens. `available` is there only while an edge cannot reach a provider.
#[utoipa::path(
    get, path = "/ai/models", operation_id = "list_ai_models", tag = "AI gateway",
    responses((status = 200, description = "The models", body = AiModelList)),
)]
pub async fn models(State(app): State<App>, caller: CliUser) -> Result<Json<AiModelList>, ApiError> {
    let gateway = &app.config.gateway;
    let limits = plan::limits(&app.db, app.plans(), &Account::User(caller.user.id)).await?;
    let unreachable = unreachable_models(&app).await;
    let models = gateway.models.iter().map(|(id, model)| AiModel {
        id: id.clone(),
        owned_by: gateway.owned_by(model),
        input_cents_per_million: model.input_cents,
        output_cents_per_million: model.output_cents,
        context_tokens: model.context,
        max_completion_tokens: limits.gateway_max_tokens.get().min(model.most_output()),
        available: (!unreachable.is_empty()).then(|| unreachable.iter().any(|edge| !edge.contains(id))),
    });
    Ok(Json(AiModelList { models: models.collect() }))
}

/// Returns, for each running edge, the models that it reports as unreachable. Only edges have the providers' keys.
async fn unreachable_models(app: &App) -> Vec<Vec<String>> {
    let reports = tokio::time::timeout(REPORTS_WAIT, app.redis.reports(ProgramKind::Edge)).await;
    let reports = reports.ok().and_then(Result::ok).unwrap_or_default();
    reports.into_iter().filter(|heard| !heard.is_silent()).filter_map(|heard| heard.report.unreachable_models).collect()
}

/// Requests a completion from the AI gateway and relays its response as it arrives.
///
/// For the console's own pages, which may connect to no other host; it requires a session. Other clients call the
/// gateway directly. Streams are relayed as streams. A gateway error is relayed with its status and body, whose `error`
/// has `type` and `param` besides `code` and `message`. The completion is cancelled if the client disconnects. It takes
/// less than five minutes.
#[utoipa::path(
    post, path = "/ai/try", operation_id = "try_completion", tag = "AI gateway", request_body = TryCompletion, security(("session" = [])),
    responses((status = 200, description = "The completion", headers(("Cache-Control")), content(
        (Object = "application/json"), (String = "text/event-stream"),
    ))),
    extensions(
        ("x-errors" = json!({
            "gateway_unavailable": "the gateway cannot be reached, or does not answer in time",
            "busy": "too many completions are tried out at a time, or too many requests are under way",
        })),
        ("x-gateway-errors" = json!({
            "400": {
                "invalid_json": "`request` is not what the gateway takes",
                "invalid_type": "a field of `request` has the wrong type",
                "invalid_value": "a field of `request` has a value that the gateway or the model does not take",
                "missing_required_parameter": "a field of `request` is missing",
            },
            "401": { "invalid_api_key": "`key` is unknown, revoked, or of another kind than `ai`" },
            "404": { "model_not_found": "there is no such model" },
            "413": { "request_too_large": "`request` is larger than the gateway takes" },
            "429": {
                "daily_token_limit_exceeded": "the tokens of the day are used up",
                "insufficient_quota": "the credit of the month is used up",
                "limit_reached": "a limit that the account has set itself is reached",
            },
            "502": { "upstream_error": "the model's provider failed" },
            "503": {
                "model_unavailable": "the operator has set no key for the model's provider",
                "service_unavailable": "the gateway is busy, restarting, or cannot check limits",
                "upstream_overloaded": "the model's provider takes no more for now",
            },
            "504": { "upstream_timeout": "the model's provider took too long" },
        })),
    ),
)]
pub async fn try_completion(
    State(app): State<App>,
    ConsoleUser(caller): ConsoleUser,
    Json(body): Json<TryCompletion>,
) -> Result<Response, ApiError> {
    let person = caller.user.id.to_string();
    let turn = app.bounds.completion_try(&caller.user.id.into()).await?;
    app.rate_limits.count(Bucket::TriedKey, &person).await.check()?;
    let answered = app.gateway.complete(&body.key, &body.request).await;
    if !answered.as_ref().is_ok_and(|answer| answer.status == StatusCode::UNAUTHORIZED) {
        app.rate_limits.uncount(Bucket::TriedKey, &person).await;
    }
    let GatewayResponse { status, content_type, retry_after, body } = answered?;
    let body = body.inspect(move |chunk| {
        // Hold the permit until the body ends.
        let _ = &turn;
        if let Err(error) = chunk {
            tracing::warn!("a completion that is tried out broke off: {error:#}");
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let passed_on = [(header::CONTENT_TYPE, content_type), (header::RETRY_AFTER, retry_after)];
    headers.extend(passed_on.into_iter().filter_map(|(name, value)| Some((name, value?))));
    Ok(response)
}
