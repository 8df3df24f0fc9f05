-- One partition for each month; only those with new orders are written again.
{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by='month') }}

select trunc(ordered_at, 'MM') as month, count(*) as orders, sum(amount) as amount
from {{ ref('orders') }}
{% if is_incremental() %}
where ordered_at >= (select max(month) from {{ this }})
{% endif %}
group by 1
