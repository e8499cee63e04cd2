//! The gate before a site that is not public: who may pass.
