-- How much was recorded, by server. Findings are what broke the protocol, whether or not a call failed.
SELECT
    server,
    count(*) AS recordings,
    count(*) FILTER (NOT complete) AS incomplete,
    CAST(sum(frames) AS BIGINT) AS frames,
    CAST(sum(errors) AS BIGINT) AS error_findings,
    CAST(sum(warnings) AS BIGINT) AS warning_findings,
    min(started) AS first,
    max(started) AS last
FROM recordings
GROUP BY server
ORDER BY error_findings DESC, warning_findings DESC, server;
