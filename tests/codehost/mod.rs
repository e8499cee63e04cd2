//! What people show of their code host, and what is deployed from there: against a stub that speaks GitHub's documented
//! REST wire format.

mod app;
mod cli;
mod events;
mod installations;
mod pushes;
mod repo;
mod scene;
mod tokens;
mod webhooks;
