package ducklake;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.analysis.DeduplicateRelations$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.PrunedScan;
import org.apache.spark.sql.types.StructType;

/** A table as `spark.read` gives it: a name for the plan that the lake has for it. */
class LakeRelation extends BaseRelation implements PrunedScan {
    final SQLContext context;
    final org.apache.spark.sql.classic.Dataset rows;

    LakeRelation(SQLContext context, Dataset rows) {
        this.context = context;
        this.rows = (org.apache.spark.sql.classic.Dataset) rows;
    }

    public SQLContext sqlContext() { return this.context; }
    public StructType schema() { return this.rows.queryExecution().analyzed().schema(); }
    public long sizeInBytes() {
        return this.rows.queryExecution().optimizedPlan().stats().sizeInBytes().toLong();
    }

    /** For a session whose optimizer the rule below did not reach: all rows of some columns. */
    public boolean needConversion() { return false; }
    public org.apache.spark.rdd.RDD buildScan(String[] columns) {
        String[] names = new String[columns.length];
        for (int i = 0; i < names.length; i++) names[i] = "`" + columns[i].replace("`", "``") + "`";
        Dataset chosen = this.rows.selectExpr(names);
        return ((org.apache.spark.sql.classic.Dataset) chosen).queryExecution().toRdd();
    }

    /** The lake's plan with new ids, under the ids by which a query knows the columns. */
    LogicalPlan plan(scala.collection.immutable.Seq output, org.apache.spark.sql.classic.SparkSession session) {
        LogicalPlan plan = this.rows.queryExecution().analyzed();
        LogicalPlan join = new Join(plan, plan, org.apache.spark.sql.catalyst.plans.Inner$.MODULE$,
            scala.Option.empty(), JoinHint$.MODULE$.NONE());
        plan = ((Join) DeduplicateRelations$.MODULE$.apply(join)).right();
        // What the optimizer did to all other plans before it came to the rule.
        plan = (LogicalPlan) session.sessionState().optimizer().FinishAnalysis().apply(plan);
        java.util.List columns = new java.util.ArrayList();
        for (int i = 0; i < output.size(); i++) {
            AttributeReference as = (AttributeReference) output.apply(i);
            columns.add(new Alias((Expression) plan.output().apply(i), as.name(), as.exprId(), as.qualifier(),
                scala.Option.apply(as.metadata()), scala.collection.immutable.Nil$.MODULE$));
        }
        return new Project(scala.jdk.javaapi.CollectionConverters.asScala(columns).toList(), plan);
    }
}

/** Puts the lake's own plan, with its file lists and pruning, where a query has a relation of this format. */
class FormatRule extends Rule {
    final Replace replace;
    FormatRule(org.apache.spark.sql.classic.SparkSession session) { this.replace = new Replace(session); }
    public String ruleName() { return "ducklake.FormatRule"; }
    public TreeNode apply(TreeNode plan) { return ((LogicalPlan) plan).transformDown(this.replace); }
}

class Replace extends scala.runtime.AbstractPartialFunction {
    final org.apache.spark.sql.classic.SparkSession session;
    Replace(org.apache.spark.sql.classic.SparkSession session) { this.session = session; }
    public boolean isDefinedAt(Object plan) {
        return plan instanceof LogicalRelation && ((LogicalRelation) plan).relation() instanceof LakeRelation;
    }
    public Object applyOrElse(Object plan, scala.Function1 otherwise) {
        if (!isDefinedAt(plan)) return otherwise.apply(plan);
        LogicalRelation found = (LogicalRelation) plan;
        return ((LakeRelation) found.relation()).plan(found.output(), this.session);
    }
}

class FormatRuleOf extends scala.runtime.AbstractFunction1 {
    public Object apply(Object session) {
        return new FormatRule((org.apache.spark.sql.classic.SparkSession) session);
    }
    /** Whether a session's extensions have it; the list of rules is private, under a name that Scala makes longer. */
    static boolean isIn(Object extensions) throws Exception {
        java.lang.reflect.Field[] all = extensions.getClass().getDeclaredFields();
        for (int i = 0; i < all.length; i++) {
            String name = all[i].getName();
            if (!name.equals("optimizerRules") && !name.endsWith("$$optimizerRules")) continue;
            all[i].setAccessible(true);
            scala.collection.mutable.Buffer rules = (scala.collection.mutable.Buffer) all[i].get(extensions);
            for (int j = 0; j < rules.size(); j++) if (rules.apply(j) instanceof FormatRuleOf) return true;
            return false;
        }
        return false;
    }
}
