-- How long the answers of each tool took, in milliseconds: 95 of 100 took no longer than p95_ms. A call without an
-- answer has no latency, so it is counted beside. Tables of earlier releases call it no-answer.
SELECT
    server,
    tool,
    count(*) AS calls,
    count(*) FILTER (outcome IN ('tool-error', 'rpc-error', 'http-error')) AS failed,
    count(*) FILTER (outcome IN ('unanswered', 'no-answer')) AS unanswered,
    count(*) FILTER (outcome = 'cancelled') AS cancelled,
    count(*) FILTER (outcome = 'refused') AS refused,
    round(quantile_disc(latency_ns, 0.5) / 1e6, 3) AS p50_ms,
    round(quantile_disc(latency_ns, 0.95) / 1e6, 3) AS p95_ms
FROM frames
WHERE kind = 'request' AND tool IS NOT NULL
GROUP BY server, tool
ORDER BY p95_ms DESC NULLS LAST, server, tool;
