{# A lake has MERGE, atomic replacement and NOT NULL. dbt-spark knows formats with these by name; there they are "delta". #}

{% macro file_format_clause() %}
  using ducklake
{%- endmacro %}

{% macro spark__list_relations_without_caching(relation) %}
  {% call statement('all', fetch_result=True) %} show tables in {{ relation.schema }} {% endcall %}
  {% call statement('views', fetch_result=True) %} show views in {{ relation.schema }} {% endcall %}
  {% set views = load_result('views').table.columns['viewName'].values() %}
  {% set found = [] %}
  {% for row in load_result('all').table %}
    {% set name = row['tableName'] %}
    {% do found.append((relation.schema, name, false, 'Type: VIEW' if name in views else 'Provider: delta')) %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}

{# A lake knows its partition keys, which may be transforms such as months(day). #}
{% macro get_insert_overwrite_sql(source_relation, target_relation, existing_relation) %}
  insert overwrite {{ target_relation }} by name select * from {{ source_relation }}
{% endmacro %}
