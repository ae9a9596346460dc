-- How long the calls of each tool took, in milliseconds: 95 of 100 took no longer than p95_ms. A call without an
-- answer counts with the time that it waited; at_least names the numbers that are such a time, which an answer would
-- have exceeded. Such a time is odd in took, twice the time. Tables of earlier releases call unanswered no-answer.
WITH
    calls AS (
        SELECT *, 2 * coalesce(latency_ns, waited_ns) + (latency_ns IS NULL)::BIGINT AS took
        FROM frames
        WHERE kind = 'request' AND tool IS NOT NULL
    ),
    tools AS (
        SELECT
            server,
            tool,
            count(*) AS calls,
            count(*) FILTER (outcome IN ('tool-error', 'rpc-error', 'http-error')) AS failed,
            count(*) FILTER (outcome IN ('unanswered', 'no-answer')) AS unanswered,
            count(*) FILTER (outcome = 'cancelled') AS cancelled,
            count(*) FILTER (outcome = 'refused') AS refused,
            quantile_disc(took, 0.5) AS p50,
            quantile_disc(took, 0.95) AS p95
        FROM calls
        GROUP BY server, tool
    )
SELECT
    * EXCLUDE (p50, p95),
    round((p50 // 2) / 1e6, 3) AS p50_ms,
    round((p95 // 2) / 1e6, 3) AS p95_ms,
    list_concat(
        CASE WHEN p50 % 2 = 1 THEN ['p50_ms'] ELSE [] END, CASE WHEN p95 % 2 = 1 THEN ['p95_ms'] ELSE [] END
    ) AS at_least
FROM tools
ORDER BY p95 DESC NULLS LAST, server, tool;
