//! The AI gateway's catalog of models: who serves them and what they cost.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use domain::{BRAND, gateway::TokenLimit, usage::ModelPrices};
use secrecy::SecretString;
use url::Url;

use crate::gateway::{Gateway, ProviderQuirks, UsageFields};
pub use crate::{aliases::Aliases, model_routes::ModelRoute};

/// The `max_tokens` of a request that sets none, and the largest that it may set unless its plan says otherwise.
pub const MAX_TOKENS: u64 = 4096;

/// The catalog of models, by id.
#[derive(Debug, Clone)]
pub struct ModelCatalog(BTreeMap<String, Arc<Model>>);

/// A model of the AI gateway.
#[derive(Debug)]
pub struct Model {
    /// The id, `svc/…`.
    pub id: Arc<str>,
    /// The provider that serves the model.
    pub provider: Arc<ModelProvider>,
    /// The model's name at the provider.
    pub upstream: String,
    /// The endpoints that the provider offers for the model, including chat completions.
    pub routes: Vec<ModelRoute>,
    /// The model at its second provider, used when the first cannot have begun to answer. It has no fallback itself.
    pub fallback: Option<Arc<Model>>,
    /// The owners, as `GET /v1/models` shows them.
    pub owned_by: String,
    /// The token prices.
    pub prices: ModelPrices,
    /// The maximum number of tokens in a prompt, if known.
    pub context: Option<u32>,
    /// The maximum number of tokens that the model writes, if known.
    pub output: Option<u32>,
    /// Whether the model accepts images.
    pub vision: bool,
    /// Whether the model can reason before it answers.
    pub reasoning: bool,
    /// Whether the model can call functions.
    pub tools: bool,
}

impl Model {
    /// Returns whether the provider offers this endpoint for the model. A model with responses or messages has chat
    /// completions as well, to which the gateway translates requests that cannot be passed through.
    pub fn has_route(&self, route: ModelRoute) -> bool {
        let has = |route| self.routes.contains(&route);
        has(route) || route == ModelRoute::Chat && (has(ModelRoute::Responses) || has(ModelRoute::Messages))
    }

    /// Returns the maximum number of tokens in one choice of this model.
    pub fn most_output(&self) -> u64 {
        most_output(self.output, self.context)
    }
}

/// Returns the maximum number of tokens in one choice of a model with these limits.
pub(crate) fn most_output(output: Option<u32>, context: Option<u32>) -> u64 {
    output.or(context).map_or(TokenLimit::MOST.unsigned_abs().into(), u64::from).max(1)
}

/// A provider of models.
#[derive(Debug)]
pub struct ModelProvider {
    /// The name in the configuration and in usage records.
    pub name: Arc<str>,
    /// The owner, as `GET /v1/models` shows it.
    pub owned_by: String,
    /// The URL under which the provider's endpoints are, without a trailing slash.
    pub base_url: Url,
    /// How the gateway authenticates to the provider.
    pub access: ProviderAccess,
    /// The provider's deviations from `OpenAI`'s wire format.
    pub quirks: ProviderQuirks,
    /// Where the provider's `usage` objects hold the token counts.
    pub usage: UsageFields,
    /// Whether an `OpenAI` client reads the same counts from these objects.
    pub has_openai_usage: bool,
}

/// How the gateway authenticates to a provider.
#[derive(Debug)]
pub enum ProviderAccess {
    /// The provider takes this key.
    Key(SecretString),
    /// The server of `gateway.provider_url` accepts requests without a key.
    Open,
    /// The key is missing: this environment variable or file holds none.
    Missing(String),
}

/// Errors of building the catalog from the configuration.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CatalogError {
    /// A model's id is not of the form `svc/name`.
    #[error(
        "gateway.models: {0} is not an id of the form {BRAND}/<name> with letters, digits, dots, hyphens and underscores"
    )]
    Id(String),
    /// The provider of a model does not exist.
    #[error("gateway.models: the provider {provider} of {model} is not one of gateway.providers")]
    Provider {
        /// The model.
        model: String,
        /// The provider that the model names.
        provider: String,
    },
    /// The fallback provider of a model does not exist, or is the same as the first.
    #[error("gateway.models: the fallback of {model} is {provider}, which is not another one of gateway.providers")]
    Fallback {
        /// The model.
        model: String,
        /// The provider that the fallback names.
        provider: String,
    },
    /// An alias cannot be matched, or does not name a model.
    #[error("gateway.aliases: {alias}: {reason}")]
    Alias {
        /// The alias.
        alias: String,
        /// The rule that the alias breaks.
        reason: String,
    },
    /// An address is not an HTTP URL.
    #[error("{0} must be an http:// or https:// address without a query")]
    Address(String),
    /// The quirks of a provider drop the field for its output limit.
    #[error(
        "gateway.providers.{0}.quirks.drop leaves out what quirks.ceiling names: its completions would have no limit"
    )]
    Ceiling(String),
    /// The key file of a provider cannot be read.
    #[error("gateway.providers.{provider}.api_key_file: cannot read {path}: {reason}")]
    KeyFile {
        /// The provider.
        provider: String,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    /// A key is set without the server that it is for.
    #[error("gateway.provider_api_key is for gateway.provider_url, which is not set")]
    KeyWithoutUrl,
}

impl ModelCatalog {
    /// Builds the catalog from a configuration, and reads the key files. `variable` reads an environment variable.
    pub fn from_config(config: &Gateway, variable: impl Fn(&str) -> Option<String>) -> Result<Self, CatalogError> {
        if config.provider_url.is_none() && config.provider_api_key.is_some() {
            return Err(CatalogError::KeyWithoutUrl);
        }
        Aliases::check(config)?;
        let providers = (config.providers.iter())
            .map(|(name, provider)| {
                let (key, url, access, dialect) = if let Some(url) = &config.provider_url {
                    let access = config.provider_api_key.clone().filter(|key| !key.is_empty()).map(SecretString::from);
                    (
                        "gateway.provider_url".to_owned(),
                        url,
                        access.map_or(ProviderAccess::Open, ProviderAccess::Key),
                        None,
                    )
                } else {
                    let (key, place) = match &provider.api_key_file {
                        None => (variable(&provider.api_key_env), provider.api_key_env.clone()),
                        Some(path) => {
                            let unread = |error: std::io::Error| CatalogError::KeyFile {
                                provider: name.clone(),
                                path: path.clone(),
                                reason: error.to_string(),
                            };
                            (Some(fs::read_to_string(path).map_err(unread)?), path.display().to_string())
                        }
                    };
                    let key = key.filter(|key| !key.trim().is_empty());
                    let access = key.map_or(ProviderAccess::Missing(place), |key| {
                        ProviderAccess::Key(key.trim().to_owned().into())
                    });
                    let dialect = Some((provider.quirks.clone(), provider.usage.clone()));
                    (format!("gateway.providers.{name}.base_url"), &provider.base_url, access, dialect)
                };
                let (quirks, usage) = dialect.unwrap_or_default();
                let is_dropped = |field: &&str| quirks.drop.iter().any(|dropped| dropped == field);
                if quirks.ceiling.names().iter().all(is_dropped) {
                    return Err(CatalogError::Ceiling(name.clone()));
                }
                let provider = ModelProvider {
                    name: name.as_str().into(),
                    owned_by: provider.owned_by.clone(),
                    base_url: endpoint_base(url).ok_or(CatalogError::Address(key))?,
                    access,
                    quirks,
                    has_openai_usage: usage.is_openai(),
                    usage,
                };
                Ok((name.as_str(), Arc::new(provider)))
            })
            .collect::<Result<BTreeMap<_, _>, CatalogError>>()?;
        let models = config.models.iter().map(|(id, model)| {
            if !is_id(id) {
                return Err(CatalogError::Id(id.clone()));
            }
            let provider = providers
                .get(model.provider.as_str())
                .ok_or_else(|| CatalogError::Provider { model: id.clone(), provider: model.provider.clone() })?;
            let owned_by = config.owned_by(model);
            let at = |provider: &Arc<ModelProvider>, upstream: &str, routes: &[ModelRoute], fallback| Model {
                id: id.as_str().into(),
                provider: provider.clone(),
                upstream: upstream.to_owned(),
                routes: routes.to_vec(),
                fallback,
                owned_by: owned_by.clone(),
                prices: model.prices(),
                context: model.context,
                output: model.output,
                vision: model.vision,
                reasoning: model.reasoning,
                tools: model.tools,
            };
            let second = model.fallback.as_ref().map(|fallback| {
                let provider =
                    providers.get(fallback.provider.as_str()).filter(|_| fallback.provider != model.provider);
                let provider = provider
                    .ok_or_else(|| CatalogError::Fallback { model: id.clone(), provider: fallback.provider.clone() })?;
                Ok::<_, CatalogError>(Arc::new(at(provider, &fallback.upstream, &fallback.routes, None)))
            });
            // When one server stands in for all providers, a fallback would only ask it again.
            let second = second.transpose()?.filter(|_| config.provider_url.is_none());
            let model = at(provider, &model.upstream, &model.routes, second);
            Ok((id.clone(), Arc::new(model)))
        });
        Ok(Self(models.collect::<Result<_, _>>()?))
    }

    /// Returns the model with this id.
    pub fn find(&self, id: &str) -> Option<&Arc<Model>> {
        self.0.get(id)
    }

    /// Returns all models, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.0.values()
    }
}

fn is_id(id: &str) -> bool {
    let name = id.strip_prefix(BRAND).and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
    })
}

/// Returns the URL under which a provider's endpoints are: a URL without a path gets `/v1`, as the wire format has it.
fn endpoint_base(url: &Url) -> Option<Url> {
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return None;
    }
    let mut base = url.clone();
    let path = url.path().trim_end_matches('/');
    base.set_path(if path.is_empty() { "/v1" } else { path });
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::FallbackEntry;

    fn models(change: impl FnOnce(&mut Gateway)) -> Result<ModelCatalog, CatalogError> {
        let mut config = Gateway::default();
        change(&mut config);
        ModelCatalog::from_config(&config, |name| (name == "MISTRAL_API_KEY").then(|| "key-of-mistral".to_owned()))
    }

    #[test]
    fn eight_models_are_shipped_with_the_prices_of_the_contract() {
        let models = models(|_| {}).unwrap();
        let table: Vec<_> = models.iter().map(|model| (&*model.id, &*model.provider.name, model.prices)).collect();
        let flat = ModelPrices::flat;
        assert_eq!(
            table,
            [
                ("svc/gpt-oss-120b", "scaleway", flat(25, 100)),
                ("svc/gpt-oss-20b", "ovhcloud", flat(10, 40)),
                ("svc/llama-3.3-70b-instruct", "scaleway", flat(135, 135)),
                ("svc/mistral-large", "mistral", flat(300, 900)),
                ("svc/mistral-medium", "mistral", flat(60, 300)),
                ("svc/mistral-small", "mistral", flat(15, 45)),
                ("svc/qwen3-32b", "ovhcloud", flat(15, 45)),
                ("svc/qwen3-coder-30b", "scaleway", flat(30, 120)),
            ]
        );
    }

    #[test]
    fn a_provider_is_open_to_us_once_its_variable_holds_a_key() {
        let models = models(|_| {}).unwrap();
        let access = |id: &str| &models.find(id).unwrap().provider.access;
        assert!(matches!(access("svc/mistral-small"), ProviderAccess::Key(_)));
        assert!(
            matches!(access("svc/gpt-oss-20b"), ProviderAccess::Missing(name) if name == "OVH_AI_ENDPOINTS_ACCESS_TOKEN")
        );
    }

    #[test]
    fn a_key_may_be_in_a_file() {
        let file = std::env::temp_dir().join(format!("svc-key-{}", std::process::id()));
        let in_file = || {
            let models =
                models(|config| config.providers.get_mut("mistral").unwrap().api_key_file = Some(file.clone()))?;
            Ok(match &models.find("svc/mistral-small").unwrap().provider.access {
                ProviderAccess::Key(key) => secrecy::ExposeSecret::expose_secret(key).to_owned(),
                access => format!("{access:?}"),
            })
        };
        fs::write(&file, "key-in-a-file\n").unwrap();
        assert_eq!(in_file(), Ok("key-in-a-file".to_owned()));
        fs::write(&file, "").unwrap();
        assert!(in_file().unwrap().contains("svc-key-"), "an empty one is missing, and named");
        fs::remove_file(&file).unwrap();
        let error: CatalogError = in_file().unwrap_err();
        assert!(error.to_string().starts_with("gateway.providers.mistral.api_key_file: cannot read"), "{error}");
    }

    #[test]
    fn one_server_can_stand_for_all_and_never_sees_their_keys() {
        for (given, base) in [
            ("http://127.0.0.1:9", "http://127.0.0.1:9/v1"),
            ("http://127.0.0.1:9/", "http://127.0.0.1:9/v1"),
            ("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"),
            ("http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1"),
            ("https://x.example/openai", "https://x.example/openai"),
        ] {
            let models = models(|config| config.provider_url = Some(given.parse().unwrap())).unwrap();
            for model in models.iter() {
                assert_eq!(model.provider.base_url.as_str(), base);
                assert!(matches!(model.provider.access, ProviderAccess::Open));
                assert_eq!(model.provider.quirks, ProviderQuirks::default());
            }
        }
    }

    #[test]
    fn a_second_provider_has_the_models_price_and_a_name_of_its_own() {
        let fallback = || {
            let (provider, upstream) = ("ovhcloud".to_owned(), "Mistral-Small".to_owned());
            FallbackEntry { provider, upstream, routes: vec![ModelRoute::Chat, ModelRoute::Responses] }
        };
        let set = |config: &mut Gateway| {
            config.models.get_mut("svc/mistral-small").unwrap().fallback = Some(fallback());
        };
        let both = models(set).unwrap();
        let model = both.find("svc/mistral-small").unwrap();
        let second = model.fallback.as_ref().unwrap();
        assert_eq!((&*second.provider.name, &*second.upstream), ("ovhcloud", "Mistral-Small"));
        assert_eq!((&second.id, second.prices.input, second.prices.output), (&model.id, 15, 45));
        assert_eq!((&*model.owned_by, model.owned_by == second.owned_by), ("Mistral AI, OVHcloud", true));
        assert_eq!((&model.routes[..], second.routes.len()), (&[ModelRoute::Chat][..], 2));
        let one = models(|config| {
            set(config);
            config.provider_url = Some("http://127.0.0.1:9".parse().unwrap());
        });
        let one = one.unwrap();
        let model = one.find("svc/mistral-small").unwrap();
        assert!(model.fallback.is_none() && model.owned_by == "Mistral AI");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let wrong = |change: fn(&mut Gateway)| models(change).unwrap_err().to_string();
        assert!(wrong(|c| c.provider_api_key = Some("x".into())).contains("provider_url"));
        assert!(wrong(|c| c.provider_url = Some("ftp://x".parse().unwrap())).contains("gateway.provider_url"));
        let move_model = |config: &mut Gateway| {
            let model = config.models.remove("svc/mistral-small").unwrap();
            config.models.insert("gpt-5".into(), model);
        };
        assert!(wrong(move_model).contains("gpt-5"));
        assert!(wrong(|c| drop(c.providers.remove("scaleway"))).contains("scaleway"));
        for second in ["nobody", "mistral"] {
            let error = models(|config| {
                let small = config.models.get_mut("svc/mistral-small").unwrap();
                let (provider, upstream) = (second.to_owned(), "small".to_owned());
                small.fallback = Some(FallbackEntry { provider, upstream, routes: vec![ModelRoute::Chat] });
            });
            let error = error.unwrap_err().to_string();
            assert!(error.contains("the fallback of svc/mistral-small") && error.contains(second), "{error}");
        }
        for (alias, model, reason) in [
            ("claude-*", "svc/gpt-5", "svc/gpt-5 is not one of gateway.models"),
            ("claude-*-1", "svc/mistral-small", "`*`"),
            ("", "svc/mistral-small", "empty"),
            ("svc/x", "svc/mistral-small", "svc/"),
        ] {
            let config = Gateway { aliases: [(alias.into(), model.into())].into(), ..Gateway::default() };
            let error = ModelCatalog::from_config(&config, |_| None).unwrap_err().to_string();
            assert!(error.starts_with("gateway.aliases") && error.contains(reason), "{error}");
        }
        let drop_ceiling = |config: &mut Gateway| {
            let mistral = config.providers.get_mut("mistral").unwrap();
            mistral.quirks.drop.push("max_tokens".into());
        };
        assert!(wrong(drop_ceiling).contains("gateway.providers.mistral.quirks.drop"));
    }
}
