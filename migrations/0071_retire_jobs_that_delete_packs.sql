-- Admins of before the trash delete packs for good: those that deletions queued, and those without a record. While they still run
-- beside newer ones, nobody gives them these leases any more. The jobs that took their place have names of their own.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

INSERT INTO job_leases (job, leased_until)
SELECT job, now() + interval '10 years' FROM unnest(ARRAY['remove packs', 'find orphaned packs']) AS old (job)
ON CONFLICT (job) DO UPDATE SET leased_until = excluded.leased_until;
