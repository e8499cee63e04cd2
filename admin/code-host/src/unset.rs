//! The code host of an installation that has not configured one: everything but signing in works.

use async_trait::async_trait;
use secrecy::SecretString;

use super::{CodeHost, CodeHostError, DeviceFlow, FlowState};

/// Stands in for a code host until the configuration names our application there.
pub struct UnsetHost;

#[async_trait]
impl CodeHost for UnsetHost {
    async fn begin(&self) -> Result<DeviceFlow, CodeHostError> {
        Err(CodeHostError::NotSetUp)
    }

    async fn ask(&self, _device_code: &SecretString) -> Result<FlowState, CodeHostError> {
        Err(CodeHostError::NotSetUp)
    }

    fn name(&self) -> String {
        "the code host".to_owned()
    }
}
