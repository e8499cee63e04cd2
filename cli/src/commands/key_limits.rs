//! Limits of an AI key in addition to those of its plan; the lower one applies.

use api::{billing::BillingOverview, tokens::Token};
use domain::{
    OrgName,
    billing::Cents,
    gateway::{BodyLimit, TokenLimit},
    plans::PlanLimits,
    usage::MonthlyLimit,
};

use crate::{client::Client, output::Output};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnKeyLimits {
    month: Option<MonthlyLimit>,
    body: Option<BodyLimit>,
    tokens: Option<TokenLimit>,
}

impl OwnKeyLimits {
    pub(super) fn from_token(token: &Token) -> Self {
        Self { month: token.monthly_limit_cents, body: token.gateway_body_bytes, tokens: token.gateway_max_tokens }
    }
}

/// Reports each limit that has no effect because the plan's is lower.
pub(super) async fn report_plan_limits(asked: &OwnKeyLimits, org: Option<&OrgName>, client: &Client, output: Output) {
    if asked.month.is_none() && asked.body.is_none() && asked.tokens.is_none() {
        return;
    }
    let path = org.map_or("/billing".to_owned(), |org| format!("/orgs/{org}/billing"));
    // The limit is already set, so a failure to read the plan is ignored.
    let Ok(overview) = client.get::<BillingOverview>(&path).await else { return };
    for line in limits_above_plan(asked, &overview.body.limits) {
        output.note(&line);
    }
}

fn limits_above_plan(asked: &OwnKeyLimits, plan: &PlanLimits) -> Vec<String> {
    let credit = Cents(plan.ai_credit_cents.into());
    let month = asked.month.filter(|limit| limit.cents() > credit);
    let tokens = asked.tokens.filter(|limit| limit.get() > plan.gateway_max_tokens.get());
    let body = asked.body.filter(|limit| limit.get() > plan.gateway_body_bytes.get());
    let lines = [
        month.map(|limit| {
            format!("{} is more than the plan allows: its AI credit, {credit} a month, holds.", limit.cents())
        }),
        tokens.map(|limit| {
            let most = plan.gateway_max_tokens.get();
            format!("{} tokens are more than the plan allows: its {most} tokens hold.", limit.get())
        }),
        body.map(|limit| {
            let most = domain::size(plan.gateway_body_bytes.get());
            format!("{} is more than the plan allows: its {most} hold.", domain::size(limit.get()))
        }),
    ];
    lines.into_iter().flatten().collect()
}
