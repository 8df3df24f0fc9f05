package ducklake.spark;

import java.util.ArrayList;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/** An analyzed statement as plain values; its expressions and its source go along as objects, by their place. */
class Commands {
    private final java.util.List objects;
    private final AttributeSet target;
    private AttributeSet source;

    private Commands(LogicalPlan target, java.util.List objects) {
        this.target = target.outputSet();
        this.objects = objects;
    }

    static Map described(LakeTable table, java.util.List objects) {
        LogicalPlan plan = table.command;
        LogicalPlan target = (LogicalPlan) ((scala.Product) plan).productElement(0);
        Commands made = new Commands(target, objects);
        Map facts = Facts.of(new Object[] {"kind", plan.getClass().getSimpleName()});
        facts.put("relation", made.place(Plans.relation(target)));
        if (plan instanceof DeleteFromTable) facts.put("condition", made.column(((DeleteFromTable) plan).condition()));
        if (plan instanceof OverwriteByExpression)
            facts.put("condition", made.column(((OverwriteByExpression) plan).deleteExpr()));
        if (plan instanceof UpdateTable) {
            facts.put("condition", made.column(((UpdateTable) plan).condition()));
            facts.put("values", made.values(((UpdateTable) plan).assignments()));
        }
        if (plan instanceof MergeIntoTable) {
            MergeIntoTable merge = (MergeIntoTable) plan;
            made.source = merge.sourceTable().outputSet();
            facts.put("source", made.place(merge.sourceTable()));
            facts.put("condition", made.column(merge.mergeCondition()));
            java.util.List clauses = new ArrayList();
            made.clauses("matched", merge.matchedActions(), clauses);
            made.clauses("not matched", merge.notMatchedActions(), clauses);
            made.clauses("not matched by source", merge.notMatchedBySourceActions(), clauses);
            facts.put("clauses", clauses);
        }
        return facts;
    }
    private Integer place(Object object) {
        this.objects.add(object);
        return Integer.valueOf(this.objects.size() - 1);
    }
    /** The place of an expression; none for a condition that is always true. */
    private Integer column(Object expression) {
        if (expression instanceof scala.Option) {
            if (((scala.Option) expression).isEmpty()) return null;
            expression = ((scala.Option) expression).get();
        }
        if (expression.toString().equals("true")) return null;
        Object named = ((Expression) expression).transformDown(new Sides(this.target, this.source));
        return place(named);
    }
    private java.util.List values(scala.collection.immutable.Seq assignments) {
        java.util.List made = new ArrayList();
        for (int i = 0; i < assignments.size(); i++) {
            Assignment each = (Assignment) assignments.apply(i);
            java.util.List path = new ArrayList();
            addPath(each.key(), path);
            made.add(new Object[] {path, place(each.value().transformDown(new Sides(this.target, this.source)))});
        }
        return made;
    }
    private static void addPath(Expression key, java.util.List path) {
        if (key instanceof GetStructField) {
            addPath(((GetStructField) key).child(), path);
            path.add(((GetStructField) key).extractFieldName());
        } else path.add(((AttributeReference) key).name());
    }
    private void clauses(String kind, scala.collection.immutable.Seq actions, java.util.List clauses) {
        for (int i = 0; i < actions.size(); i++) {
            MergeAction each = (MergeAction) actions.apply(i);
            Map facts = Facts.of(new Object[] {"kind", kind, "action", each.getClass().getSimpleName()});
            facts.put("condition", column(each.condition()));
            Object assignments = Changes.asked(each, "assignments");
            if (assignments != null) facts.put("values", values((scala.collection.immutable.Seq) assignments));
            clauses.add(facts);
        }
    }
}
