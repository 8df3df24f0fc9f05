-- Each order once: new and changed ones are merged.
{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key='id',
    on_schema_change='append_new_columns',
    partition_by='months(ordered_at)',
    tblproperties={'parquet_compression': 'zstd'},
) }}

select id, customer_id, ordered_at, cast(amount as decimal(10, 2)) as amount, status
from {{ ref('raw_orders') }}
{% if is_incremental() %}
where ordered_at >= (select max(ordered_at) - interval 30 days from {{ this }})
{% endif %}
