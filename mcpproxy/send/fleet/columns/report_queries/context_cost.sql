-- What the definitions of a server's tools cost a model, in estimated tokens: in the last recording of each server
-- that lists tools, with how many of these tools no recording calls.
WITH last_listing AS (
    SELECT server, arg_max(recording, (time, recording)) AS recording
    FROM tools WHERE listed GROUP BY server
),
used AS (
    SELECT DISTINCT server, tool FROM tools WHERE calls > 0
)
SELECT
    server,
    count(*) AS tools,
    CAST(sum(tokens) AS BIGINT) AS tokens,
    count(*) FILTER (used.tool IS NULL) AS never_called,
    CAST(coalesce(sum(tokens) FILTER (used.tool IS NULL), 0) AS BIGINT) AS tokens_never_called
FROM tools
JOIN last_listing USING (server, recording)
LEFT JOIN used USING (server, tool)
WHERE listed
GROUP BY server
ORDER BY tokens DESC, server;
