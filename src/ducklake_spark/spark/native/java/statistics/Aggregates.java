package ducklake.statistics;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;

/** Counts, least and greatest values of whole tables, where the catalog says exactly what a scan would find. */
public class Aggregates extends scala.runtime.AbstractPartialFunction {
    public static final Aggregates RULE = new Aggregates();

    public static LogicalPlan in(LogicalPlan plan) { return (LogicalPlan) plan.transformDown(RULE); }

    public boolean isDefinedAt(Object plan) { return plan instanceof Aggregate; }
    public Object applyOrElse(Object plan, scala.Function1 otherwise) {
        if (!isDefinedAt(plan)) return otherwise.apply(plan);
        LogicalPlan made = answered((Aggregate) plan);
        return made == null ? plan : made;
    }

    private static LogicalPlan answered(Aggregate plan) {
        boolean isGrouped = !plan.groupingExpressions().isEmpty();
        if (plan.aggregateExpressions().isEmpty()) return null;
        List asked = new ArrayList();
        for (int i = 0; i < plan.aggregateExpressions().size(); i++)
            if (!find((Expression) plan.aggregateExpressions().apply(i), asked, isGrouped)) return null;
        if (isGrouped) return Groups.answered(plan, asked);
        List wanted = new ArrayList();
        for (int i = 0; i < asked.size(); i++) wanted.add(column((AggregateExpression) asked.get(i)));
        List leaves = new ArrayList();
        if (asked.isEmpty() || !leaves(plan.child(), wanted, leaves)) return null;
        Object[] values = new Object[asked.size()];
        for (int i = 0; i < leaves.size(); i++)
            if (!((Leaf) leaves.get(i)).add(asked, values)) return null;
        Map literals = new HashMap();
        for (int i = 0; i < values.length; i++) {
            AggregateFunction function = ((AggregateExpression) asked.get(i)).aggregateFunction();
            Object value = values[i] == null && function instanceof Count ? Long.valueOf(0) : values[i];
            literals.put(((AggregateExpression) asked.get(i)).resultId(), new Literal(value, function.dataType()));
        }
        List columns = new ArrayList();
        for (int i = 0; i < plan.aggregateExpressions().size(); i++)
            columns.add(((Expression) plan.aggregateExpressions().apply(i)).transformDown(new Values(literals)));
        List row = new ArrayList();
        row.add(LakeFiles.NO_VALUES);
        return new Project(list(columns), local(list(new ArrayList()), list(row)));
    }

    /** A relation of rows that are here; its constructor changes from version to version. */
    static LogicalPlan local(Object output, Object rows) {
        try {
            java.lang.reflect.Constructor made = LocalRelation.class.getConstructors()[0];
            Object[] values = new Object[made.getParameterTypes().length];
            for (int i = 0; i < values.length; i++)
                values[i] = i == 0 ? output : i == 1 ? rows : i == 2 ? (Object) Boolean.FALSE : scala.Option.empty();
            return (LogicalPlan) made.newInstance(values);
        } catch (Exception e) { throw new RuntimeException(e); }
    }

    /** Adds the aggregates of an expression; false if one of them is no count, least or greatest of a column. */
    private static boolean find(Expression each, List asked, boolean isGrouped) {
        if (each instanceof AggregateExpression) {
            AggregateExpression found = (AggregateExpression) each;
            if (found.isDistinct() || found.filter().isDefined() || !isKnown(found.aggregateFunction())) return false;
            asked.add(found);
            return true;
        }
        if (each instanceof Attribute && isGrouped) return true;
        if (each instanceof Attribute || !each.deterministic()) return false;
        for (int i = 0; i < each.children().size(); i++)
            if (!find((Expression) each.children().apply(i), asked, isGrouped)) return false;
        return true;
    }
    private static boolean isKnown(AggregateFunction function) {
        if (!(function instanceof Count || function instanceof Min || function instanceof Max)) return false;
        if (function.children().size() != 1) return false;
        Expression of = (Expression) function.children().apply(0);
        return of instanceof Attribute
            || (function instanceof Count && of instanceof Literal && ((Literal) of).value() != null);
    }
    /** The column of an aggregate, or null for a count of rows. */
    static Attribute column(AggregateExpression of) {
        Object child = of.aggregateFunction().children().apply(0);
        return child instanceof Attribute ? (Attribute) child : null;
    }

    /** Where the rows come from, with the columns under the names that they have there; false if rows may be left out. */
    static boolean leaves(LogicalPlan plan, List wanted, List found) {
        if (plan instanceof Project) {
            List inside = new ArrayList();
            for (int i = 0; i < wanted.size(); i++) {
                Attribute column = (Attribute) wanted.get(i);
                Attribute under = column == null ? null : under(((Project) plan).projectList(), column);
                if (column != null && under == null) return false;
                inside.add(under);
            }
            return leaves(((Project) plan).child(), inside, found);
        }
        if (plan instanceof Union) {
            for (int i = 0; i < plan.children().size(); i++) {
                LogicalPlan part = (LogicalPlan) plan.children().apply(i);
                List inside = new ArrayList();
                for (int j = 0; j < wanted.size(); j++) {
                    int place = wanted.get(j) == null ? -1 : place(plan.output(), (Attribute) wanted.get(j));
                    if (wanted.get(j) != null && place < 0) return false;
                    inside.add(place < 0 ? null : part.output().apply(place));
                }
                if (!leaves(part, inside, found)) return false;
            }
            return true;
        }
        if (plan instanceof LocalRelation && !plan.isStreaming()) {
            found.add(new ListLeaf((LocalRelation) plan, wanted));
            return true;
        }
        LakeFiles index = files(plan);
        if (index == null) return false;
        for (int i = 0; i < wanted.size(); i++)
            if (wanted.get(i) != null && place(plan.output(), (Attribute) wanted.get(i)) < 0) return false;
        found.add(new FilesLeaf(index, wanted));
        return true;
    }
    /** The files of a relation of which the catalog has statistics, or null. */
    static LakeFiles files(LogicalPlan plan) {
        if (!(plan instanceof LogicalRelation) || !(((LogicalRelation) plan).relation() instanceof HadoopFsRelation)) return null;
        Object index = ((HadoopFsRelation) ((LogicalRelation) plan).relation()).location();
        return index instanceof LakeFiles && ((LakeFiles) index).isCounted ? (LakeFiles) index : null;
    }
    private static Attribute under(scala.collection.immutable.Seq columns, Attribute column) {
        for (int i = 0; i < columns.size(); i++) {
            NamedExpression each = (NamedExpression) columns.apply(i);
            if (!each.exprId().equals(column.exprId())) continue;
            Object made = each instanceof Alias ? ((Alias) each).child() : (Object) each;
            return made instanceof Attribute ? (Attribute) made : null;
        }
        return null;
    }
    static int place(scala.collection.immutable.Seq output, Attribute column) {
        for (int i = 0; i < output.size(); i++)
            if (((NamedExpression) output.apply(i)).exprId().equals(column.exprId())) return i;
        return -1;
    }
    static scala.collection.immutable.Seq list(List items) {
        return scala.jdk.javaapi.CollectionConverters.asScala(items).toList();
    }
}

/** Rows of one place, which add to the values of aggregates. */
abstract class Leaf {
    final List wanted;
    Leaf(List wanted) { this.wanted = wanted; }
    abstract boolean add(List asked, Object[] values);
    /** Adds how many rows there are of each combination of values; false if that is not known. */
    abstract boolean addGroups(Map counts);

    static void count(Object[] values, int i, long more) {
        values[i] = Long.valueOf((values[i] == null ? 0L : ((Long) values[i]).longValue()) + more);
    }
    static void compare(Object[] values, int i, Object value, AggregateExpression of) {
        if (value == null) return;
        if (values[i] == null) { values[i] = value; return; }
        DataType type = of.aggregateFunction().dataType();
        scala.math.Ordering order = org.apache.spark.sql.catalyst.util.TypeUtils$.MODULE$.getInterpretedOrdering(type);
        int sign = order.compare(value, values[i]);
        if (of.aggregateFunction() instanceof Min ? sign < 0 : sign > 0) values[i] = value;
    }
}

/** Rows that are here. */
class ListLeaf extends Leaf {
    private final LocalRelation rows;
    ListLeaf(LocalRelation rows, List wanted) { super(wanted); this.rows = rows; }
    boolean addGroups(Map counts) {
        int[] places = new int[this.wanted.size()];
        for (int i = 0; i < places.length; i++) {
            places[i] = Aggregates.place(this.rows.output(), (Attribute) this.wanted.get(i));
            if (places[i] < 0) return false;
        }
        scala.collection.Iterator each = this.rows.data().iterator();
        while (each.hasNext()) {
            InternalRow row = (InternalRow) each.next();
            List values = new ArrayList();
            for (int i = 0; i < places.length; i++) {
                DataType type = ((Attribute) this.wanted.get(i)).dataType();
                Object value = row.isNullAt(places[i]) ? null : row.get(places[i], type);
                values.add(value instanceof org.apache.spark.unsafe.types.UTF8String
                    ? ((org.apache.spark.unsafe.types.UTF8String) value).copy() : value);
            }
            Groups.add(counts, values, 1);
        }
        return true;
    }
    boolean add(List asked, Object[] values) {
        for (int i = 0; i < values.length; i++) {
            AggregateExpression of = (AggregateExpression) asked.get(i);
            Attribute column = (Attribute) this.wanted.get(i);
            int place = column == null ? -1 : Aggregates.place(this.rows.output(), column);
            if (column != null && place < 0) return false;
            scala.collection.Iterator each = this.rows.data().iterator();
            while (each.hasNext()) {
                InternalRow row = (InternalRow) each.next();
                if (of.aggregateFunction() instanceof Count) count(values, i, place < 0 || !row.isNullAt(place) ? 1 : 0);
                else if (!row.isNullAt(place)) compare(values, i, row.get(place, column.dataType()), of);
            }
        }
        return true;
    }
}

/** Rows of files. */
class FilesLeaf extends Leaf {
    final LakeFiles files;
    FilesLeaf(LakeFiles files, List wanted) { super(wanted); this.files = files; }
    /** A value up to which, or from which on, so many rows are for sure; null if nobody knows one. */
    Object bound(int count, boolean isAscending, DataType type) {
        Object[] question = new Object[] {((Attribute) this.wanted.get(0)).name(), Integer.valueOf(count), Boolean.valueOf(isAscending)};
        Object found = this.files.known("bound", java.util.Arrays.asList(question));
        return found == null ? null : LakeStatistics.known(found, type);
    }
    boolean addGroups(Map counts) {
        List names = new ArrayList();
        for (int i = 0; i < this.wanted.size(); i++) names.add(((Attribute) this.wanted.get(i)).name());
        List known = (List) this.files.known("counts", names);
        if (known == null) return false;
        for (int i = 0; i < known.size(); i++) {
            List given = (List) known.get(i);
            List values = new ArrayList();
            for (int j = 0; j < names.size(); j++)
                values.add(Groups.value(given.get(j), ((Attribute) this.wanted.get(j)).dataType()));
            Groups.add(counts, values, ((Number) given.get(names.size())).longValue());
        }
        return true;
    }
    boolean add(List asked, Object[] values) {
        java.util.TreeSet names = new java.util.TreeSet();
        for (int i = 0; i < this.wanted.size(); i++)
            if (this.wanted.get(i) != null) names.add(((Attribute) this.wanted.get(i)).name());
        Map known = (Map) this.files.known("exact", new ArrayList(names));
        if (known.get("rows") == null) return false;
        long rows = ((Number) known.get("rows")).longValue();
        Map columns = (Map) known.get("columns");
        for (int i = 0; i < values.length; i++) {
            AggregateExpression of = (AggregateExpression) asked.get(i);
            Attribute column = (Attribute) this.wanted.get(i);
            if (column == null) { count(values, i, rows); continue; }
            List found = (List) columns.get(column.name());
            if (found == null) return false;
            long nulls = ((Number) found.get(2)).longValue();
            if (of.aggregateFunction() instanceof Count) { count(values, i, rows - nulls); continue; }
            Object value = found.get(of.aggregateFunction() instanceof Min ? 0 : 1);
            // NULL where the bounds are not known is none of a column without values.
            if (value == null && nulls != rows) return false;
            compare(values, i, value == null ? null : LakeStatistics.known(value, column.dataType()), of);
        }
        return true;
    }
}

/** Aggregates as their values. */
class Values extends scala.runtime.AbstractPartialFunction {
    private final Map values;
    Values(Map values) { this.values = values; }
    public boolean isDefinedAt(Object each) { return each instanceof AggregateExpression; }
    public Object applyOrElse(Object each, scala.Function1 otherwise) {
        return isDefinedAt(each) ? this.values.get(((AggregateExpression) each).resultId()) : otherwise.apply(each);
    }
}
