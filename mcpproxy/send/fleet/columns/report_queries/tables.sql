-- The tables that mcpproxy export parquet wrote, seen from the folder that they are in.
CREATE VIEW recordings AS FROM read_parquet('recordings/**/*.parquet', union_by_name = true, hive_types = {'date': DATE, 'server': VARCHAR});
CREATE VIEW frames AS
    FROM read_parquet('frames/**/*.parquet', union_by_name = true, hive_types = {'date': DATE, 'server': VARCHAR})
    UNION ALL BY NAME SELECT NULL::BIGINT AS waited_ns WHERE false -- tables of earlier releases lack it
;
CREATE VIEW findings AS FROM read_parquet('findings/**/*.parquet', union_by_name = true, hive_types = {'date': DATE, 'server': VARCHAR});
CREATE VIEW tools AS FROM read_parquet('tools/**/*.parquet', union_by_name = true, hive_types = {'date': DATE, 'server': VARCHAR});
-- Only if a model's interface was recorded, there are also requests to it: FROM read_parquet('turns/**/*.parquet')
