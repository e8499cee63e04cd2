-- Looks through the hours and days, under locks that neither reads nor writes wait for. A very large table takes minutes.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '1h';

ALTER TABLE traffic_hours VALIDATE CONSTRAINT traffic_hours_bound;
ALTER TABLE traffic_hour_entries VALIDATE CONSTRAINT traffic_hour_entries_bound;
ALTER TABLE traffic_days VALIDATE CONSTRAINT traffic_days_bound;
