-- Projects `routed-000000` on, as many as :sites; each serves the deployment of :project.
INSERT INTO projects (id, name, user_id, active_deployment_id, created_at)
SELECT 'prj_' || lpad(to_hex(n), 20, '0'), 'routed-' || lpad(n::text, 6, '0'), p.user_id, p.active_deployment_id, p.created_at
FROM projects p, generate_series(0, :sites - 1) AS n
WHERE p.name = :'project';
