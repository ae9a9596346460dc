-- Tools whose definition has changed: each definition with its first and its last recording.
SELECT
    server,
    tool,
    left(sha256, 12) AS definition,
    min(time) AS first_seen,
    max(time) AS last_seen,
    count(DISTINCT recording) AS recordings,
    string_agg(DISTINCT server_version, ', ' ORDER BY server_version) AS server_versions
FROM tools
WHERE listed
GROUP BY server, tool, sha256
QUALIFY count(*) OVER (PARTITION BY server, tool) > 1
ORDER BY server, tool, first_seen, definition;
