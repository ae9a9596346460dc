-- How long the calls of each tool took, in milliseconds. 95 of 100 answers took no longer than p95_ms.
SELECT
    server,
    tool,
    count(*) AS calls,
    count(*) FILTER (outcome NOT IN ('ok', 'input-required')) AS not_ok,
    round(quantile_disc(latency_ns, 0.5) / 1e6, 3) AS p50_ms,
    round(quantile_disc(latency_ns, 0.95) / 1e6, 3) AS p95_ms
FROM frames
WHERE kind = 'request' AND tool IS NOT NULL
GROUP BY server, tool
ORDER BY p95_ms DESC NULLS LAST, server, tool;
