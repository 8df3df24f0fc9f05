ATTACH 'ducklake:{D}/lake.db' AS ducklake (DATA_PATH '{D}/files');
USE ducklake;
CREATE TABLE t AS SELECT i FROM range(4) r(i);
CREATE VIEW tt AS SELECT count(*) AS n FROM t AT (VERSION => 1);
SELECT view_name, sql FROM duckdb_views() WHERE NOT internal ORDER BY 1;
