"""Expressions in DuckDB's dialect, by kind, whose answers depend on the engine; over the table that `TABLE` makes."""

TABLE = r"""
CREATE TABLE w (a INT, b BIGINT, f DOUBLE, r FLOAT, d DECIMAL(9,3), s VARCHAR, dt DATE, ts TIMESTAMP, tz TIMESTAMPTZ,
    l INT[], st STRUCT(x INT, y VARCHAR), m MAP(VARCHAR, INT), o BOOLEAN, si SMALLINT, h HUGEINT, ls VARCHAR[], bl BLOB);
INSERT INTO w VALUES
    (1, 10, 2.5, 2.5, 2.5, 'abc', '2024-02-29', '2024-02-29 13:14:15.678901', '2024-02-29 13:14:15+00', [3, 1, NULL, 2],
     {'x': 1, 'y': 'q'}, MAP {'k': 1, 'j': 2}, true, 5, 170000000000000000000, ['b', 'a', NULL], 'a\x00b'::BLOB),
    (2, -7, -3.5, 0.1, -1.005, 'Straße', '1999-12-31', '1969-12-31 23:59:59.5', '1969-12-31 23:59:59.5+00', [],
     {'x': NULL, 'y': 'it, {x}'}, MAP {'a b': 3}, false, -5, -1, [], ''::BLOB),
    (3, NULL, 'nan', 1e10, 0, '', '2021-01-03', '2021-01-03 00:00:00', '2021-01-03 00:00:00+00', NULL, NULL, NULL, NULL, 0,
     0, ['x, y', 'NULL', ' it'], NULL),
    (4, 9000000000, 1e20, 1e20, 999999.999, NULL, NULL, NULL, NULL, [5], {'x': 2, 'y': NULL}, MAP {'k': NULL}, true, NULL,
     NULL, NULL, NULL)
"""

ANSWERS: dict[str, tuple[str, ...]] = {
    "types": (
        "typeof(a), typeof(st), typeof(m), typeof(l), typeof(h), typeof(si), typeof(d), typeof(ts), typeof(tz), typeof(bl)",
        "typeof(a + 1), typeof(a / 2), typeof(a + d), typeof(NULL), typeof([]), typeof(sum(a) OVER ()), typeof(year(dt))",
        "typeof(list_transform(l, x -> x * 2.5)), typeof(INTERVAL 1 DAY), typeof(s || 'x'), typeof({'a b': [a]})",
    ),
    "casts": (
        "list_transform([2.5::DOUBLE, 3.5], x -> x::INT), list_transform(['2.5'], x -> x::INT), [z::INT FOR z IN [2.5]]",
        "list_transform([[1.5], [2.5]], x -> x[1]::INT), list_transform([[2.5]], x -> list_transform(x, y -> y::INT))",
        "list_transform(['ab'], x -> x[1]), list_filter(['ab', 'b'], x -> x[1] = 'a'), list_transform([MAP {0: 5}], x -> x[0])",
        "map_values(MAP {'a': 2.5})[1]::INT, least(3.5::DOUBLE, 9)::INT, sin(1)::INT, MAP {0: 'z'}[0], m['k'], l[NULL]",
        "TRY_CAST(2.5 AS UTINYINT), TRY_CAST(-2.5 AS UTINYINT), TRY_CAST(300 AS UTINYINT), 2.5::UTINYINT, '1.0' = 1, a = '1.4'",
        "ts::TIMESTAMP_S, ts::TIMESTAMP_MS, hex('a\\x00\\xAAb'::BLOB), 'a\\xAAb'::BLOB::VARCHAR, '\\xaa'::BLOB = '\\xAA'::BLOB",
    ),
    "texts of values": (
        "{'q': 'it''s'}::VARCHAR, l::VARCHAR, st::VARCHAR, m::VARCHAR, ls::VARCHAR, bl::VARCHAR, [ls]::VARCHAR, [tz]::VARCHAR, [ts]::VARCHAR",
        "{'a': ts, 'b': [f], 'c d''e': m, 'z': bl}::VARCHAR, MAP {'x y': ls, 'a,b': []}::VARCHAR, st || '', concat(s, st)",
        "'' || f, d || 'x', ts || '', o || '', tz || '', concat(f, d, ts, o), concat_ws('-', a, f, o, dt, l), concat(l, [9])",
    ),
    "letters": (
        "upper(s), lower(s), upper('ß'), upper(s || 'ŉﬁΐǆᾀ🤦'), lower(s || 'İΑΣ'), upper('ı'), lower('ẞ'), upper('a')",
        "chr(128512), unicode(''), ord('é'), ascii(''), reverse('🤦a'), url_encode('a b/c~*é'), url_decode('a%20b+c')",
        "substring(s, 2, -1), substring(s, 3, -2), substring(s, 0, 2), substring(s, a - 2, 2), substring(s, -5, 3), s[NULL]",
        "split_part('a,b', ',', 0), split_part('a,b', '', 1), split_part(s, 'b', a), regexp_replace('ab', 'a', '\\0\\0')",
        "regexp_replace(s, '(.)(.)', '\\2\\1'), regexp_replace(s, '(.)', '\\1\\1', 'g'), to_binary(5), bit_count(-1)",
    ),
    "formats": (
        "printf('%.2f', 0.125), printf('%.2f', 2.675), printf('%.0f', 0.5), printf('%.0f', 2.5), printf('%.1f', 0.35)",
        "printf('%5d|%-5d|%05d|%+d|%x|%X|%o', 42, 42, -42, 42, 255, -255, 8), printf('%s %10s|%-4s|%%', 'a', 'b', s)",
        "printf('%e', 12345.678), printf('%c', 65), printf('%,d', 1000000), printf('%08.2f', -1.5), printf('%d', NULL)",
        "printf('%.2f', 1e15 + 0.375), printf('%.6f', 123456789012.1), printf('%.1f', 4503599627370496.5), printf('%.2f', d)",
        "format('{:>5}|{:<5}|{:^5}|{:*^7}', 'a', 'b', 'c', s), format('{:x} {:b} {:,} {:+d}', -255, 5, 1234567, 5)",
        "format('{0} {1} {0} {{}}', a, d), format('{:.3}', 'abcdef'), format('{:,.2f}', 1234567.891), format('{}', f)",
    ),
    "numbers": (
        "7::DOUBLE % 0, fmod(-7.5, 2), fmod(7, 0), a % si, round(0.285::DOUBLE, 2), round(1.005::DOUBLE, 2), round(f, 1)",
        "ceil(f), floor(f), trunc(f), ceil(d), floor(d), trunc(d, 1), sign(f), trunc(-1.75, 1), round(r, 1), round(d, -1)",
    ),
    "lists": (
        "list_position(l, NULL), list_position(l, 2), list_contains(l, NULL), list_has_any(l, [NULL]), list_intersect(l, [1, NULL])",
        "l <@ [1, 2, 3], list_has_all([1], [NULL]), flatten([[1, 2], [3], NULL]), list_resize(l, 2), list_select(l, [1, -1, 9])",
        "list_where(l, [true, false, true, true]), list_concat(l, [9]), list_string_agg(ls), list_transform([7.5, 8], x -> x // 2)",
        "l[1:4:2], l[-1:1:-1], l[:-:-1], list_slice(l, 1, 3, 2), list_slice(l, NULL, 2), l[NULL:2], [1, 2, 3, 4, 5][5:2:-2]",
        "[NULL] < [1], st < {'x': 2, 'y': 'z'}, l < [4], struct_extract_at(st, 1), struct_keys(st)",
    ),
    "times": (
        "millisecond(ts), microsecond(ts), century(dt), decade(dt), isoyear(dt), era(dt), date_part('epoch', ts)",
        "date_part('dayofweek', ts), datepart('hour', ts), extract(epoch FROM dt), epoch_ms(ts), epoch_us(tz), isfinite(dt)",
        "date_trunc('decade', dt), date_trunc('century', ts), date_trunc('isoyear', dt), date_trunc('days', ts), date_trunc('day', tz)",
        "date_trunc('hour', ts), date_trunc('second', ts), date_trunc('millisecond', ts), date_trunc('quarter', dt)",
        "date_diff('decade', dt, DATE '2024-01-01'), date_diff('isoyear', dt, DATE '2024-01-01'), date_diff('week', dt, DATE '2024-01-01')",
        "date_diff('hours', ts, TIMESTAMP '2024-07-01'), date_diff('day', ts, tz), date_diff('month', dt, DATE '2024-01-01')",
        "date_sub('month', TIMESTAMP '2024-01-15 12:00:00', TIMESTAMP '2024-02-15 11:00:00'), date_sub('year', dt, DATE '2024-01-01')",
        "date_sub('month', DATE '2024-02-29', DATE '2024-01-31'), date_sub('decade', dt, DATE '2024-01-01'), date_sub('day', ts, now()) > 9",
        "strptime('70', '%y'), strptime('10:20', '%H:%M'), strptime('12/31/99', '%m/%d/%y'), strftime(ts, '%c'), strftime(ts, '%x %X')",
        "ts AT TIME ZONE 'America/New_York', tz AT TIME ZONE 'Asia/Tokyo', timezone('Asia/Tokyo', ts), epoch(ts), tz::VARCHAR",
        "date_trunc('minute', TIMESTAMP '2024-03-31 02:30:10'), epoch(TIMESTAMP '2024-03-31 02:30:00'), make_timestamp(1720000000123456)",
    ),
    "beyond Spark": (
        "printf('%g', d), printf('%.20f', r), (INTERVAL 1 DAY)::VARCHAR, to_months(a)::VARCHAR, strftime(ts, '%z'), hash(a)",
        "list_zip(l, ls)::VARCHAR, struct_insert(st, z := a), levenshtein(s, 'abd'), jaro_winkler_similarity(s, 'ab')",
        "age(ts)::VARCHAR IS NOT NULL, date_part(['year', 'month'], ts), to_json(st), ts::TIMESTAMP_NS::VARCHAR",
    ),
    "aggregates": (
        "max_by(s, a), arg_max(s, a, 2), arg_min(a, b, 2), arg_max_null(s, a), min_by(s, f), min(st), max(l), sum(o)",
        "median(d), median(dt), median(ts), quantile(b, 0.5), quantile_disc(s, 0.5), quantile_cont(ts, 0.25), quantile_cont(d, 0.3)",
        "any_value(b ORDER BY b), typeof(sum(a)), corr(a, a), kurtosis(si), sem(a), arbitrary(b) IS NULL",
    ),
}

ERRORS = (
    "ln(0 * a)",
    "sqrt(a - 100)",
    "log(a - 1)",
    "date_trunc('nonsense', ts)",
)
"""What has no answer, in DuckDB or here, is an error."""
