package batch

import "fmt"

// rebuildBatch re-encodes the records with offsets 0, 1, 2 ... and the target codec, and checks the result against the
// size limits. The batch was inspected: its records are known to decode within the limits. The builder compresses as it
// goes and the loop stops at the size limit, so that a small batch with large content takes no more memory than a large
// batch.
func rebuildBatch(b Batch, h *Header, rules *Rules) (Result, error) {
	o := h.BuilderOptions()
	if rules.Recompress {
		o.Codec, o.Level = rules.TargetCodec, rules.TargetLevel
	}
	builder := NewBuilder(o)
	r := b.Records(rules.limits())
	defer r.Close()
	for r.Next() {
		record := r.Record()
		builder.Add(record.Timestamp, record.Key, record.Value, record.Headers...)
		if rules.MaxMessageBytes > 0 && len(builder.buf) > rules.MaxMessageBytes {
			return Result{}, refuse(TooLarge, sizeError(len(builder.buf), int64(rules.MaxMessageBytes)))
		}
	}
	if err := r.Err(); err != nil {
		return Result{}, refuse(InvalidRecord, err)
	}
	rebuilt, err := builder.Build()
	if err != nil {
		return Result{}, refuse(InvalidRecord, fmt.Errorf("the batch cannot be rebuilt: %w", err))
	}
	if rules.MaxMessageBytes > 0 && len(rebuilt) > rules.MaxMessageBytes {
		return Result{}, refuse(TooLarge, sizeError(len(rebuilt), int64(rules.MaxMessageBytes)))
	}
	if err := checkSegment(rebuilt, rules); err != nil {
		return Result{}, err
	}
	return Result{Batch: rebuilt, Rebuilt: true}, nil
}
