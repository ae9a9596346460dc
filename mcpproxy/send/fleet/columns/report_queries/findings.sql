-- Findings for each rule, server and week. A week has the date of its Monday.
SELECT
    CAST(date_trunc('week', date) AS DATE) AS week,
    server,
    rule,
    severity,
    CAST(sum("count") AS BIGINT) AS findings,
    count(DISTINCT recording) AS recordings
FROM findings
GROUP BY ALL
ORDER BY week DESC, findings DESC, server, rule, severity;
