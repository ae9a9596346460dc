-- Clients that break the protocol, with the servers at which they do.
SELECT
    client,
    client_version,
    server,
    CAST(coalesce(sum("count") FILTER (severity = 'error'), 0) AS BIGINT) AS errors,
    CAST(coalesce(sum("count") FILTER (severity = 'warning'), 0) AS BIGINT) AS warnings,
    count(DISTINCT recording) AS recordings,
    string_agg(DISTINCT rule, ', ' ORDER BY rule) AS rules
FROM findings
WHERE blame = 'client' AND severity <> 'info'
GROUP BY client, client_version, server
ORDER BY errors DESC, warnings DESC, client, client_version, server;
