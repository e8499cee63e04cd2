//! The code host: what people share of it, and what is deployed from there. The stub speaks GitHub's documented REST wire
//! format.

mod app;
mod cli;
mod events;
mod installations;
mod missed;
mod pushes;
mod repo;
mod scene;
mod tokens;
mod turns;
mod webhooks;
