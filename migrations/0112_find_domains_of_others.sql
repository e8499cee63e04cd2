-- no-transaction
-- Names under one registered domain are looked for whenever a domain is attached: read backwards, they stand beside each other.
CREATE INDEX CONCURRENTLY custom_domains_reversed ON custom_domains (reverse(domain));
