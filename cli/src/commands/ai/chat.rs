//! `svc ai chat`.

use std::io::{self, IsTerminal as _, Read as _};

use clap::Args;
use serde_json::json;

use super::{GatewayOptions, with_gateway_key};
use crate::{
    client::gateway::{AnswerPart, GatewayModel},
    credentials::Connection,
    failure::{Failure, FailureClass},
    output::{Output, count, print_part},
};

/// The maximum size of a prompt from a pipe: that of the largest request that any plan may allow.
const PROMPT_BYTES: u64 = 32 * 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// The prompt
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,
    /// The model: svc/… [default: the cheapest one available]
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// Instructions for the model, as a system message
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The maximum length of the answer, in tokens
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    #[command(flatten)]
    way: GatewayOptions,
}

pub(super) async fn run(said: ChatArgs, connection: Connection, output: Output) -> anyhow::Result<()> {
    let ChatArgs { prompt, model, system, max_tokens, way } = said;
    let prompt = read_prompt(prompt.join(" "))?;
    let (model, text, used) = with_gateway_key(way, connection, async |gateway| {
        let model = match &model {
            Some(model) => model.clone(),
            None => cheapest(&gateway.models().await?)?,
        };
        let mut parts = gateway.chat(&model, system.as_deref(), &prompt, max_tokens).await?;
        let (mut text, mut used) = (String::new(), None);
        while let Some(part) = parts.next().await? {
            match part {
                AnswerPart::Text(words) => {
                    if !output.is_json() {
                        print_part(&words);
                    }
                    text.push_str(&words);
                }
                AnswerPart::Used(figures) => used = Some(figures),
            }
        }
        Ok((model, text, used))
    })
    .await?;
    if !output.is_json() && !text.ends_with('\n') {
        print_part("\n");
    }
    if let Some(used) = used {
        let (read, written) = (count(used.prompt_tokens, "token"), count(used.completion_tokens, "token"));
        output.note(&format!("{model}: {read} read, {written} written."));
    }
    if output.is_json() {
        output.result(&json!({"model": model, "content": text, "usage": used}), String::new)?;
    }
    Ok(())
}

fn read_prompt(said: String) -> anyhow::Result<String> {
    let mut prompt = said;
    if prompt.trim().is_empty() && !io::stdin().is_terminal() {
        prompt.clear();
        io::stdin()
            .take(PROMPT_BYTES + 1)
            .read_to_string(&mut prompt)
            .map_err(|error| Failure::usage(format!("The prompt cannot be read from standard input: {error}.")))?;
    }
    if prompt.trim().is_empty() {
        let failure = Failure::usage("There is no prompt.");
        return Err(failure.with_hint("Write it after `svc ai chat`, or pipe it in.").into());
    }
    Ok(prompt)
}

fn cheapest(models: &[GatewayModel]) -> Result<String, Failure> {
    let price = |model: &&GatewayModel| model.pricing.input + model.pricing.output;
    // The gateway lists only models whose providers it has keys for.
    let cheapest = models.iter().filter(|model| model.is_chat_model()).min_by(|a, b| price(a).total_cmp(&price(b)));
    cheapest.map(|model| model.id.clone()).ok_or_else(|| {
        let message = "No model can be asked: the operator of the service has set no provider's API key.";
        Failure::new(FailureClass::Refused, "no_models", message)
            .with_hint("Ask the operator; \"Operate the AI gateway\" in the guide says how a key is set.")
    })
}
