//! The payment providers: what is said to Mollie and how its answers and its faults are taken, play money, and the webhooks
//! by which a provider says that something has changed. What is made of it all is in `billing`.

mod configuration;
mod faults;
mod play;
mod scene;
mod settling;
mod webhooks;
mod wire;
