-- How much was recorded, by server.
SELECT
    server,
    count(*) AS recordings,
    count(*) FILTER (NOT complete) AS incomplete,
    CAST(sum(frames) AS BIGINT) AS frames,
    CAST(sum(errors) AS BIGINT) AS errors,
    CAST(sum(warnings) AS BIGINT) AS warnings,
    min(started) AS first,
    max(started) AS last
FROM recordings
GROUP BY server
ORDER BY errors DESC, warnings DESC, server;
