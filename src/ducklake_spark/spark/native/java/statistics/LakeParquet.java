package ducklake.statistics;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Spark's Parquet format, less the deleted rows of files. Those that are deleted in a file come along with it as bits: a
 * plan has no step for them, batches stay batches, and a batch in which nothing is deleted is handed on as it is.
 */
public class LakeParquet extends ParquetFileFormat {
    /** Under which name of its constant metadata a file has its bits. */
    static final String DELETED = "ducklake_deleted";

    /** Not known beforehand: those of a batch with deleted rows are others. */
    public scala.Option vectorTypes(StructType required, StructType partition, SQLConf conf) { return scala.Option.empty(); }

    public scala.Function1 buildReaderWithPartitionValues(org.apache.spark.sql.SparkSession session, StructType data,
            StructType partition, StructType required, scala.collection.immutable.Seq filters,
            scala.collection.immutable.Map options, Configuration conf) {
        String name = ParquetFileFormat$.MODULE$.ROW_INDEX_TEMPORARY_COLUMN_NAME();
        int place = 0;
        while (place < required.length() && !required.fields()[place].name().equals(name)) place++;
        boolean isAdded = place == required.length();
        StructType asked = isAdded ? required.add(name, DataTypes.LongType, true) : required;
        return new KeptReader(super.buildReaderWithPartitionValues(session, data, partition, asked, filters, options, conf),
            place, isAdded, required);
    }
}

/** Reads a file, less its deleted rows. */
class KeptReader extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
    private final scala.Function1 reader;
    private final int place;
    private final boolean isAdded;
    private final StructType schema;
    /** Place is where rows have their position in the file; an added one is taken away again. */
    KeptReader(scala.Function1 reader, int place, boolean isAdded, StructType schema) {
        this.reader = reader;
        this.place = place;
        this.isAdded = isAdded;
        this.schema = schema;
    }
    public Object apply(Object file) {
        scala.Option found = ((PartitionedFile) file).otherConstantMetadataColumnValues().get(LakeParquet.DELETED);
        return new KeptRows((scala.collection.Iterator) this.reader.apply(file),
            found.isEmpty() ? null : (long[]) found.get(), this.place, this.isAdded, this.schema);
    }
}

/** Rows or batches of a file, as its reader gives them. */
class KeptRows extends scala.collection.AbstractIterator implements java.io.Closeable {
    private final scala.collection.Iterator rows;
    private final long[] deleted;
    private final int place;
    private final boolean isAdded;
    private final StructType schema;
    private Object next;
    private UnsafeProjection projection;
    /** The batch that the reader fills again and again, its columns as they are, and the same less deleted rows. */
    private ColumnarBatch source;
    private ColumnarBatch whole;
    private ColumnarBatch some;
    private Kept kept;

    KeptRows(scala.collection.Iterator rows, long[] deleted, int place, boolean isAdded, StructType schema) {
        this.rows = rows;
        this.deleted = deleted;
        this.place = place;
        this.isAdded = isAdded;
        this.schema = schema;
    }
    public boolean hasNext() {
        while (this.next == null && this.rows.hasNext()) {
            Object found = this.rows.next();
            this.next = found instanceof ColumnarBatch ? (Object) batch((ColumnarBatch) found) : (Object) row((InternalRow) found);
        }
        return this.next != null;
    }
    public Object next() {
        if (!hasNext()) throw new java.util.NoSuchElementException();
        Object found = this.next;
        this.next = null;
        return found;
    }
    public void close() throws java.io.IOException {
        if (this.rows instanceof java.io.Closeable) ((java.io.Closeable) this.rows).close();
    }

    private InternalRow row(InternalRow found) {
        if (this.deleted != null && isDeleted(found.getLong(this.place))) return null;
        if (!this.isAdded) return found;
        if (this.projection == null) this.projection = UnsafeProjection$.MODULE$.create(this.schema);
        return this.projection.apply(found);
    }
    private boolean isDeleted(long position) {
        int word = (int) (position >> 6);
        return word < this.deleted.length && (this.deleted[word] >>> position & 1L) != 0;
    }

    private ColumnarBatch batch(ColumnarBatch found) {
        if (found != this.source) begin(found);
        int count = found.numRows();
        if (this.deleted != null && count > 0) {
            int left = choose(found.column(this.place), count);
            if (left == 0) return null;
            if (left < count) {
                this.some.setNumRows(left);
                return this.some;
            }
        }
        this.whole.setNumRows(count);
        return this.whole;
    }
    private void begin(ColumnarBatch found) {
        this.source = found;
        this.kept = new Kept();
        int count = found.numCols() - (this.isAdded ? 1 : 0);
        ColumnVector[] columns = new ColumnVector[count];
        ColumnVector[] fewer = new ColumnVector[count];
        for (int i = 0; i < count; i++) {
            columns[i] = found.column(this.isAdded && i >= this.place ? i + 1 : i);
            fewer[i] = new KeptVector(columns[i], this.kept);
        }
        this.whole = this.isAdded ? new ColumnarBatch(columns) : found;
        this.some = new ColumnarBatch(fewer);
    }
    /** Which rows of a batch are left, and how many. */
    private int choose(ColumnVector positions, int count) {
        long first = positions.getLong(0);
        boolean isRun = positions.getLong(count - 1) - first == count - 1;
        if (isRun && !isAnyDeleted(first, first + count - 1)) return count;
        if (this.kept.places.length < count) this.kept.places = new int[count];
        int[] places = this.kept.places;
        int left = 0;
        for (int i = 0; i < count; i++)
            if (!isDeleted(isRun ? first + i : positions.getLong(i))) places[left++] = i;
        return left;
    }
    private boolean isAnyDeleted(long first, long last) {
        int end = (int) Math.min(last >> 6, (long) this.deleted.length - 1);
        for (int word = (int) (first >> 6); word <= end; word++) {
            long bits = this.deleted[word];
            if (word == (int) (first >> 6)) bits &= -1L << first;
            if (word == (int) (last >> 6)) bits &= -1L >>> (63 - (last & 63));
            if (bits != 0) return true;
        }
        return false;
    }
}

/** The places of the rows that are left in a batch: all of its columns share them. */
class Kept {
    int[] places = new int[0];
}

/** A column of which some rows are left. What it has is the reader's, and not freed here. */
class KeptVector extends ColumnVector {
    private final ColumnVector all;
    private final Kept kept;
    KeptVector(ColumnVector all, Kept kept) {
        super(all.dataType());
        this.all = all;
        this.kept = kept;
    }
    public void close() {}
    public void closeIfFreeable() {}
    public boolean hasNull() { return this.all.hasNull(); }
    public int numNulls() { return this.all.numNulls(); }
    public boolean isNullAt(int row) { return this.all.isNullAt(this.kept.places[row]); }
    public boolean getBoolean(int row) { return this.all.getBoolean(this.kept.places[row]); }
    public byte getByte(int row) { return this.all.getByte(this.kept.places[row]); }
    public short getShort(int row) { return this.all.getShort(this.kept.places[row]); }
    public int getInt(int row) { return this.all.getInt(this.kept.places[row]); }
    public long getLong(int row) { return this.all.getLong(this.kept.places[row]); }
    public float getFloat(int row) { return this.all.getFloat(this.kept.places[row]); }
    public double getDouble(int row) { return this.all.getDouble(this.kept.places[row]); }
    public ColumnarArray getArray(int row) { return this.all.getArray(this.kept.places[row]); }
    public ColumnarMap getMap(int row) { return this.all.getMap(this.kept.places[row]); }
    public Decimal getDecimal(int row, int precision, int scale) {
        return this.all.getDecimal(this.kept.places[row], precision, scale);
    }
    public UTF8String getUTF8String(int row) { return this.all.getUTF8String(this.kept.places[row]); }
    public byte[] getBinary(int row) { return this.all.getBinary(this.kept.places[row]); }
    public ColumnVector getChild(int ordinal) { return new KeptVector(this.all.getChild(ordinal), this.kept); }
}
