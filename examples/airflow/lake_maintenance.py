"""A DAG that keeps a lake small and fast: looks every hour, and does only what is worth it.

The location comes from Airflow's variable `lake`, such as "ducklake:postgres:dbname=shop host=db". Without Airflow's
scheduler: `airflow dags test lake_maintenance`.
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import Variable, dag, task


@dag(schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def lake_maintenance() -> None:
    """One run at a time: two at once would be safe, and a waste."""

    @task(retries=2)
    def maintain() -> list[str]:
        """Does what is worth it. A retry is safe: what a killed run finished is done, the rest is planned anew."""
        import ducklake_spark

        with ducklake_spark.attach(Variable.get("lake"), create_if_not_exists=False) as lake:
            return [f"{row.job} {row.table_name or ''}: {row.reason}" for row in lake.maintain().collect()]

    maintain()


lake_maintenance()
