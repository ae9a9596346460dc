-- Clients that break the protocol, with the servers at which they do.
SELECT
    client,
    client_version,
    server,
    CAST(coalesce(sum("count") FILTER (severity = 'error'), 0) AS BIGINT) AS error_findings,
    CAST(coalesce(sum("count") FILTER (severity = 'warning'), 0) AS BIGINT) AS warning_findings,
    count(DISTINCT recording) AS recordings,
    string_agg(DISTINCT rule, ', ' ORDER BY rule) AS rules
FROM findings
WHERE blame = 'client' AND severity <> 'info'
GROUP BY client, client_version, server
ORDER BY error_findings DESC, warning_findings DESC, client, client_version, server;
