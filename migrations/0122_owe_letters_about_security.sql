-- Letters about tokens, and about domains that moved to somebody else, can no longer be turned off: whoever steals a session must not
-- silence them. What was turned off before is sent again.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

DELETE FROM letter_refusals WHERE kind IN ('token_created', 'token_revoked', 'domain_moved');
