{{ config(materialized='table') }}

select customer.id, customer.name, customer.country, count(orders.id) as orders, sum(orders.amount) as amount
from {{ ref('raw_customers') }} customer
left join {{ ref('orders') }} on orders.customer_id = customer.id
group by all
