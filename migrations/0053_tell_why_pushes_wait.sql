-- Why a push waits that could be deployed otherwise, in words for its project's people; `last_error` is the operator's.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE repo_deploys ADD COLUMN waits_for text;
