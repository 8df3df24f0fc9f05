package ducklake.spark;

import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A function of the lake for CALL. */
class LakeProcedure implements UnboundProcedure, BoundProcedure {
    final Lake lake;
    final Facts facts;
    LakeProcedure(Lake lake, Facts facts) { this.lake = lake; this.facts = facts; }
    public String name() { return this.facts.text("name"); }
    public String description() { return this.facts.text("description"); }
    public BoundProcedure bind(StructType types) { return this; }
    public boolean isDeterministic() { return false; }

    public ProcedureParameter[] parameters() {
        java.util.List given = this.facts.items("parameters");
        ProcedureParameter[] made = new ProcedureParameter[given.size()];
        for (int i = 0; i < made.length; i++) {
            java.util.List each = (java.util.List) given.get(i);
            ProcedureParameter.Builder one = ProcedureParameter.in(
                (String) each.get(0), DataType.fromDDL((String) each.get(1)));
            if (each.size() > 2) one = one.defaultValue((String) each.get(2));
            made[i] = one.build();
        }
        return made;
    }

    public Iterator call(InternalRow input) {
        ProcedureParameter[] given = parameters();
        Map values = new java.util.LinkedHashMap();
        for (int i = 0; i < given.length; i++)
            if (!input.isNullAt(i))
                values.put(given[i].name(), plain(input.get(i, given[i].dataType())));
        Object answer = this.lake.ask("call", Facts.of(new Object[] {"function", name(), "values", values}));
        org.apache.spark.sql.classic.Dataset rows = (org.apache.spark.sql.classic.Dataset) answer;
        return Collections.singletonList(
            (Object) new LakeRows(rows.schema(), rows.queryExecution().executedPlan().executeCollect())).iterator();
    }
    private static Object plain(Object value) {
        if (value instanceof org.apache.spark.sql.catalyst.util.ArrayData) {
            Object[] items = ((org.apache.spark.sql.catalyst.util.ArrayData) value).toObjectArray(
                org.apache.spark.sql.types.DataTypes.LongType);
            return java.util.Arrays.asList(items);
        }
        return value instanceof org.apache.spark.unsafe.types.UTF8String ? value.toString() : value;
    }
}

class LakeRows implements LocalScan {
    final StructType schema;
    final InternalRow[] rows;
    LakeRows(StructType schema, InternalRow[] rows) { this.schema = schema; this.rows = rows; }
    public StructType readSchema() { return this.schema; }
    public InternalRow[] rows() { return this.rows; }
}
