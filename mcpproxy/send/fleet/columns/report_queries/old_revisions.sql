-- Who still speaks 2024-11-05.
SELECT
    server,
    each.client AS client,
    each.client_version AS client_version,
    count(DISTINCT recording) AS recordings,
    max(started) AS last
FROM recordings, unnest(sessions) AS sessions_of(each)
WHERE each.revision = '2024-11-05'
GROUP BY ALL
ORDER BY recordings DESC, server, client, client_version;
