//! What several faces of the control plane do, or the operator: publishing, certificates, the trash, and the acts on
//! accounts.

pub mod certificates;
pub mod joining;
pub mod publishing;
pub mod store_check;
pub mod suspension;
pub mod trash;
