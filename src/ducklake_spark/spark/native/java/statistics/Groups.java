package ducklake.statistics;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.types.UTF8String;

/** How many rows each partition has, where the files of the catalog say so: groups by columns that are partition keys. */
class Groups {
    /** The counts as rows; null where a scan must count. Asked are the aggregates of the plan. */
    static LogicalPlan answered(Aggregate plan, List asked) {
        List keys = new ArrayList();
        for (int i = 0; i < plan.groupingExpressions().size(); i++) {
            if (!(plan.groupingExpressions().apply(i) instanceof Attribute)) return null;
            keys.add(plan.groupingExpressions().apply(i));
        }
        Map literals = new java.util.HashMap();
        Attribute number = new AttributeReference("count", DataTypes.LongType, false, Metadata.empty(),
            NamedExpression$.MODULE$.newExprId(), Aggregates.list(new ArrayList()));
        for (int i = 0; i < asked.size(); i++) {
            AggregateExpression each = (AggregateExpression) asked.get(i);
            // Of rows, not of values.
            if (!(each.aggregateFunction() instanceof Count) || Aggregates.column(each) != null) return null;
            literals.put(each.resultId(), number);
        }
        for (int i = 0; i < plan.aggregateExpressions().size(); i++)
            if (!isOf((Expression) plan.aggregateExpressions().apply(i), keys)) return null;
        List leaves = new ArrayList();
        if (!Aggregates.leaves(plan.child(), keys, leaves)) return null;
        Map counts = new LinkedHashMap();
        for (int i = 0; i < leaves.size(); i++)
            if (!((Leaf) leaves.get(i)).addGroups(counts)) return null;
        List rows = new ArrayList();
        java.util.Iterator each = counts.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry group = (Map.Entry) each.next();
            List values = new ArrayList((List) group.getKey());
            values.add(group.getValue());
            rows.add(new GenericInternalRow(values.toArray()));
        }
        List output = new ArrayList(keys);
        output.add(number);
        List columns = new ArrayList();
        for (int i = 0; i < plan.aggregateExpressions().size(); i++)
            columns.add(((Expression) plan.aggregateExpressions().apply(i)).transformDown(new Values(literals)));
        return new Project(Aggregates.list(columns), Aggregates.local(Aggregates.list(output), Aggregates.list(rows)));
    }

    /** Whether an expression is made of aggregates and of these columns alone. */
    private static boolean isOf(Expression each, List keys) {
        if (each instanceof AggregateExpression) return true;
        if (each instanceof Attribute) {
            for (int i = 0; i < keys.size(); i++)
                if (((Attribute) keys.get(i)).exprId().equals(((Attribute) each).exprId())) return true;
            return false;
        }
        for (int i = 0; i < each.children().size(); i++)
            if (!isOf((Expression) each.children().apply(i), keys)) return false;
        return true;
    }

    static void add(Map counts, List values, long more) {
        Long known = (Long) counts.get(values);
        counts.put(values, Long.valueOf((known == null ? 0L : known.longValue()) + more));
    }
    static Object value(Object given, DataType type) {
        return given == null ? null : type instanceof StringType ? (Object) UTF8String.fromString((String) given)
            : LakeStatistics.known(given, type);
    }
}
